#include "driver/retired_drivers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/call.h"
#include "dra/base/status.h"
#include "dra/kube/api_client.h"
#include "driver/held_claims.h"
#include "driver/lock_file.h"

namespace dra::driver {
namespace {

constexpr absl::Duration kRetireTimeout = absl::Seconds(30);
// So many claims are named; the rest is counted.
constexpr size_t kNamedClaims = 5;
// Under which a look that failed as a whole is shown.
constexpr char kAnyDriver[] = "";

// True if an instance of the driver lives: it has bytes of publish.lock locked.
absl::StatusOr<bool> IsServed(FileSystem& fs, const std::string& directory) {
  const std::string path = JoinPath(directory, "publish.lock");
  const absl::StatusOr<FileInfo> info = fs.Stat(path);
  if (absl::IsNotFound(info.status())) return false;
  DRA_RETURN_IF_ERROR(info.status());
  DRA_ASSIGN_OR_RETURN(const LockFile file, LockFile::Open(path));
  DRA_ASSIGN_OR_RETURN(const auto held, file.HeldByOther(0, uint64_t{1} << 62));
  return held.has_value();
}

std::string Refusal(const std::vector<HeldClaim>& claims) {
  std::string text = absl::StrCat(claims.size(), claims.size() == 1 ? " claim" : " claims",
                                  " of it still recorded on this node: ");
  for (size_t i = 0; i < claims.size() && i < kNamedClaims; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "; ", Describe(claims[i]));
  }
  if (claims.size() > kNamedClaims)
    absl::StrAppend(&text, "; and ", claims.size() - kNamedClaims, " more");
  absl::StrAppend(&text,
                  ". Without the driver their pods cannot end: put it back into the configuration, "
                  "drain it (dra-driver drain), let the pods end, then take it out");
  return text;
}

}  // namespace

RetiredDrivers::RetiredDrivers(const DaemonConfig& config, Environment environment,
                               absl::Duration interval)
    : kubelet_root_(config.kubelet_root),
      node_name_(config.node_name),
      installation_(config.installation),
      interval_(interval),
      environment_(std::move(environment)),
      logger_(environment_.logger) {
  for (const DriverConfig& driver : config.drivers) configured_.insert(driver.name);
}

RetiredDrivers::~RetiredDrivers() { Stop(); }

void RetiredDrivers::Start() {
  if (installation_.empty()) return;
  thread_ = std::jthread([this](const std::stop_token& stop) {
    do {
      Look(stop);
    } while (environment_.clock->Sleep(interval_, stop));
  });
}

void RetiredDrivers::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void RetiredDrivers::Look(const std::stop_token& stop) {
  std::map<std::string, std::string> waiting;
  const absl::StatusOr<std::vector<DriverMarker>> markers =
      FindDriverMarkers(*environment_.fs, kubelet_root_);
  if (!markers.ok()) {
    waiting[kAnyDriver] =
        absl::StrCat("cannot look for drivers that ran here before: ", markers.status().message());
  } else {
    for (const DriverMarker& marker : *markers) {
      if (installation_.empty() || marker.installation != installation_) continue;
      if (configured_.contains(marker.driver)) continue;
      std::string reason = Retire(marker, stop);
      if (!reason.empty()) waiting[marker.driver] = std::move(reason);
    }
  }
  if (!stop.stop_requested()) Show(std::move(waiting));
}

std::string RetiredDrivers::Retire(const DriverMarker& marker, const std::stop_token& stop) {
  const absl::StatusOr<bool> served = IsServed(*environment_.fs, marker.directory);
  if (!served.ok()) {
    return absl::StrCat("cannot tell whether another instance serves it: ",
                        served.status().message());
  }
  if (*served) return "is not configured here, but another instance on this node still serves it";
  const absl::StatusOr<std::vector<HeldClaim>> claims =
      ReadHeldClaims(*environment_.fs, marker.directory, environment_.boot_id);
  if (!claims.ok()) {
    return absl::StrCat("is no longer configured, and its records cannot be read: ",
                        claims.status().message());
  }
  if (!claims->empty()) {
    return absl::StrCat("is no longer configured, but ", Refusal(*claims));
  }
  const absl::StatusOr<int> deleted = DeleteSlices(marker.driver, stop);
  if (!deleted.ok()) {
    return absl::StrCat("is no longer configured; its slices are not deleted yet: ",
                        deleted.status().message());
  }
  // Only now: while slices may be left, the next look has to find the directory.
  const absl::Status removed = RemoveIfExists(*environment_.fs, DriverMarkerPath(marker.directory));
  if (!removed.ok()) return absl::StrCat("its marker cannot be removed: ", removed.message());
  logger_.Info("driver is no longer configured, its slices are deleted",
               {{"driver", marker.driver}, {"slices", absl::StrCat(*deleted)}});
  return "";
}

absl::StatusOr<int> RetiredDrivers::DeleteSlices(const std::string& driver,
                                                 const std::stop_token& stop) {
  Call call = Call::WithTimeout(kRetireTimeout);
  call.stop = stop;
  kube::ListOptions options;
  options.field_selector = absl::StrCat("spec.driver=", driver, ",spec.nodeName=", node_name_);
  DRA_ASSIGN_OR_RETURN(const kube::ListResult slices,
                       environment_.api->List(kube::ResourceSlices(), "", options, call));
  int deleted = 0;
  for (const Json& slice : slices.items) {
    const Json* metadata = Find(slice, "metadata");
    const Json* spec = Find(slice, "spec");
    // A server that does not know the selectors answers with everybody's.
    if (metadata == nullptr || spec == nullptr || StringOr(*spec, "driver") != driver ||
        StringOr(*spec, "nodeName") != node_name_) {
      continue;
    }
    kube::DeleteOptions precondition;
    precondition.uid = StringOr(*metadata, "uid");
    const absl::Status status = environment_.api->Delete(
        kube::ResourceSlices(), "", StringOr(*metadata, "name"), precondition, call);
    if (!status.ok() && !absl::IsNotFound(status)) return status;
    ++deleted;
  }
  return deleted;
}

void RetiredDrivers::Show(std::map<std::string, std::string> waiting) {
  std::map<std::string, std::string> before;
  {
    const absl::MutexLock lock(&mutex_);
    before = std::exchange(waiting_, waiting);
  }
  const observe::ObjectReference node = {"v1", "Node", "", node_name_, node_name_};
  for (const auto& [driver, reason] : waiting) {
    if (const auto said = before.find(driver); said != before.end() && said->second == reason)
      continue;
    logger_.Error("a driver that ran on this node is not gone",
                  {{"driver", driver}, {"error", reason}});
    environment_.events->Record(observe::EventType::kWarning, node, "DriverNotRetired", "Retire",
                                absl::StrCat("driver ", driver, " ", reason));
  }
  environment_.metrics->Set("dra_retired_drivers", static_cast<double>(waiting.size()));
}

std::vector<observe::Condition> RetiredDrivers::Conditions() const {
  const absl::MutexLock lock(&mutex_);
  std::vector<observe::Condition> conditions;
  for (const auto& [driver, reason] : waiting_) {
    conditions.push_back({driver, "retired", false, reason});
  }
  return conditions;
}

}  // namespace dra::driver
