// One library for each refusal, one message for each, and the process lives on.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "test/loader/support.h"

namespace dra::loader {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Refusal(const std::string& path) {
  const auto handle = LoadBackend(path);
  if (handle.ok()) {
    ADD_FAILURE() << path << " was loaded";
    return "";
  }
  return std::string(handle.status().message());
}

// A copy of a good library with some bytes of its ELF header replaced.
std::string Patched(const TempDir& dir, const std::string& name, size_t offset,
                    const std::string& bytes) {
  std::ifstream in(Lib("good"), std::ios::binary);
  std::string content(std::istreambuf_iterator<char>(in), {});
  content.replace(offset, bytes.size(), bytes);
  std::ofstream(dir.Path(name), std::ios::binary) << content;
  return dir.Path(name);
}

TEST(LoadBackend, TakesALibraryThatIsInOrder) {
  const auto handle = LoadBackend(Lib("good"));
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_EQ((*(*handle)->GetManifest())->name, "case");
  EXPECT_EQ((*handle)->Description().path, Lib("good"));
}

TEST(LoadBackend, TakesABackendBuiltAgainstTheHeaderOf10) {
  const auto handle = LoadBackend(Lib("dra-backend-abi-v1-0"));
  ASSERT_TRUE(handle.ok()) << handle.status();
  FakeServices services;
  ASSERT_TRUE((*handle)->Create("{}", &services, Call()).ok());
  const auto found = (*handle)->Discover({}, {}, Call());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->items.at(0).device->device.at("name"), "c0");
  PrepareArgs args = TwoDevices("u1");
  args.devices.resize(1);
  const auto prepared = (*handle)->Prepare(args, Call());
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->devices.at(0).edits.at("env").at(0), "PLAIN_C=1");
  EXPECT_EQ(services.undo().at("u1"), "c-undo");
  EXPECT_TRUE(
      (*handle)->Unprepare({args.claim, args.devices, services.undo().at("u1"), {}}, Call()).ok());
  EXPECT_EQ((*handle)->Unprepare({args.claim, args.devices, "other", {}}, Call()).code(),
            absl::StatusCode::kDataLoss);
}

TEST(LoadBackend, RefusesEachFaultWithItsOwnTextAndAdvice) {
  const TempDir dir;
  dir.Write("text.so",
            "#!/bin/sh\necho not a library, but long enough to hold a header of 64 bytes\n");
  ASSERT_EQ(::mkfifo(dir.Path("pipe.so").c_str(), 0600), 0);
  struct Case {
    const char* name;
    std::string path;
    std::vector<std::string> texts;
  };
  const Case cases[] = {
      {"relative", "good.so", {"must be absolute"}},
      {"empty", "", {"must be absolute"}},
      {"missing", dir.Path("none.so"), {"no such file", "check the path"}},
      {"below a file", Lib("good") + "/x.so", {"no such file"}},
      {"directory", dir.path(), {"is a directory", "path of the .so"}},
      {"pipe", dir.Path("pipe.so"), {"no regular file"}},
      {"not a library", dir.Path("text.so"), {"not a shared library"}},
      {"program",
       Patched(dir, "exec.so", 16, std::string("\x02\x00", 2)),
       {"no shared library", "dra_add_backend"}},
      {"other architecture",
       Patched(dir, "s390.so", 18, std::string("\x16\x00", 2)),
       {"built for s390x", "this node is"}},
      {"other class", Patched(dir, "class.so", 4, "\x01"), {"(32 bit)"}},
      {"unresolved symbol",
       Lib("unresolved"),
       {"undefined symbol: vendor_function_that_is_missing", "dlopen at run time"}},
      {"no entry", Lib("no_entry"), {"exports no dra_backend_entry", "DRA_BACKEND"}},
      {"other major", Lib("other_major"), {"9.4", "1.1", "update dra-driver"}},
      {"older major", Lib("older_major"), {"0.9", "1.1", "rebuild the backend"}},
      {"newer host needed",
       Lib("newer_host"),
       {"needs backend interface 1.9", "1.1", "update dra-driver"}},
      {"short struct", Lib("short_struct"), {"has at least", "rebuild it"}},
      {"tiny struct", Lib("tiny_struct"), {"4 bytes", "too few to name a version"}},
      {"missing function", Lib("missing_function"), {"required functions are NULL: unprepare"}},
      {"no table", Lib("null_table"), {"does not speak backend interface 1.1"}},
      {"junk manifest", Lib("junk_manifest"), {"manifest: name", "Not A Label"}},
  };
  std::set<std::string> texts;
  for (const Case& item : cases) {
    SCOPED_TRACE(item.name);
    const std::string refusal = Refusal(item.path);
    EXPECT_THAT(refusal, HasSubstr(item.path));
    for (const std::string& text : item.texts) EXPECT_THAT(refusal, HasSubstr(text));
    EXPECT_TRUE(texts.insert(refusal).second) << "the text is not its own";
  }
}

