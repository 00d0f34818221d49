// The program dra-nvidia-simulator on directories of its own: what it writes, what it refuses, and what its changes
// look like through the library that it installs.

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "nvml.h"

namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

#if defined(__aarch64__)
constexpr char kLibraries[] = "usr/lib/aarch64-linux-gnu/";
#else
constexpr char kLibraries[] = "usr/lib/x86_64-linux-gnu/";
#endif
constexpr char kVersion[] = "580.126.20";

struct Outcome {
  int exit_code = -1;
  std::string output;  // both streams
};

std::string Quote(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

Outcome Shell(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  size_t got = 0;
  while ((got = fread(buffer, 1, sizeof(buffer), pipe)) > 0) outcome.output.append(buffer, got);
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

// The library of a root, opened as a program on the host would.
class Library {
 public:
  explicit Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());  // ends the test
#define DRA_NVML_LOAD(symbol, parameters) \
  symbol = reinterpret_cast<nvml::Return(*) parameters>(dlsym(handle_, #symbol));
    DRA_NVML_FUNCTIONS(DRA_NVML_LOAD)
#undef DRA_NVML_LOAD
  }
  ~Library() { dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

#define DRA_NVML_MEMBER(symbol, parameters) nvml::Return(*symbol) parameters = nullptr;
  DRA_NVML_FUNCTIONS(DRA_NVML_MEMBER)
#undef DRA_NVML_MEMBER

  nvml::Return Init() const { return nvmlInitWithFlags(nvml::kInitNoGpus); }
  unsigned Count() const {
    unsigned count = 0;
    EXPECT_EQ(nvmlDeviceGetCount_v2(&count), nvml::kSuccess);
    return count;
  }
  nvml::Device Gpu(unsigned index) const {
    nvml::Device device = nullptr;
    EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(index, &device), nvml::kSuccess);
    return device;
  }
  std::string Uuid(unsigned index) const {
    char uuid[nvml::kUuidBytes] = {};
    EXPECT_EQ(nvmlDeviceGetUUID(Gpu(index), uuid, sizeof(uuid)), nvml::kSuccess);
    return uuid;
  }
  std::vector<std::string> MigUuids(unsigned index) const {
    std::vector<std::string> uuids;
    for (unsigned i = 0; i < 7; ++i) {
      nvml::Device mig = nullptr;
      if (nvmlDeviceGetMigDeviceHandleByIndex(Gpu(index), i, &mig) != nvml::kSuccess) continue;
      char uuid[nvml::kUuidBytes] = {};
      EXPECT_EQ(nvmlDeviceGetUUID(mig, uuid, sizeof(uuid)), nvml::kSuccess);
      uuids.push_back(uuid);
    }
    return uuids;
  }

 private:
  void* handle_ = nullptr;
};

class SimulatedHost : public testing::Test {
 protected:
  SimulatedHost() {
    std::string name = (fs::temp_directory_path() / "nvsim-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    directory_ = name;
    root_ = name + "/host";
  }
  ~SimulatedHost() override {
    std::error_code error;
    fs::remove_all(directory_, error);
  }

  Outcome Simulator(const std::vector<std::string>& arguments) const {
    std::string command = Quote(NVIDIA_SIMULATOR);
    for (const std::string& argument : arguments) command += " " + Quote(argument);
    return Shell(command);
  }
  std::string WriteModel(const std::string& text) const {
    std::ofstream(directory_ + "/model.yaml") << text;
    return directory_ + "/model.yaml";
  }
  // Without device nodes, which need root.
  Outcome Create(const std::string& model, std::vector<std::string> more = {"--no-nodes"}) const {
    more.insert(more.begin(), {"create", WriteModel(model), root_});
    return Simulator(more);
  }
  void MustCreate(const std::string& model,
                  const std::vector<std::string>& more = {"--no-nodes"}) const {
    const Outcome outcome = Create(model, more);
    if (outcome.exit_code != 0 || !outcome.output.empty())
      throw std::runtime_error(outcome.output);  // ends the test
  }
  Outcome Set(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"set", root_});
    return Simulator(arguments);
  }
  void MustSet(const std::vector<std::string>& arguments) const {
    const Outcome outcome = Set(arguments);
    if (outcome.exit_code != 0) throw std::runtime_error(outcome.output);
  }

  std::string At(const std::string& path) const { return root_ + "/" + path; }
  bool Exists(const std::string& path) const { return fs::exists(At(path)); }
  std::string Read(const std::string& path) const {
    std::ifstream file(At(path));
    EXPECT_TRUE(file) << At(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::vector<std::string> List(const std::string& path) const {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(At(path), error))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  // "gpu0/gi1/access" -> 12, of mig-minors.
  std::map<std::string, unsigned> MigMinors() const {
    std::map<std::string, unsigned> minors;
    std::istringstream text(Read("proc/driver/nvidia-caps/mig-minors"));
    std::string name;
    unsigned minor = 0;
    while (text >> name >> minor) minors[name] = minor;
    return minors;
  }
  std::unique_ptr<Library> Open() const {
    // By the file's own name: for a link's name that is open already, the loader gives the library from before.
    return std::make_unique<Library>(
        fs::canonical(At(std::string(kLibraries) + "libnvidia-ml.so.1")));
  }

  std::string directory_, root_;
};

constexpr char kTwoH100[] =
    "driver: {version: 580.126.20, cuda: 13.0}\ngpus: [{model: H100-80GB, count: 2}]\n";
constexpr char kMig[] = R"(driver: {version: 580.126.20, cuda: 13.0}
gpus:
  - model: A100-80GB
  - model: A100-80GB
    migMode: true
    mig: [{profile: 3g.40gb, start: 4}, {profile: 1g.10gb, start: 1}]
)";

// The soname that stands in a shared object.
std::string SonameOf(void* library) {
  const link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return dlerror();
  const char* strings = nullptr;
  size_t offset = 0;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_SONAME) offset = entry->d_un.d_val;
  }
  return strings + offset;
}

