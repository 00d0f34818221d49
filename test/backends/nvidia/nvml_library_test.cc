#include "nvml_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace nvidia {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Tiny(const std::string& kind) {
  return std::string(TINY_NVML_DIR) + "/libnvml_" + kind + ".so";
}

class NvmlLibraryTest : public ::testing::Test {
 protected:
  NvmlLibraryTest() {
    std::string name = (fs::temp_directory_path() / "nvml-library-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    directory_ = name;
  }
  ~NvmlLibraryTest() override { fs::remove_all(directory_); }

  std::string Path(const std::string& name) const { return (directory_ / name).string(); }
  // Puts a file of another inode in the place.
  void Put(const std::string& kind, const std::string& name) const {
    fs::copy_file(Tiny(kind), Path("new"));
    fs::rename(Path("new"), Path(name));
  }
  fs::path directory_;
};

// What Open throws: code and text.
std::pair<dra_code, std::string> Refusal(const std::string& path) {
  try {
    NvmlLibrary::Open(path);
  } catch (const dra::BackendError& error) {
    return {error.code(), error.what()};
  }
  return {DRA_OK, ""};
}

TEST_F(NvmlLibraryTest, InitialisesWithoutGpusAndFallsBackToOlderNames) {
  const auto nvml = NvmlLibrary::Open(Tiny("few"));
  unsigned count = 0;
  EXPECT_EQ(nvml->nvmlDeviceGetCount_v2(&count), nvml::kSuccess);
  EXPECT_EQ(count, nvml::kInitNoGpus);  // this one tells what it was initialised with
}

TEST_F(NvmlLibraryTest, AnOldLibraryIsInitialisedByItsOwnName) {
  EXPECT_NE(NvmlLibrary::Open(Tiny("old")), nullptr);
}

TEST_F(NvmlLibraryTest, Plg08_AFunctionThatTheLibraryLacksAnswersSo) {
  const auto nvml = NvmlLibrary::Open(Tiny("few"));
  unsigned number = 0;
  EXPECT_EQ(nvml->nvmlDeviceGetArchitecture(nullptr, &number), nvml::kFunctionNotFound);
  EXPECT_EQ(nvml->nvmlDeviceSetComputeMode(nullptr, 0), nvml::kFunctionNotFound);
}

TEST_F(NvmlLibraryTest, Plg08_AMissingSymbolOfItsOwnIsAnErrorOfOpenNotTheEndOfTheProcess) {
  const auto [code, text] = Refusal(Tiny("unresolved"));
  EXPECT_EQ(code, DRA_UNAVAILABLE);
  EXPECT_THAT(text, HasSubstr("tiny_symbol_of_another_driver"));
}

TEST_F(NvmlLibraryTest, AMissingLibraryIsNotFound) {
  const auto [code, text] = Refusal(Path("libnvidia-ml.so.1"));
  EXPECT_EQ(code, DRA_NOT_FOUND);
  EXPECT_THAT(text, AllOf(HasSubstr(Path("libnvidia-ml.so.1")), HasSubstr("install")));
}

TEST_F(NvmlLibraryTest, AFileThatIsNoLibraryIsNamedAsSuch) {
  std::ofstream(Path("empty")).flush();
  std::ofstream(Path("script")) << "INPUT(libreal.so)\n";
  fs::create_directory(Path("directory"));
  for (const char* name : {"empty", "script", "directory"}) {
    SCOPED_TRACE(name);
    const auto [code, text] = Refusal(Path(name));
    EXPECT_EQ(code, DRA_UNAVAILABLE);
    EXPECT_THAT(text, AllOf(HasSubstr(Path(name)), HasSubstr("no shared library")));
  }
  std::ofstream(Path("cut")) << "\x7f"
                                "ELF";
  EXPECT_THAT(Refusal(Path("cut")).second, HasSubstr("cannot be loaded"));
}

TEST_F(NvmlLibraryTest, Inv14_ADriverThatIsNotLoadedSaysWhatToDo) {
  const auto [code, text] = Refusal(Tiny("not_loaded"));
  EXPECT_EQ(code, DRA_UNAVAILABLE);
  EXPECT_THAT(text, AllOf(HasSubstr("tiny (9)"), HasSubstr("modprobe nvidia")));
}

TEST_F(NvmlLibraryTest, Inv14_AVersionMismatchNeedsSomebodyToAct) {
  const auto [code, text] = Refusal(Tiny("mismatch"));
  EXPECT_EQ(code, DRA_FAILED_PRECONDITION);
  EXPECT_THAT(text, AllOf(HasSubstr("tiny (18)"), HasSubstr("reboot")));
}

TEST_F(NvmlLibraryTest, AnotherLibraryIsNotTakenForNvml) {
  const auto [code, text] = Refusal(Tiny("neither"));
  EXPECT_EQ(code, DRA_UNAVAILABLE);
  EXPECT_THAT(text, HasSubstr("neither nvmlInitWithFlags nor nvmlInit_v2"));
}

TEST_F(NvmlLibraryTest, ClosesWhatItOpenedAlsoAfterAFailure) {
  for (const char* kind : {"few", "not_loaded", "neither"}) {
    SCOPED_TRACE(kind);
    Put(kind, kind);
    try {
      NvmlLibrary::Open(Path(kind));
    } catch (const dra::BackendError&) {
    }
    EXPECT_EQ(dlopen(Path(kind).c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
  }
}

TEST_F(NvmlLibraryTest, SeesThatItWasReplaced) {
  Put("few", "libnvidia-ml.so.1.0");
  fs::create_symlink("libnvidia-ml.so.1.0", Path("libnvidia-ml.so.1"));
  const auto nvml = NvmlLibrary::Open(Path("libnvidia-ml.so.1"));
  EXPECT_EQ(nvml->path(), fs::canonical(Path("libnvidia-ml.so.1.0")));
  EXPECT_FALSE(nvml->Replaced());
  // The link leads elsewhere.
  Put("old", "libnvidia-ml.so.2.0");
  fs::create_symlink("libnvidia-ml.so.2.0", Path("link"));
  fs::rename(Path("link"), Path("libnvidia-ml.so.1"));
  EXPECT_TRUE(nvml->Replaced());
  // It leads back to the file.
  fs::remove(Path("libnvidia-ml.so.1"));
  EXPECT_TRUE(nvml->Replaced());
  fs::create_symlink("libnvidia-ml.so.1.0", Path("libnvidia-ml.so.1"));
  EXPECT_FALSE(nvml->Replaced());
  // Another file of the same name.
  Put("few", "libnvidia-ml.so.1.0");
  EXPECT_TRUE(nvml->Replaced());
}

TEST_F(NvmlLibraryTest, AnotherFileOfTheSameNameIsOpenedOnceTheFormerOneIsClosed) {
  Put("few", "libnvidia-ml.so.1");
  auto nvml = NvmlLibrary::Open(Path("libnvidia-ml.so.1"));
  EXPECT_NE(NvmlLibrary::Open(Path("libnvidia-ml.so.1")), nullptr);  // the same file, twice
  Put("mismatch", "libnvidia-ml.so.1");
  // The loader would give the former one without a word.
  const auto [code, text] = Refusal(Path("libnvidia-ml.so.1"));
  EXPECT_EQ(code, DRA_UNAVAILABLE);
  EXPECT_THAT(text, HasSubstr("former one is still loaded"));
  nvml.reset();
  EXPECT_EQ(Refusal(Path("libnvidia-ml.so.1")).first,
            DRA_FAILED_PRECONDITION);  // it is the new one
}

TEST_F(NvmlLibraryTest, AnErrorNamesFunctionSubjectAndTheLibrarysWords) {
  const auto nvml = NvmlLibrary::Open(Tiny("few"));
  EXPECT_NO_THROW(nvml->Check(nvml::kSuccess, "nvmlDeviceGetUUID", "GPU index 3"));
  try {
    nvml->Check(nvml::kGpuIsLost, "nvmlDeviceGetUUID", "GPU index 3");
    FAIL();
  } catch (const NvmlError& error) {
    EXPECT_STREQ(error.what(), "nvmlDeviceGetUUID of GPU index 3: GPU is lost (15)");
    EXPECT_EQ(error.result(), nvml::kGpuIsLost);
    EXPECT_EQ(error.code(), DRA_UNAVAILABLE);
  }
}

TEST_F(NvmlLibraryTest, WithoutWordsOfTheLibraryTheNumberIsTold) {
  EXPECT_EQ(NvmlLibrary::ForTest()->Describe(nvml::kGpuIsLost), "NVML error 15");
}

}  // namespace
}  // namespace nvidia