TEST(LoadBackend, RefusesAFileThatEverybodyMayReplace) {
  const TempDir dir;
  std::filesystem::copy_file(Lib("good"), dir.Path("open.so"));
  ASSERT_EQ(::chmod(dir.Path("open.so").c_str(), 0666), 0);
  EXPECT_THAT(Refusal(dir.Path("open.so")),
              AllOf(HasSubstr("everybody may write"), HasSubstr("chmod o-w")));

  std::filesystem::create_directory(dir.Path("sub"));
  std::filesystem::copy_file(Lib("good"), dir.Path("sub/x.so"));
  ASSERT_EQ(::chmod(dir.Path("sub").c_str(), 0777), 0);
  EXPECT_THAT(Refusal(dir.Path("sub/x.so")),
              HasSubstr("everybody may replace files in " + dir.Path("sub")));
  std::filesystem::create_symlink(dir.Path("sub/x.so"), dir.Path("link.so"));
  EXPECT_THAT(Refusal(dir.Path("link.so")), HasSubstr("everybody may replace files in"))
      << "the real path counts";
  ASSERT_EQ(::chmod(dir.Path("sub").c_str(), 01777), 0);
  EXPECT_TRUE(LoadBackend(dir.Path("sub/x.so")).ok()) << "the sticky bit protects";
}

// PLG-01: each refusal names both versions and the path, the good one loads.
TEST(Plg01, OneGoodBackendLoadsAmongRefusedOnes) {
  const TempDir dir;
  for (const char* name : {"good", "newer_host", "older_major", "no_entry"}) {
    std::filesystem::copy_file(Lib(name), dir.Path(std::string(name) + ".so"));
  }
  dir.Write("notelf.txt", "text");
  dir.Write("notelf.so", "text");
  const auto rows = ListBackends(dir.path());
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 6u);
  int usable = 0;
  for (const BackendFile& row : *rows) {
    SCOPED_TRACE(row.path);
    if (row.state == BackendFile::State::kUsable) {
      ++usable;
      EXPECT_EQ(row.path, dir.Path("good.so"));
    } else {
      EXPECT_NE(row.cause, "");
    }
  }
  EXPECT_EQ(usable, 1);
}

TEST(Plg07, NewerRuntimeIsRefusedWithSymbolVersionAndPath) {
  EXPECT_THAT(Refusal(Lib("newer_runtime")),
              AllOf(HasSubstr("GLIBCXX_3.4.99"), HasSubstr(Lib("newer_runtime")),
                    HasSubstr("newer system")));
}

TEST(Plg08, MissingSymbolRefusesAtLoadInsteadOfKillingAtTheFirstCall) {
  EXPECT_THAT(Refusal(Lib("unresolved")), HasSubstr("vendor_function_that_is_missing"));
}

TEST(Plg09, ListShowsEveryFileWithStateAndCauseInFixedOrder) {
  const TempDir dir;
  std::filesystem::copy_file(Lib("good"), dir.Path("dra-backend-a.so"));
  std::filesystem::copy_file(Lib("unresolved"), dir.Path("dra-backend-c.so"));
  std::filesystem::copy_file(Lib("dra-backend-hostile"), dir.Path("dra-backend-hostile.so"));
  const auto rows = ListBackends(dir.path() + "/");
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 3u);
  EXPECT_EQ((*rows)[0].path, dir.Path("dra-backend-a.so"));
  EXPECT_EQ((*rows)[0].state, BackendFile::State::kUsable);
  EXPECT_THAT((*rows)[0].cause, AllOf(HasSubstr("\"case\""), HasSubstr("dra-backend-case.so")));
  EXPECT_EQ((*rows)[1].state, BackendFile::State::kRefused);
  EXPECT_THAT((*rows)[1].cause, HasSubstr("undefined symbol"));
  EXPECT_EQ((*rows)[2].cause, "");
  EXPECT_EQ((*rows)[2].name, "hostile");

  // no verdict outlives a changed file
  std::filesystem::remove(dir.Path("dra-backend-c.so"));
  std::filesystem::copy_file(Lib("good"), dir.Path("dra-backend-c.so"));
  EXPECT_EQ(ListBackends(dir.path())->at(1).state, BackendFile::State::kUsable);
  EXPECT_EQ(ListBackends(dir.Path("none")).status().code(), absl::StatusCode::kNotFound);
}

TEST(Plg10, AReplacedFileIsNoticedAndTheOldCodeKeepsRunning) {
  const TempDir dir;
  std::filesystem::copy_file(Lib("good"), dir.Path("x.so"));
  const auto handle = LoadBackend(dir.Path("x.so"));
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_TRUE(CheckUnchanged(**handle).ok());
  std::filesystem::copy_file(Lib("dra-backend-hostile"), dir.Path("new"));
  std::filesystem::rename(dir.Path("new"), dir.Path("x.so"));
  EXPECT_THAT(std::string(CheckUnchanged(**handle).message()),
              AllOf(HasSubstr("replaced"), HasSubstr("restart the process")));
  FakeServices services;
  EXPECT_TRUE((*handle)->Create("{}", &services, Call()).ok());
  EXPECT_TRUE((*handle)->Discover({}, {}, Call()).ok());
  EXPECT_THAT(Refusal(dir.Path("x.so")), HasSubstr("replaced since this process loaded it"));
  std::filesystem::remove(dir.Path("x.so"));
  EXPECT_THAT(std::string(CheckUnchanged(**handle).message()), HasSubstr("removed"));
}

}  // namespace
}  // namespace dra::loader
