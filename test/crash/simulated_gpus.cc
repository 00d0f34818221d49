#include "test/crash/simulated_gpus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace dra::crash {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kNvidiaMajor = 195;
constexpr unsigned kControlMinor = 255, kMinorOfNoCard = 77;
constexpr mode_t kForAll = 0666;
constexpr char kModel[] =
    "driver: {version: 580.126.20, cuda: 13.0}\n"
    "gpus:\n"
    "- {model: A100-80GB, count: 2}\n"
    "- {model: A100-80GB, migMode: true}\n";
constexpr char kInstances[] = "--gpu 2 --mig-create 3g.40gb:4 --mig-create 1g.10gb:0";

// "nvidia12" -> 12: a card's own node, not "nvidiactl" or "nvidia-uvm".
bool IsCardNode(const std::string& path, unsigned* minor) {
  absl::string_view rest = path;
  unsigned number = 0;
  if (!absl::ConsumePrefix(&rest, "/dev/nvidia") || !absl::SimpleAtoi(rest, &number)) return false;
  *minor = number;
  return true;
}

}  // namespace

SimulatedGpus::SimulatedGpus() {
  PosixFileSystem files;
  EXPECT_TRUE(files.CreateFile(directory_.Path("model.yaml"), kModel, 0600, false).ok());
  const std::string probe = directory_.Path("node");
  makes_nodes_ = ::mknod(probe.c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0;
  fs::remove(probe);
  Run(absl::StrCat("create ", directory_.Path("model.yaml"), " ", directory_.Path("root"),
                   " --library " NVIDIA_SIMULATED_NVML, makes_nodes_ ? "" : " --no-nodes"));
  Set(kInstances);
  const Json gpus = State().value("gpus", Json::array());
  std::vector<std::string> cards;
  for (const Json& gpu : gpus) cards.push_back(absl::AsciiStrToLower(StringOr(gpu, "uuid")));
  EXPECT_EQ(cards.size(), 3u);
  if (cards.size() != 3) return;
  devices_ = {cards[0], cards[2] + "-mig-3g40gb-4", cards[1], cards[2] + "-mig-1g10gb-0"};
}

Hardware SimulatedGpus::ToHardware() const {
  return {
      .library = DRA_KILLING_NVIDIA,
      .config = {{"hostRoot", directory_.Path("root")}, {"pollSeconds", 1}},
      .devices = devices_,
      .parameters = {{"apiVersion", "resource.nvidia.com/v1beta1"}, {"kind", "MigDeviceConfig"}}};
}

std::string SimulatedGpus::Run(const std::string& arguments) const {
  const std::string command = absl::StrCat(NVIDIA_SIMULATOR " ", arguments, " 2>&1");
  std::string output;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) {
    ADD_FAILURE() << "cannot run " << command;
    return output;
  }
  char bytes[4096];
  for (size_t got; (got = std::fread(bytes, 1, sizeof(bytes), pipe)) > 0;)
    output.append(bytes, got);
  EXPECT_EQ(::pclose(pipe), 0) << command << "\n" << output;
  return output;
}

Json SimulatedGpus::State() const {
  return ParseJson(Run("show " + directory_.Path("root")), "dra-nvidia-simulator show")
      .value_or(Json::object());
}

void SimulatedGpus::Set(const std::string& arguments) {
  Run(absl::StrCat("set ", directory_.Path("root"), " ", arguments));
}

void SimulatedGpus::Upgrade(const std::string& version) {
  Set(absl::StrCat("--driver-upgrade ", version, " ", kInstances));
}

void SimulatedGpus::Reboot() { Set(absl::StrCat("--reboot ", kInstances)); }

void SimulatedGpus::RemoveNodes(const std::string& device) {
  const std::string kept = device.empty() ? "" : NodeOf(device);
  for (const auto& entry : fs::directory_iterator(Path("dev"))) {
    if (!entry.is_directory() && entry.path().filename() != kept) fs::remove(entry.path());
  }
}