TEST_F(SimulatedHost, HasLibrariesThatLoadBesideLinksOfTheirSonames) {
  MustCreate(kTwoH100);
  size_t libraries = 0;
  for (const auto& entry : fs::recursive_directory_iterator(At(kLibraries))) {
    const std::string name = entry.path().filename();
    if (!entry.is_regular_file() || entry.is_symlink() || name.rfind("libnvidia-simulator", 0) == 0)
      continue;
    SCOPED_TRACE(name);
    void* library = dlopen(entry.path().c_str(), RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    const fs::path link = entry.path().parent_path() / SonameOf(library);
    EXPECT_TRUE(fs::equivalent(link, entry.path())) << link;
    dlclose(library);
    ++libraries;
  }
  EXPECT_GT(libraries, 10u);
  for (const char* name : {"libnvidia-ml.so.", "libcuda.so.", "libnvidia-ptxjitcompiler.so."})
    EXPECT_TRUE(fs::is_regular_file(At(kLibraries + std::string(name) + kVersion))) << name;
  EXPECT_TRUE(
      fs::is_regular_file(At(std::string("lib/firmware/nvidia/") + kVersion + "/gsp_ga10x.bin")));
  EXPECT_TRUE(fs::is_socket(At("run/nvidia-persistenced/socket")));
  EXPECT_EQ(access(At("usr/bin/nvidia-persistenced").c_str(), X_OK), 0);
}

TEST_F(SimulatedHost, ShowsTheDriverInProc) {
  MustCreate(kTwoH100);
  EXPECT_THAT(Read("proc/driver/nvidia/version"), HasSubstr(std::string("  ") + kVersion + "  "));
  EXPECT_THAT(
      Read("proc/devices"),
      AllOf(HasSubstr("\n195 nvidia\n"), HasSubstr("\n510 nvidia-uvm\n"),
            HasSubstr("\n236 nvidia-caps\n"), HasSubstr("\n235 nvidia-caps-imex-channels\n"),
            HasSubstr("\n\nBlock devices:\n")));
  EXPECT_EQ(Read("proc/sys/kernel/random/boot_id").size(), 37u);
  EXPECT_EQ(Read("sys/module/nvidia/version"), std::string(kVersion) + "\n");
  EXPECT_EQ(List("proc/driver/nvidia/gpus"), List("sys/bus/pci/devices"));
  const auto library = Open();
  ASSERT_EQ(library->Init(), nvml::kSuccess);
  nvml::PciInfo pci = {};
  ASSERT_EQ(library->nvmlDeviceGetPciInfo_v3(library->Gpu(1), &pci), nvml::kSuccess);
  const std::string bus_id = std::string(pci.bus_id).substr(4);
  EXPECT_THAT(Read("proc/driver/nvidia/gpus/" + bus_id + "/information"),
              AllOf(HasSubstr(library->Uuid(1)), HasSubstr("Device Minor: \t 1\n"),
                    HasSubstr("NVIDIA H100 80GB HBM3")));
}

TEST_F(SimulatedHost, ShowsTheCardsInSysfs) {
  MustCreate(
      "gpus:\n"
      "- {model: H100-80GB, numaNode: 1, pcieRoot: 'pci0001:a0', pci: {bus_id: "
      "'00000001:A7:00.0'}}\n"
      "- {model: T4, numaNode: -1, pcieRoot: 'pci0001:a0', pci: {bus_id: '00000001:B7:00.0'}}\n");
  const std::string device = "sys/bus/pci/devices/0001:a7:00.0/";
  EXPECT_EQ(Read(device + "vendor"), "0x10de\n");
  EXPECT_EQ(Read(device + "device"), "0x2330\n");
  EXPECT_EQ(Read(device + "class"), "0x030200\n");
  EXPECT_EQ(Read(device + "numa_node"), "1\n");
  EXPECT_EQ(Read("sys/bus/pci/devices/0001:b7:00.0/numa_node"), "-1\n");
  EXPECT_TRUE(fs::equivalent(At(device + "driver"), At("sys/bus/pci/drivers/nvidia")));
  EXPECT_TRUE(fs::equivalent(At("sys/bus/pci/drivers/nvidia/0001:a7:00.0"), At(device)));
  EXPECT_THAT(List(device + "drm"), ElementsAre("card1", "renderD128"));
  // Both hang on the root by ports of their own.
  const fs::path first = fs::canonical(At(device));
  const fs::path second = fs::canonical(At("sys/bus/pci/devices/0001:b7:00.0"));
  EXPECT_EQ(first.parent_path().parent_path().filename(), "pci0001:a0");
  EXPECT_EQ(second.parent_path().parent_path(), first.parent_path().parent_path());
  EXPECT_NE(second.parent_path(), first.parent_path());
}

TEST_F(SimulatedHost, GivesMigInstancesCapabilities) {
  MustCreate(kMig);
  const std::map<std::string, unsigned> minors = MigMinors();
  EXPECT_EQ(minors.at("config"), 1u);
  EXPECT_EQ(minors.at("gpu0/gi0/access"), 3u);
  EXPECT_EQ(minors.at("gpu0/gi3/access"), 30u);  // the example of NVIDIA's MIG User Guide
  const std::string mig = "proc/driver/nvidia/capabilities/gpu1/mig";
  ASSERT_EQ(List(mig).size(), 2u);
  for (const std::string& gi : List(mig)) {
    for (const std::string& below : {gi + "/access", gi + "/ci0/access"}) {
      EXPECT_EQ(Read(mig + "/" + below),
                "DeviceFileMinor: " + std::to_string(minors.at("gpu1/" + below)) +
                    "\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
    }
  }
  EXPECT_FALSE(Exists("proc/driver/nvidia/capabilities/gpu0"));
  const auto library = Open();
  ASSERT_EQ(library->Init(), nvml::kSuccess);
  EXPECT_EQ(library->MigUuids(1).size(), 2u);
}

// Device nodes need a right that not every machine gives.
bool CanMakeNodes(const std::string& directory) {
  const std::string path = directory + "/probe";
  const bool made = mknod(path.c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0;
  unlink(path.c_str());
  return made;
}

TEST_F(SimulatedHost, HasDeviceNodesWithTheNumbersOfProc) {
  if (!CanMakeNodes(directory_)) GTEST_SKIP() << "mknod is not allowed here";
  MustCreate(kMig, {});
  const auto number = [&](const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(lstat(At(path).c_str(), &info), 0) << path;
    EXPECT_TRUE(S_ISCHR(info.st_mode)) << path;
    return std::to_string(major(info.st_rdev)) + ":" + std::to_string(minor(info.st_rdev));
  };
  EXPECT_EQ(number("dev/nvidia0"), "195:0");
  EXPECT_EQ(number("dev/nvidia1"), "195:1");
  EXPECT_EQ(number("dev/nvidiactl"), "195:255");
  EXPECT_EQ(number("dev/nvidia-modeset"), "195:254");
  EXPECT_EQ(number("dev/nvidia-uvm"), "510:0");
  EXPECT_EQ(number("dev/nvidia-uvm-tools"), "510:1");
  EXPECT_EQ(number("dev/dri/renderD129"), "226:129");
  const std::map<std::string, unsigned> minors = MigMinors();
  const std::vector<std::string> instances = List("proc/driver/nvidia/capabilities/gpu1/mig");
  ASSERT_FALSE(instances.empty());
  for (const std::string& gi : instances) {
    for (const std::string& below : {gi + "/access", gi + "/ci0/access"}) {
      const std::string cap = std::to_string(minors.at("gpu1/" + below));
      EXPECT_EQ(number("dev/nvidia-caps/nvidia-cap" + cap), "236:" + cap);
    }
  }
  MustSet({"--major", "nvidia-uvm=511"});
  EXPECT_EQ(number("dev/nvidia-uvm"), "511:0");
  EXPECT_THAT(Read("proc/devices"), HasSubstr("\n511 nvidia-uvm\n"));
  MustSet({"--unload-driver"});
  EXPECT_THAT(List("dev"), IsEmpty());
  EXPECT_TRUE(Exists("dev"));
}

TEST_F(SimulatedHost, LaysOutADriverContainer) {
  MustCreate(kTwoH100, {"--driver-root", "/run/nvidia/driver", "--library-directory", "usr/lib64",
                        "--no-nodes"});
  EXPECT_TRUE(Exists("run/nvidia/driver/usr/lib64/libnvidia-ml.so.1"));
  EXPECT_TRUE(Exists("run/nvidia/driver/usr/bin/nvidia-smi"));
  EXPECT_TRUE(Exists("run/nvidia/driver/dev"));
  EXPECT_TRUE(Exists("proc/driver/nvidia/version"));
  EXPECT_FALSE(Exists("usr"));
  const Library library(At("run/nvidia/driver/usr/lib64/libnvidia-ml.so.1"));
  ASSERT_EQ(library.Init(), nvml::kSuccess);
  EXPECT_EQ(library.Count(), 2u);
}

TEST_F(SimulatedHost, IsMadeAnewWithoutLeftovers) {
  MustCreate(kMig);
  MustCreate("driver: {version: 570.195.03, cuda: 12.8}\ngpus: [{model: T4}]\n");
  EXPECT_THAT(List("proc/driver/nvidia/gpus").size(), 1u);
  EXPECT_FALSE(Exists("proc/driver/nvidia/capabilities/gpu1"));
  for (const std::string& name : List(kLibraries)) EXPECT_THAT(name, Not(HasSubstr(kVersion)));
  const auto library = Open();
  ASSERT_EQ(library->Init(), nvml::kSuccess);
  EXPECT_EQ(library->Count(), 1u);
}

TEST_F(SimulatedHost, IsMadeAnewAfterOneThatDidNotEnd) {
  MustCreate(kTwoH100);
  fs::remove(At(std::string(kLibraries) + "libnvidia-simulator.so." + kVersion));
  EXPECT_THAT(Set({"--reboot"}).output, HasSubstr("`create` makes it anew"));
  MustCreate(kTwoH100);
  MustSet({"--reboot"});
}

TEST_F(SimulatedHost, DiffersByNode) {
  MustCreate(kTwoH100, {"--no-nodes", "--node", "a"});
  const std::string show = Simulator({"show", root_}).output;
  MustCreate(kTwoH100, {"--no-nodes", "--node", "b"});
  EXPECT_NE(Simulator({"show", root_}).output, show);
  MustCreate(kTwoH100, {"--no-nodes", "--node", "a"});
  EXPECT_EQ(Simulator({"show", root_}).output, show);
}

TEST_F(SimulatedHost, LeavesAloneWhatIsNotItsOwn) {
  fs::create_directories(At("proc"));
  std::ofstream(At("proc/devices")) << "mine";
  const Outcome outcome = Create(kTwoH100);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("proc/devices is there and is not the simulator's"));
  EXPECT_EQ(Read("proc/devices"), "mine");
  EXPECT_THAT(List("."), ElementsAre("proc"));
  EXPECT_THAT(Simulator({"create", WriteModel(kTwoH100), "/"}).output, HasSubstr("not be \"/\""));
  EXPECT_THAT(Set({"--reboot"}).output, HasSubstr("is no simulated host"));
}

TEST_F(SimulatedHost, GetsItsDriverLater) {
  MustCreate(kTwoH100, {"--no-nodes", "--not-installed"});
  EXPECT_FALSE(Exists(std::string(kLibraries) + "libnvidia-ml.so.1"));
  EXPECT_FALSE(Exists("proc/driver"));
  EXPECT_FALSE(Exists("sys/module"));
  EXPECT_EQ(List("sys/bus/pci/devices").size(), 2u);
  EXPECT_THAT(Read("proc/devices"), Not(HasSubstr("nvidia")));
  MustSet({"--install"});
  EXPECT_TRUE(Exists("proc/driver/nvidia/version"));
  {
    const auto library = Open();
    EXPECT_EQ(library->Init(), nvml::kSuccess);
  }
  MustSet({"--uninstall"});
  EXPECT_FALSE(Exists(std::string(kLibraries) + "libnvidia-ml.so.1"));
  EXPECT_FALSE(Exists("proc/driver"));
}

TEST_F(SimulatedHost, RefusesAModelThatIsWrong) {
  const struct {
    const char* name;
    const char* model;
    std::vector<std::string> words;
  } cases[] = {
      {"no YAML", "gpus: [", {"model.yaml: line 1"}},
      {"no mapping", "- a\n", {"must be one YAML mapping"}},
      {"key twice", "driver: {}\ndriver: {}\n", {"driver: stands there twice"}},
      {"unknown key", "gpu: []\n", {"gpu: "}},
      {"unknown key below", "driver: {verion: 580.1.1}\n", {"driver.verion: "}},
      {"unknown key of a card", "gpus: [{model: T4, numa: 1}]\n", {"gpus[0].numa: "}},
      {"list", "gpus: {model: T4}\n", {"gpus: must be a list"}},
      {"no model", "gpus: [{count: 2}]\n", {"gpus[0].model: is required", "H100-80GB"}},
      {"model", "gpus: [{model: H800}]\n", {"gpus[0].model: ", "H800", "H100-80GB"}},
      {"count", "gpus: [{model: T4, count: 0}]\n", {"gpus[0].count: 0 is not in 1..64"}},
      {"kind", "gpus: [{model: T4, lost: 1}]\n", {"gpus[0].lost: must be true or false"}},
      {"bus id",
       "gpus: [{model: T4, pci: {bus_id: '65:00'}}]\n",
       {"gpus[0].pci.bus_id: ", "65:00"}},
      {"one UUID", "gpus: [{model: T4, count: 2, uuid: GPU-1}]\n", {"gpus[1].uuid: GPU-1"}},
      {"no MIG", "gpus: [{model: T4, migMode: true}]\n", {"gpus[0].migMode: "}},
      {"profile",
       "gpus: [{model: H100-80GB, migMode: true, mig: [{profile: 1g.5gb, start: 0}]}]\n",
       {"gpus[0].mig[0].profile: ", "1g.5gb", "1g.10gb"}},
      {"overlap",
       "gpus: [{model: H100-80GB, migMode: true, mig: [{profile: 4g.40gb, start: 0}, {profile: "
       "1g.10gb, start: 1}]}]\n",
       {"gpus[0].mig[1].start: "}},
      {"fault",
       "gpus: [{model: T4}]\nfaults: [{function: f, return: 3}]\n",
       {"faults[0].function"}},
      {"fault of no GPU",
       "gpus: [{model: T4}]\nfaults: [{function: nvmlDeviceGetUUID, gpu: 1, return: 3}]\n",
       {"faults[0].gpu: ", "\"1\""}},
      {"return",
       "gpus: [{model: T4}]\nfaults: [{function: nvmlDeviceGetUUID, return: LOST}]\n",
       {"faults[0].return: ", "LOST"}},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.name);
    const Outcome outcome = Create(each.model);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.output, HasSubstr("model.yaml: "));
    for (const std::string& word : each.words) EXPECT_THAT(outcome.output, HasSubstr(word));
    EXPECT_FALSE(Exists("."));
  }
}

