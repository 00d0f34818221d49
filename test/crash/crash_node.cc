#include "test/crash/crash_node.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "dra/base/ids.h"

namespace dra::crash {
namespace {

constexpr size_t kLogTail = 6000;  // bytes

absl::Status ErrorOf(const testing::KubeletReply& reply, const std::string& uid) {
  if (!reply.verdict.ok()) return reply.verdict;
  const auto error = reply.errors.find(uid);
  if (error != reply.errors.end()) return absl::UnavailableError(error->second);
  return absl::OkStatus();
}

Hardware FakeCards(bool keeps_undo, const std::string& state_directory) {
  return {.library = DRA_KILLING_BACKEND,
          .config = {{"numDevices", kDevices},
                     {"nodeName", kNode},
                     {"deviceNodes", true},
                     {"deviceStatus", true},
                     {"pollMilliseconds", 20},
                     {"manifest", {{"parallel", true}, {"keepsUndo", keeps_undo}}},
                     {"stateDirectory", state_directory}},
          .devices = {"gpu-0", "gpu-1", "gpu-2", "gpu-3"},
          .parameters = {
              {"apiVersion", "gpu.resource.example.com/v1alpha1"},
              {"kind", "GpuConfig"},
              {"sharing",
               {{"strategy", "TimeSlicing"}, {"timeSlicingConfig", {{"interval", "Long"}}}}}}};
}

// A name that begins with a digit, as that of a device may with the claim's UID, needs another version of CDI.
std::string WithoutUid(const std::string& cdi, const std::string& uid) {
  auto spec = ParseJsonObject(absl::StrReplaceAll(cdi, {{uid, "<uid>"}}), "CDI file");
  if (!spec.ok()) return spec.status().ToString();
  spec->erase("cdiVersion");
  return DumpJson(*spec);
}

std::string DevicesText(const std::vector<testing::KubeletDevice>& devices) {
  std::string text;
  for (const testing::KubeletDevice& device : devices) {
    absl::StrAppend(&text, absl::StrJoin(device.request_names, ","), " ", device.pool, "/",
                    device.device, " ", absl::StrJoin(device.cdi_ids, ","), "\n");
  }
  return text;
}

}  // namespace

bool WaitFor(const std::function<bool()>& condition, absl::Duration patience) {
  const absl::Time limit = absl::Now() + patience;
  while (!condition()) {
    if (absl::Now() >= limit) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

CrashNode::CrashNode(bool keeps_undo)
    : keeps_undo_(keeps_undo), hardware_(FakeCards(keeps_undo, directory_.Path("state"))) {
  Begin();
}

CrashNode::CrashNode(Hardware hardware) : keeps_undo_(false), hardware_(std::move(hardware)) {
  Begin();
}

void CrashNode::Begin() {
  std::signal(SIGPIPE, SIG_IGN);
  for (const char* name : {"cdi", "state", "kubelet"})
    EXPECT_TRUE(MakeDirectories(fs_, directory_.Path(name), 0755).ok());
  auto api = testing::FakeApiServer::Start();
  EXPECT_TRUE(api.ok()) << api.status();
  api_ = *std::move(api);
  api_->store().Put({{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", kNode}}}});
  EXPECT_TRUE(WriteFileAtomically(fs_, directory_.Path("kubeconfig"), api_->KubeConfig(), 0600,
                                  Durability::kVolatile)
                  .ok());
  testing::KubeletOptions options;
  options.root = directory_.Path("kubelet");
  options.node_name = kNode;
  options.wipe_delay = absl::Hours(1);
  options.registration_retry = absl::Milliseconds(20);
  auto kubelet = testing::FakeKubelet::Start(options, &api_->store());
  EXPECT_TRUE(kubelet.ok()) << kubelet.status();
  kubelet_ = *std::move(kubelet);
  Control(Json::object());
}

CrashNode::~CrashNode() = default;

std::unique_ptr<Child> CrashNode::StartChild(const StartOptions& options) {
  Json settings = {{"root", directory_.path()},
                   {"node", kNode},
                   {"podUID", options.pod_uid},
                   {"kubeletRoot", directory_.Path("kubelet")},
                   {"cdiDirectory", directory_.Path("cdi")},
                   {"kubeconfig", directory_.Path("kubeconfig")},
                   {"statusSocket", directory_.Path(absl::StrCat("s", children_ % 8, ".sock"))},
                   {"driver", kDriver},
                   {"backend", hardware_.library},
                   {"bootID", options.boot_id},
                   {"clockAheadSeconds", options.clock_ahead_seconds},
                   {"backendConfig", hardware_.config}};
  settings["hookLog"] = directory_.Path("state/hooks.jsonl");
  settings["verdicts"] = options.verdicts;
  settings["looksForOrphans"] = options.looks_for_orphans;
  if (!options.arm.is_null()) settings["arm"] = options.arm;
  const std::string path = directory_.Path(absl::StrCat("settings-", children_++, ".json"));
  EXPECT_TRUE(WriteFileAtomically(fs_, path, DumpJson(settings), 0600, Durability::kVolatile).ok());
  return Child::Start(DRA_CRASH_DAEMON, path, directory_.Path("daemon.log"));
}

bool CrashNode::WaitForReady(Child* child, int endpoints, absl::Duration patience) {
  const absl::Time limit = absl::Now() + patience;
  while (absl::Now() < limit) {
    const std::optional<Json> status = child->Ask({{"do", "status"}});
    if (!status.has_value()) return false;
    if (BoolOr(*status, "ready") && CheckSlices().empty())
      return kubelet_->WaitForConnected(kDriver, endpoints, limit - absl::Now());
    absl::SleepFor(absl::Milliseconds(3));
  }
  return false;
}

std::string CrashNode::Describe(Child* child) const {
  const std::optional<Json> status = child->Ask({{"do", "status"}});
  std::string text =
      status.has_value() ? DumpJson(status->value("conditions", Json())) : "process ended";
  for (const testing::KubeletPlugin& plugin : kubelet_->Plugins())
    absl::StrAppend(&text, "; ", plugin.endpoint, plugin.connected ? " connected" : " away");
  for (const std::string& error : kubelet_->RegistrationErrors())
    absl::StrAppend(&text, "; ", error);
  return absl::StrCat(text, "; ", CheckSlices());
}

Json CrashNode::AllocationOf(const std::vector<std::string>& devices, bool config) const {
  Json results = Json::array();
  for (size_t i = 0; i < devices.size(); ++i) {
    results.push_back({{"request", absl::StrCat("r", i)},
                       {"driver", kDriver},
                       {"pool", kNode},
                       {"device", devices[i]}});
  }
  Json configs = Json::array();
  if (config) {
    configs.push_back({{"source", "FromClaim"},
                       {"requests", Json::array()},
                       {"opaque", {{"driver", kDriver}, {"parameters", hardware_.parameters}}}});
  }
  return {{"devices", {{"results", std::move(results)}, {"config", std::move(configs)}}}};
}

std::vector<std::string> CrashNode::Devices(const std::vector<size_t>& places) const {
  std::vector<std::string> names;
  for (const size_t place : places) names.push_back(hardware_.devices.at(place));
  return names;
}

testing::KubeletClaim CrashNode::MakeClaim(const std::string& name,
                                           const std::vector<std::string>& devices, bool config) {
  const Json stored = api_->store().Put(
      {{"apiVersion", "resource.k8s.io/v1"},
       {"kind", "ResourceClaim"},
       {"metadata", {{"name", name}, {"namespace", "ns1"}, {"uid", NewUuid()}}},
       {"spec", Json::object()},
       {"status",
        {{"allocation", AllocationOf(devices, config)},
         {"reservedFor",
          Json::array({Json{{"resource", "pods"}, {"name", "p1"}, {"uid", NewUuid()}}})}}}});
  return {"ns1", name, StringOr(stored["metadata"], "uid")};
}

void CrashNode::Reallocate(const testing::KubeletClaim& claim,
                           const std::vector<std::string>& devices) {
  auto stored = api_->store().Find(kube::ResourceClaims(), claim.namespace_name, claim.name);
  ASSERT_TRUE(stored.has_value());
  (*stored)["status"]["allocation"] = AllocationOf(devices, true);
  (*stored)["status"].erase("devices");
  api_->store().Put(*std::move(stored));
}

void CrashNode::DeleteClaim(const testing::KubeletClaim& claim) {
  api_->store().Erase(kube::ResourceClaims(), claim.namespace_name, claim.name);
}

// One write, as the lines of the backend: they do not mix.
void CrashNode::Note(const char* event, const testing::KubeletClaim& claim) {
  std::ofstream log(directory_.Path("state/hooks.jsonl"), std::ios::app);
  log << DumpJson({{"event", event}, {"claim", claim.uid}}) + "\n" << std::flush;
}

absl::Status CrashNode::PrepareOnce(const testing::KubeletClaim& claim) {
  const absl::Status status = ErrorOf(kubelet_->PrepareResources(kDriver, {claim}), claim.uid);
  if (status.ok()) Note(kAnswered, claim);
  return status;
}

absl::Status CrashNode::UnprepareOnce(const testing::KubeletClaim& claim) {
  const absl::Status status = ErrorOf(kubelet_->UnprepareResources(kDriver, {claim}), claim.uid);
  if (status.ok()) Note(kReleased, claim);
  return status;
}

absl::Status CrashNode::Prepare(const testing::KubeletClaim& claim, ClaimAnswer* answer) {
  const absl::Time limit = absl::Now() + kPatience;
  for (;;) {
    const testing::KubeletReply reply = kubelet_->PrepareResources(kDriver, {claim});
    const absl::Status status = ErrorOf(reply, claim.uid);
    if (status.ok()) {
      Note(kAnswered, claim);
      if (answer == nullptr) return status;
      const auto devices = reply.devices.find(claim.uid);
      if (devices == reply.devices.end()) return absl::InternalError("no devices in the answer");
      answer->devices = absl::StrReplaceAll(DevicesText(devices->second), {{claim.uid, "<uid>"}});
      const auto cdi = fs_.ReadFile(CdiPath(claim));
      answer->cdi = cdi.ok() ? WithoutUid(*cdi, claim.uid) : cdi.status().ToString();
      return status;
    }
    if (absl::Now() >= limit) return status;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

absl::Status CrashNode::Unprepare(const testing::KubeletClaim& claim) {
  const absl::Time limit = absl::Now() + kPatience;
  for (;;) {
    const absl::Status status = UnprepareOnce(claim);
    if (status.ok() || absl::Now() >= limit) return status;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

void CrashNode::Control(Json control) {
  control["saveUndo"] = keeps_undo_;
  ASSERT_TRUE(WriteFileAtomically(fs_, directory_.Path("state/control.json"), DumpJson(control),
                                  0600, Durability::kVolatile)
                  .ok());
}

void CrashNode::KubeletKnows(const std::vector<testing::KubeletClaim>& claims) {
  Json list = Json::array();
  for (const testing::KubeletClaim& claim : claims) {
    list.push_back({{"ClaimUID", claim.uid},
                    {"ClaimName", claim.name},
                    {"Namespace", claim.namespace_name},
                    {"PodUIDs", Json::object()},
                    {"DriverState", {{kDriver, Json::object()}}}});
  }
  const Json data = {{"kind", "DRACheckpoint"},
                     {"apiVersion", "checkpoint.dra.kubelet.k8s.io/v1"},
                     {"ClaimInfoStateList", std::move(list)}};
  ASSERT_TRUE(WriteFileAtomically(fs_, directory_.Path("kubelet/dra_manager_state"),
                                  DumpJson({{"Data", DumpJson(data)}, {"Checksum", 0}}), 0600,
                                  Durability::kVolatile)
                  .ok());
}

void CrashNode::LoseRecord(const testing::KubeletClaim& claim) {
  ASSERT_TRUE(fs_.Remove(DataPath(absl::StrCat("claims/", claim.uid, ".json"))).ok());
  Note(kForgotten, claim);
}

void CrashNode::LoseTmpfs() {
  const auto files = fs_.List(directory_.Path("cdi"));
  ASSERT_TRUE(files.ok()) << files.status();
  for (const std::string& name : *files)
    ASSERT_TRUE(fs_.Remove(JoinPath(directory_.Path("cdi"), name)).ok());
}

void CrashNode::ResetHardware() {
  ASSERT_TRUE(RemoveIfExists(fs_, directory_.Path("state/hardware.json")).ok());
}

std::string CrashNode::CheckSlices() const {
  std::set<std::string> devices;
  std::set<std::string> names;
  for (const Json& slice : api_->store().All(kube::ResourceSlices())) {
    const Json& spec = slice["spec"];
    if (spec["pool"].value("resourceSliceCount", 0) != 1) return "a slice count that is not 1";
    for (const Json& device : spec.value("devices", Json::array())) {
      if (!devices.insert(StringOr(device, "name")).second)
        return absl::StrCat("device ", StringOr(device, "name"), " in two slices");
    }
    names.insert(StringOr(slice["metadata"], "name"));
  }
  if (names.size() != 1) return absl::StrCat(names.size(), " slices instead of one");
  if (devices.size() != kDevices) return absl::StrCat(devices.size(), " devices published");
  return "";
}

std::string CrashNode::CheckHardware() const {
  const auto text = fs_.ReadFile(directory_.Path("state/hardware.json"));
  if (absl::IsNotFound(text.status())) return "";
  if (!text.ok()) return text.status().ToString();
  const auto state = ParseJsonObject(*text, "hardware.json");
  if (!state.ok()) return state.status().ToString();
  for (const auto& [card, entry] : (*state)["cards"].items()) {
    if (StringOr(entry["sharing"], "interval") != "Default")
      return absl::StrCat("card ", card, " still has ", DumpJson(entry["sharing"]));
  }
  return "";
}

std::string CrashNode::CheckHooks() const {
  const auto log = fs_.ReadFile(directory_.Path("state/hooks.jsonl"));
  if (absl::IsNotFound(log.status())) return "";
  return log.ok() ? FindHookViolation(*log) : log.status().ToString();
}

void CrashNode::ForgetHooks() {
  ASSERT_TRUE(RemoveIfExists(fs_, directory_.Path("state/hooks.jsonl")).ok());
}

void CrashNode::Collect(const std::string& path, std::vector<std::string>* files) const {
  const auto names = fs_.List(path);
  if (!names.ok()) {
    if (!absl::IsNotFound(names.status())) files->push_back(names.status().ToString());
    return;
  }
  for (const std::string& name : *names) {
    const std::string child = JoinPath(path, name);
    const auto info = fs_.Stat(child, false);
    if (!info.ok()) continue;
    if (info->type == FileType::kDirectory) {
      if (name != "notes") Collect(child, files);
    } else if (info->type != FileType::kSocket && !absl::EndsWith(name, ".lock") &&
               name != "driver.json") {  // what belongs to the driver itself stays
      files->push_back(child);
    }
  }
}

std::string CrashNode::Leftovers() const {
  std::vector<std::string> files;
  Collect(DataPath(""), &files);
  Collect(directory_.Path("cdi"), &files);
  Collect(directory_.Path("kubelet/plugins_registry"), &files);
  return absl::StrJoin(files, ", ");
}

bool CrashNode::WaitUntilGone(const testing::KubeletClaim& claim) const {
  return WaitFor([&] { return !absl::StrContains(Leftovers(), claim.uid); });
}

std::string CrashNode::WaitForNoLeftovers(absl::Duration patience) const {
  const absl::Time limit = absl::Now() + patience;
  for (;;) {
    std::string files = Leftovers();
    if (files.empty() || absl::Now() >= limit) return files;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

std::string CrashNode::CdiPath(const testing::KubeletClaim& claim) const {
  return directory_.Path(absl::StrCat("cdi/k8s.", kDriver, "-claim_", claim.uid, ".json"));
}

std::string CrashNode::DataPath(const std::string& name) const {
  const std::string data = directory_.Path(absl::StrCat("kubelet/plugins/", kDriver));
  return name.empty() ? data : JoinPath(data, name);
}

std::string CrashNode::LogTail() const {
  const auto log = fs_.ReadFile(directory_.Path("daemon.log"));
  if (!log.ok()) return log.status().ToString();
  return log->size() <= kLogTail ? *log : log->substr(log->size() - kLogTail);
}

}  // namespace dra::crash