void SimulatedGpus::PlantNode(const std::string& name, Wrong wrong) {
  const std::string path = Path("dev/" + name);
  fs::remove(path);
  if (wrong == Wrong::kPlainFile) {
    PosixFileSystem files;
    ASSERT_TRUE(files.CreateFile(path, "", 0644, false).ok());
    return;
  }
  if (!makes_nodes_) return;
  unsigned minor = kControlMinor;
  IsCardNode("/dev/" + name, &minor);
  const bool half = wrong == Wrong::kHalfMade;
  const dev_t device = makedev(kNvidiaMajor, half ? minor : kMinorOfNoCard);
  ASSERT_EQ(::mknod(path.c_str(), S_IFCHR | (half ? 0 : kForAll), device), 0) << path;
}

std::string SimulatedGpus::NodeOf(const std::string& device) const {
  const Json gpus = State().value("gpus", Json::array());
  for (const Json& gpu : gpus) {
    if (absl::StartsWith(device, absl::AsciiStrToLower(StringOr(gpu, "uuid"))))
      return absl::StrCat("nvidia", IntOr(gpu, "minor", -1));
  }
  return "no card of this host";
}

std::string SimulatedGpus::CheckNode(const Json& node, unsigned minor) const {
  const std::string path = StringOr(node, "path");
  if (node.contains("type")) {
    if (IntOr(node, "major", -1) == kNvidiaMajor && IntOr(node, "minor", -1) == minor) return "";
    return absl::StrCat(path, " has other numbers: ", DumpJson(node));
  }
  struct stat status = {};
  if (::lstat(Path(path).c_str(), &status) != 0) return absl::StrCat(path, " is not on the host");
  if (!S_ISCHR(status.st_mode) || status.st_rdev != makedev(kNvidiaMajor, minor))
    return absl::StrCat(path, " is another device on the host");
  if ((status.st_mode & kForAll) != kForAll) {
    return absl::StrCat(path, " is not open to all on the host");
  }
  return "";
}

std::string SimulatedGpus::CheckCdi(const CrashNode& node, const testing::KubeletClaim& claim,
                                    const std::vector<std::string>& devices,
                                    const std::string& driver) const {
  PosixFileSystem files;
  size_t own = 0;
  for (const auto& entry : fs::directory_iterator(node.directory().Path("cdi"))) {
    const std::string name = entry.path().filename();
    own += !IsTemporaryName(name) && absl::StrContains(name, claim.uid);
  }
  if (own != 1) return absl::StrCat(own, " CDI files of claim ", claim.name);
  const auto text = files.ReadFile(node.CdiPath(claim));
  if (!text.ok()) return text.status().ToString();
  const auto spec = ParseJsonObject(*text, "CDI file");
  if (!spec.ok()) return spec.status().ToString();
  for (const char* version : {kOldDriver, kNewDriver}) {
    const bool has = absl::StrContains(*text, absl::StrCat("libcuda.so.", version));
    if (has != (version == driver))
      return absl::StrCat("libraries of driver ", version, has ? "" : " missing", ": ", *text);
  }
  std::vector<Json> edits = {spec->value("containerEdits", Json::object())};
  std::vector<std::string> nodes;
  const Json listed = spec->value("devices", Json::array());
  for (const Json& device : listed) edits.push_back(device.value("containerEdits", Json::object()));
  size_t hooks = 0;
  for (const Json& edit : edits) {
    for (const Json& each : edit.value("deviceNodes", Json::array())) {
      unsigned minor = 0;
      const bool control = StringOr(each, "path") == "/dev/nvidiactl";
      if (!control && !IsCardNode(StringOr(each, "path"), &minor)) continue;
      std::string wrong = CheckNode(each, control ? kControlMinor : minor);
      if (!wrong.empty()) return wrong;
      if (!control) nodes.push_back(StringOr(each, "path").substr(sizeof("/dev/") - 1));
    }
    for (const Json& hook : edit.value("hooks", Json::array())) {
      ++hooks;
      if (::access(StringOr(hook, "path").c_str(), X_OK) != 0)
        return absl::StrCat("no hook program at ", StringOr(hook, "path"));
    }
  }
  if (hooks == 0) return "no hook";
  std::vector<std::string> expected;
  for (const std::string& device : devices) expected.push_back(NodeOf(device));
  std::sort(expected.begin(), expected.end());
  std::sort(nodes.begin(), nodes.end());
  if (nodes != expected)
    return absl::StrCat("nodes ", absl::StrJoin(nodes, ","), " and not ",
                        absl::StrJoin(expected, ","));
  return "";
}

}  // namespace dra::crash