TEST_F(SimulatedHost, MakesEveryModelThatComesWithIt) {
  size_t models = 0;
  for (const auto& entry : fs::directory_iterator(NVIDIA_SIMULATOR_MODELS)) {
    SCOPED_TRACE(entry.path());
    const Outcome outcome = Simulator({"create", entry.path(), root_, "--no-nodes"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    const auto library = Open();
    EXPECT_EQ(library->Init(), nvml::kSuccess);
    EXPECT_EQ(library->Count(), List("proc/driver/nvidia/gpus").size());
    ++models;
  }
  EXPECT_EQ(models, 6u);
}

TEST_F(SimulatedHost, LosesAndHealsAGpu) {
  MustCreate(kTwoH100);
  const auto library = Open();
  ASSERT_EQ(library->Init(), nvml::kSuccess);
  nvml::Memory memory = {};
  const nvml::Device first = library->Gpu(0), second = library->Gpu(1);
  EXPECT_EQ(library->nvmlDeviceGetMemoryInfo(second, &memory), nvml::kSuccess);
  MustSet({"--gpu", "1", "--lost"});
  EXPECT_EQ(library->nvmlDeviceGetMemoryInfo(second, &memory), nvml::kGpuIsLost);
  EXPECT_EQ(library->nvmlDeviceGetMemoryInfo(first, &memory), nvml::kSuccess);
  MustSet({"--gpu", "1", "--heal"});
  EXPECT_EQ(library->nvmlDeviceGetMemoryInfo(second, &memory), nvml::kSuccess);
}

TEST_F(SimulatedHost, TellsErrorsOfMemory) {
  MustCreate(kTwoH100);
  const auto library = Open();
  ASSERT_EQ(library->Init(), nvml::kSuccess);
  MustSet({"--gpu", library->Uuid(0), "--ecc", "3", "--remap-pending"});
  unsigned long long errors = 0;
  EXPECT_EQ(library->nvmlDeviceGetTotalEccErrors(library->Gpu(0), nvml::kEccUncorrected,
                                                 nvml::kEccVolatile, &errors),
            nvml::kSuccess);
  EXPECT_EQ(errors, 3u);
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  const auto rows = [&] {
    return library->nvmlDeviceGetRemappedRows(library->Gpu(0), &corrected, &uncorrected, &pending,
                                              &failed);
  };
  EXPECT_EQ(rows(), nvml::kSuccess);
  EXPECT_EQ(pending, 1u);
  MustSet({"--gpu", "0", "--reset"});
  EXPECT_EQ(rows(), nvml::kSuccess);
  EXPECT_EQ(pending, 0u);
  EXPECT_EQ(uncorrected, 1u);
}

TEST_F(SimulatedHost, SendsXids) {
  MustCreate(kMig);
  const auto library = Open();
  ASSERT_EQ(library->Init(), nvml::kSuccess);
  nvml::EventSet set = nullptr;
  ASSERT_EQ(library->nvmlEventSetCreate(&set), nvml::kSuccess);
  ASSERT_EQ(library->nvmlDeviceRegisterEvents(library->Gpu(1), nvml::kEventXid, set),
            nvml::kSuccess);
  const std::string gi = List("proc/driver/nvidia/capabilities/gpu1/mig").front().substr(2);
  MustSet({"--gpu", "1", "--xid", "94", "--instance", gi + ":0"});
  MustSet({"--gpu", "0", "--xid", "31"});  // not registered
  nvml::EventData data = {};
  ASSERT_EQ(library->nvmlEventSetWait_v2(set, &data, 5000), nvml::kSuccess);
  EXPECT_EQ(data.event_type, nvml::kEventXid);
  EXPECT_EQ(data.event_data, 94u);
  EXPECT_EQ(std::to_string(data.gpu_instance_id), gi);
  EXPECT_EQ(data.compute_instance_id, 0u);
  EXPECT_EQ(library->nvmlEventSetWait_v2(set, &data, 1), nvml::kTimeout);
  EXPECT_EQ(library->nvmlEventSetFree(set), nvml::kSuccess);
  EXPECT_THAT(Set({"--gpu", "1", "--xid", "94", "--instance", "14"}).output,
              HasSubstr("no GPU instance 14"));
  EXPECT_THAT(Set({"--gpu", "1", "--event", "xyz"}).output, HasSubstr("xyz"));
}

TEST_F(SimulatedHost, SendsAnEventOfEachSetThatChangesMig) {
  MustCreate(kTwoH100);
  const auto library = Open();
  ASSERT_EQ(library->Init(), nvml::kSuccess);
  nvml::EventSet set = nullptr;
  ASSERT_EQ(library->nvmlEventSetCreate(&set), nvml::kSuccess);
  ASSERT_EQ(library->nvmlDeviceRegisterEvents(library->Gpu(0), nvml::kEventMigConfigChange, set),
            nvml::kSuccess);
  for (const std::vector<std::string>& change : std::vector<std::vector<std::string>>{
           {"--mig", "on"},
           {"--mig-create", "1g.10gb:0", "--mig-create", "1g.10gb:1"},
           {"--mig-destroy", "1g.10gb:0"},
           {"--merge", R"({"mig": []})"},
           {"--mig", "off"}}) {
    SCOPED_TRACE(change.back());
    std::vector<std::string> arguments = {"--gpu", "0"};
    arguments.insert(arguments.end(), change.begin(), change.end());
    MustSet(arguments);
    nvml::EventData data = {};
    ASSERT_EQ(library->nvmlEventSetWait_v2(set, &data, 5000), nvml::kSuccess);
    EXPECT_EQ(data.event_type, nvml::kEventMigConfigChange);
    EXPECT_EQ(data.device, library->Gpu(0));
    EXPECT_EQ(library->nvmlEventSetWait_v2(set, &data, 0), nvml::kTimeout);
  }
  MustSet({"--gpu", "1", "--mig", "on"});
  MustSet({"--gpu", "0", "--mig", "off", "--ecc", "1"});
  nvml::EventData data = {};
  EXPECT_EQ(library->nvmlEventSetWait_v2(set, &data, 0), nvml::kTimeout);
  EXPECT_EQ(library->nvmlEventSetFree(set), nvml::kSuccess);
}

TEST_F(SimulatedHost, AsksForARecoveryUntilItIsMade) {
  MustCreate("gpus: [{model: H100-80GB, count: 2, recoveryAction: null}]\n");
  const auto library = Open();
  ASSERT_EQ(library->Init(), nvml::kSuccess);
  const auto ask = [&](unsigned index) {
    nvml::FieldValue field = {};
    field.field_id = nvml::kFieldGpuRecoveryAction;
    EXPECT_EQ(library->nvmlDeviceGetFieldValues(library->Gpu(index), 1, &field), nvml::kSuccess);
    return field.nvml_return == nvml::kSuccess ? static_cast<int>(field.value)
                                               : -static_cast<int>(field.nvml_return);
  };
  EXPECT_EQ(ask(0), -nvml::kNotSupported);  // an older driver
  MustSet({"--gpu", "all", "--merge", R"({"recoveryAction": "none"})"});
  EXPECT_EQ(ask(0), 0);
  nvml::EventSet set = nullptr;
  ASSERT_EQ(library->nvmlEventSetCreate(&set), nvml::kSuccess);
  ASSERT_EQ(library->nvmlDeviceRegisterEvents(library->Gpu(0),
                                              nvml::kEventXid | nvml::kEventGpuRecoveryAction, set),
            nvml::kSuccess);
  MustSet({"--gpu", "0", "--recovery-action", "drain-and-reset"});
  EXPECT_EQ(ask(0), 4);
  EXPECT_EQ(ask(1), 0);
  nvml::EventData data = {};
  ASSERT_EQ(library->nvmlEventSetWait_v2(set, &data, 5000), nvml::kSuccess);
  EXPECT_EQ(data.event_data, 154u);
  ASSERT_EQ(library->nvmlEventSetWait_v2(set, &data, 5000), nvml::kSuccess);
  EXPECT_EQ(data.event_type, nvml::kEventGpuRecoveryAction);
  MustSet({"--gpu", "0", "--recovery-action", "drain-and-reset"});  // no change
  EXPECT_EQ(library->nvmlEventSetWait_v2(set, &data, 0), nvml::kTimeout);
  MustSet({"--gpu", "0", "--reset"});
  EXPECT_EQ(ask(0), 0);
  MustSet({"--gpu", "0", "--recovery-action", "node-reboot"});
  MustSet({"--gpu", "0", "--reset"});
  EXPECT_EQ(ask(0), 2);  // not enough
  MustSet({"--reboot"});
  EXPECT_EQ(ask(0), 0);
  EXPECT_THAT(Set({"--gpu", "0", "--recovery-action", "prayer"}).output,
              AllOf(HasSubstr("\"prayer\""), HasSubstr("none, gpu-reset, node-reboot")));
  EXPECT_EQ(library->nvmlEventSetFree(set), nvml::kSuccess);
}

TEST_F(SimulatedHost, MakesAndDestroysMigInstances) {
  MustCreate(kTwoH100);
  EXPECT_THAT(Set({"--gpu", "0", "--mig-create", "1g.10gb:2"}).output, HasSubstr("MIG is off"));
  MustSet({"--gpu", "0", "--mig", "on"});
  MustSet({"--gpu", "0", "--mig-create", "1g.10gb:2", "--mig-create", "3g.40gb"});
  const std::string capabilities = "proc/driver/nvidia/capabilities/gpu0/mig";
  EXPECT_EQ(List(capabilities).size(), 2u);
  const auto library = Open();
  ASSERT_EQ(library->Init(), nvml::kSuccess);
  EXPECT_EQ(library->MigUuids(0).size(), 2u);
  EXPECT_THAT(Set({"--gpu", "0", "--mig-create", "3g.40gb:0"}).output,
              HasSubstr("INSUFFICIENT_RESOURCES"));
  EXPECT_THAT(Set({"--gpu", "0", "--mig-create", "9g.40gb:0"}).output,
              AllOf(HasSubstr("9g.40gb"), HasSubstr("1g.20gb")));
  EXPECT_THAT(Set({"--gpu", "0", "--mig-destroy", "1g.10gb:3"}).output,
              HasSubstr("it has 1g.10gb:2, 3g.40gb:4"));
  MustSet({"--gpu", "0", "--mig-destroy", "1g.10gb:2"});
  EXPECT_EQ(List(capabilities).size(), 1u);
  EXPECT_EQ(library->MigUuids(0).size(), 1u);
  MustSet({"--gpu", "0", "--mig", "off"});
  EXPECT_FALSE(Exists(capabilities));
}

TEST_F(SimulatedHost, RefusesToChangeWhatIsHeld) {
  MustCreate(kMig);
  MustSet({"--gpu", "1", "--hold", "4711", "--hold", "trainer"});
  EXPECT_EQ(Read("sys/module/nvidia/refcnt"), "2\n");
  for (const std::vector<std::string>& change :
       std::vector<std::vector<std::string>>{{"--gpu", "1", "--mig", "off"},
                                             {"--gpu", "1", "--reset"},
                                             {"--reload-driver"},
                                             {"--unload-driver"},
                                             {"--driver-upgrade", "590.10.01"}}) {
    const Outcome outcome = Set(change);
    EXPECT_EQ(outcome.exit_code, 1) << change.back();
    EXPECT_THAT(outcome.output, AllOf(HasSubstr("4711, trainer"), HasSubstr("--release")));
  }
  EXPECT_TRUE(Exists(std::string(kLibraries) + "libcuda.so." + kVersion));
  EXPECT_EQ(List("proc/driver/nvidia/capabilities/gpu1/mig").size(), 2u);
  MustSet({"--gpu", "1", "--release", "--mig", "off"});
  EXPECT_FALSE(Exists("proc/driver/nvidia/capabilities/gpu1"));
}

TEST_F(SimulatedHost, UpgradesTheDriverInTwoSteps) {
  MustCreate(kTwoH100);
  const std::string path = std::string(kLibraries) + "libnvidia-ml.so.1";
  const auto before = Open();
  ASSERT_EQ(before->Init(), nvml::kSuccess);
  struct stat old_file = {}, new_file = {};
  ASSERT_EQ(stat(At(path).c_str(), &old_file), 0);
  MustSet({"--driver-upgrade", "590.10.01", "--cuda", "13.1", "--only-library"});
  ASSERT_EQ(stat(At(path).c_str(), &new_file), 0);
  EXPECT_NE(new_file.st_ino, old_file.st_ino);
  EXPECT_EQ(fs::read_symlink(At(path)), "libnvidia-ml.so.590.10.01");
  for (const std::string& name : List(kLibraries)) EXPECT_THAT(name, Not(HasSubstr(kVersion)));
  EXPECT_THAT(Read("proc/driver/nvidia/version"), HasSubstr(kVersion));
  EXPECT_THAT(List("lib/firmware/nvidia"), ElementsAre("590.10.01"));
  {
    const auto between = Open();
    EXPECT_EQ(between->Init(), nvml::kLibRmVersionMismatch);
  }
  MustSet({"--reload-driver"});
  EXPECT_THAT(Read("proc/driver/nvidia/version"), HasSubstr("590.10.01"));
  const auto after = Open();
  ASSERT_EQ(after->Init(), nvml::kSuccess);
  char version[nvml::kVersionBytes] = {};
  EXPECT_EQ(after->nvmlSystemGetDriverVersion(version, sizeof(version)), nvml::kSuccess);
  EXPECT_STREQ(version, "590.10.01");
  int cuda = 0;
  EXPECT_EQ(after->nvmlSystemGetCudaDriverVersion_v2(&cuda), nvml::kSuccess);
  EXPECT_EQ(cuda, 13010);
  MustSet({"--driver-upgrade", "590.20.02", "--only-kernel"});
  EXPECT_EQ(fs::read_symlink(At(path)), "libnvidia-ml.so.590.10.01");
  EXPECT_EQ(Read("sys/module/nvidia/version"), "590.20.02\n");
  EXPECT_EQ(after->nvmlShutdown(), nvml::kSuccess);
  EXPECT_EQ(after->Init(), nvml::kLibRmVersionMismatch);
  EXPECT_THAT(Set({"--driver-upgrade", "new"}).output, HasSubstr("\"new\""));
}

TEST_F(SimulatedHost, KeepsAmpereInMigModeOverAReload) {
  MustCreate("gpus: [{model: A100-80GB, migMode: true}, {model: H100-80GB, migMode: true}]\n");
  MustSet({"--gpu", "all", "--mig-create", "1g.10gb:0"});
  MustSet({"--reload-driver"});
  EXPECT_FALSE(Exists("proc/driver/nvidia/capabilities/gpu0"));
  EXPECT_THAT(Set({"--gpu", "0", "--mig-create", "1g.10gb:0"}).exit_code, 0);
  EXPECT_THAT(Set({"--gpu", "1", "--mig-create", "1g.10gb:0"}).output, HasSubstr("MIG is off"));
}

TEST_F(SimulatedHost, BootsAnew) {
  MustCreate(kTwoH100);
  const std::string boot = Read("proc/sys/kernel/random/boot_id");
  MustSet({"--gpu", "0", "--lost", "--hold", "1"});
  EXPECT_EQ(Read("proc/sys/kernel/random/boot_id"), boot);
  MustSet({"--reboot"});
  EXPECT_NE(Read("proc/sys/kernel/random/boot_id"), boot);
  EXPECT_EQ(Read("sys/module/nvidia/refcnt"), "0\n");
  const auto library = Open();
  ASSERT_EQ(library->Init(), nvml::kSuccess);
  nvml::Memory memory = {};
  EXPECT_EQ(library->nvmlDeviceGetMemoryInfo(library->Gpu(0), &memory), nvml::kSuccess);
}

TEST_F(SimulatedHost, ChangesMinors) {
  MustCreate("gpus: [{model: L4, count: 3}]\n");
  std::string first;
  {
    const auto library = Open();
    ASSERT_EQ(library->Init(), nvml::kSuccess);
    first = library->Uuid(0);
  }
  MustSet({"--minors", "reversed"});
  const auto library = Open();
  ASSERT_EQ(library->Init(), nvml::kSuccess);
  unsigned minor = 0;
  EXPECT_EQ(library->Uuid(0), first);
  EXPECT_EQ(library->nvmlDeviceGetMinorNumber(library->Gpu(0), &minor), nvml::kSuccess);
  EXPECT_EQ(minor, 2u);
  EXPECT_THAT(
      Read("proc/driver/nvidia/gpus/" + List("proc/driver/nvidia/gpus")[0] + "/information"),
      HasSubstr("Device Minor: \t 2\n"));
  for (const char* wrong : {"0,1", "0,1,1", "a"})
    EXPECT_THAT(Set({"--minors", wrong}).output, HasSubstr("\"" + std::string(wrong) + "\""));
}

TEST_F(SimulatedHost, LosesAndGainsGpus) {
  MustCreate("gpus: [{model: L4, count: 3}]\n");
  const std::vector<std::string> all = List("sys/bus/pci/devices");
  std::string second;
  {
    const auto library = Open();
    ASSERT_EQ(library->Init(), nvml::kSuccess);
    second = library->Uuid(1);
  }
  MustSet({"--gpu", "1", "--remove-gpu"});
  EXPECT_THAT(List("sys/bus/pci/devices"), ElementsAre(all[0], all[2]));
  EXPECT_EQ(List("proc/driver/nvidia/gpus").size(), 2u);
  {
    const auto library = Open();
    ASSERT_EQ(library->Init(), nvml::kSuccess);
    EXPECT_EQ(library->Count(), 2u);
  }
  MustSet({"--add-gpu", "L4", "--add-gpu", "T4"});
  EXPECT_EQ(List("sys/bus/pci/devices").size(), 4u);
  const auto library = Open();
  ASSERT_EQ(library->Init(), nvml::kSuccess);
  EXPECT_EQ(library->Count(), 4u);
  EXPECT_EQ(library->Uuid(1), second);  // the slot's card is back, and where it was
  EXPECT_THAT(Set({"--gpu", "7", "--lost"}).output, HasSubstr("there is no GPU \"7\""));
  EXPECT_THAT(Set({"--lost"}).output, HasSubstr("--gpu"));
}

TEST_F(SimulatedHost, FailsCallsAsTold) {
  MustCreate(kTwoH100);
  const auto library = Open();
  ASSERT_EQ(library->Init(), nvml::kSuccess);
  MustSet({"--gpu", "1", "--fault", "nvmlDeviceGetMinorNumber=NO_PERMISSION:2"});
  unsigned minor = 0;
  EXPECT_EQ(library->nvmlDeviceGetMinorNumber(library->Gpu(0), &minor), nvml::kSuccess);
  EXPECT_EQ(library->nvmlDeviceGetMinorNumber(library->Gpu(1), &minor), nvml::kNoPermission);
  EXPECT_EQ(library->nvmlDeviceGetMinorNumber(library->Gpu(1), &minor), nvml::kNoPermission);
  EXPECT_EQ(library->nvmlDeviceGetMinorNumber(library->Gpu(1), &minor), nvml::kSuccess);
  MustSet({"--fault", "nvmlDeviceGetName=3"});
  char name[nvml::kNameBytes] = {};
  EXPECT_EQ(library->nvmlDeviceGetName(library->Gpu(0), name, sizeof(name)), nvml::kNotSupported);
  MustSet({"--clear-faults"});
  MustSet({"--gpu", "0", "--hang", "nvmlDeviceGetName=0.2:1"});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(library->nvmlDeviceGetName(library->Gpu(0), name, sizeof(name)), nvml::kSuccess);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(200));
  MustSet({"--fault", "nvmlDeviceGetName=3", "--gpu", "0"});
  MustSet({"--clear-faults", "--gpu", "1"});  // not that one
  EXPECT_EQ(library->nvmlDeviceGetName(library->Gpu(0), name, sizeof(name)), nvml::kNotSupported);
  MustSet({"--clear-faults", "--gpu", "0"});
  EXPECT_EQ(library->nvmlDeviceGetName(library->Gpu(0), name, sizeof(name)), nvml::kSuccess);
  EXPECT_THAT(Set({"--fault", "nvmlDeviceGetNmae=3"}).output, HasSubstr("nvmlDeviceGetNmae"));
  EXPECT_THAT(Set({"--fault", "nvmlDeviceGetName=LOST"}).output, HasSubstr("\"LOST\""));
  EXPECT_THAT(Set({"--hang", "nvmlDeviceGetName=x"}).output, HasSubstr("\"x\""));
}

TEST_F(SimulatedHost, TakesAnyMemberByJson) {
  MustCreate(kTwoH100);
  MustSet({"--gpu", "0", "--merge", R"({"fabric": {"state": 2}, "serial": "77"})"});
  MustSet({"--merge-node", R"({"driver": {"loaded": false}})"});
  const std::string shown = Simulator({"show", root_}).output;
  EXPECT_THAT(shown, AllOf(HasSubstr("\"serial\": \"77\""), HasSubstr("\"loaded\": false")));
  EXPECT_FALSE(Exists("proc/driver"));
  EXPECT_THAT(Set({"--gpu", "0", "--merge", "[]"}).output, HasSubstr("not a JSON object"));
  EXPECT_THAT(Set({"--gpu", "0", "--merge", R"({"serail": 1})"}).output,
              HasSubstr("gpus[0].serail"));
  EXPECT_EQ(Simulator({"show", root_}).output, shown);
}

TEST_F(SimulatedHost, FollowsInstancesThatTheLibraryMade) {
  MustCreate("gpus: [{model: H100-80GB, migMode: true}]\n");
  const auto library = Open();
  ASSERT_EQ(library->Init(), nvml::kSuccess);
  nvml::GpuInstance instance = nullptr;
  nvml::ComputeInstance compute = nullptr;
  ASSERT_EQ(library->nvmlDeviceCreateGpuInstance(library->Gpu(0), 14, &instance), nvml::kSuccess);
  ASSERT_EQ(library->nvmlGpuInstanceCreateComputeInstance(instance, 1, &compute), nvml::kSuccess);
  EXPECT_EQ(Simulator({"sync", root_}).exit_code, 0);
  EXPECT_EQ(List("proc/driver/nvidia/capabilities/gpu0/mig").size(), 1u);
}

TEST_F(SimulatedHost, HasAnNvidiaSmi) {
  MustCreate(kMig);
  const auto smi = [&](const std::string& arguments) {
    return Shell("LD_LIBRARY_PATH=" + Quote(At(kLibraries)) + " " +
                 Quote(At("usr/bin/nvidia-smi")) + " " + arguments);
  };
  const auto library = Open();
  ASSERT_EQ(library->Init(), nvml::kSuccess);
  const Outcome list = smi("-L");
  EXPECT_EQ(list.exit_code, 0) << list.output;
  EXPECT_THAT(list.output,
              AllOf(HasSubstr("GPU 0: NVIDIA A100-SXM4-80GB (UUID: " + library->Uuid(0) + ")\n"),
                    HasSubstr("GPU 1: ")));
  std::vector<std::string> lines;
  std::istringstream text(list.output);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  EXPECT_EQ(lines.size(), 4u) << list.output;
  for (const std::string& uuid : library->MigUuids(1))
    EXPECT_THAT(lines, Contains(AllOf(HasSubstr("  MIG "), HasSubstr("(UUID: " + uuid + ")"))));
  EXPECT_THAT(lines, Contains(HasSubstr("  MIG 3g.40gb")));
  EXPECT_EQ(smi("--query-gpu=index,uuid,driver_version,memory.total,mig.mode.current "
                "--format=csv,noheader -i 1")
                .output,
            "1, " + library->Uuid(1) + ", " + kVersion + ", 81920 MiB, Enabled\n");
  EXPECT_THAT(smi("").output, HasSubstr("CUDA Version: 13.0"));
  EXPECT_EQ(smi("--query-gpu=colour").exit_code, 2);
  EXPECT_EQ(smi("-i 5 -L").exit_code, 6);
  MustSet({"--driver-upgrade", "590.10.01", "--only-library"});
  EXPECT_EQ(smi("-L").exit_code, 18);
}

TEST_F(SimulatedHost, ShowsAContainerTheGpusWhoseNodesItHas) {
  if (!CanMakeNodes(directory_)) GTEST_SKIP() << "mknod is not allowed here";
  MustCreate(kTwoH100, {});
  const std::string second = [&] {
    const auto library = Open();
    EXPECT_EQ(library->Init(), nvml::kSuccess);
    return library->Uuid(1);
  }();
  // A container: it has the files of the driver, nodes, and not the path of the host's /dev.
  const std::string container = directory_ + "/container";
  fs::create_directories(container);
  for (const auto& [node, number] : {std::pair{"nvidiactl", 255u}, {"nvidia1", 1u}}) {
    ASSERT_EQ(mknod((container + "/" + node).c_str(), S_IFCHR | 0666, makedev(195, number)), 0);
  }
  fs::rename(At("dev"), directory_ + "/elsewhere");
  const Outcome list = Shell("NVIDIA_SIMULATOR_DEV=" + Quote(container) + " LD_LIBRARY_PATH=" +
                             Quote(At(kLibraries)) + " " + Quote(At("usr/bin/nvidia-smi")) + " -L");
  EXPECT_EQ(list.output, "GPU 0: NVIDIA H100 80GB HBM3 (UUID: " + second + ")\n");
}

TEST_F(SimulatedHost, IsDescribedInFull) {
  std::ifstream file(NVIDIA_SIMULATOR_MODELS "/../README.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string readme = text.str();
  for (const char* command : {"create", "set"}) {
    const std::string help = Simulator({command, "--help"}).output;
    const std::regex option("\n  (--[a-z-]+)");
    size_t options = 0;
    for (std::sregex_iterator it(help.begin(), help.end(), option), end; it != end; ++it) {
      EXPECT_THAT(readme, HasSubstr((*it)[1].str())) << "of " << command;
      ++options;
    }
    EXPECT_GT(options, 4u);
  }
  MustCreate(kTwoH100);
  const auto state = nlohmann::json::parse(Simulator({"show", root_}).output);
  const std::vector<std::string> internal = {"nextFault", "nextEvent", "attachment", "model"};
  for (const nlohmann::json& object :
       {state, state["driver"], state["gpus"][0], state["gpus"][0]["ecc"],
        state["gpus"][0]["fabric"], state["gpus"][0]["pci"], state["gpus"][0]["remappedRows"]}) {
    for (const auto& [key, value] : object.items()) {
      if (std::count(internal.begin(), internal.end(), key) != 0) continue;
      EXPECT_TRUE(readme.find("`" + key) != std::string::npos ||
                  readme.find("." + key + "`") != std::string::npos)
          << key;
    }
  }
}

}  // namespace
