// Prepare, unprepare, pods and the health cache of the kubelet double.
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dra/base/status.h"
#include "nlohmann/json.hpp"
#include "testing/admission.h"
#include "testing/kubelet_state.h"

namespace dra::testing {
namespace {

std::string PodKey(absl::string_view namespace_name, absl::string_view name) {
  return absl::StrCat(std::string(namespace_name), "/", std::string(name));
}

// The kubelet's checks, in its order: unknown uid, error, missing entries.
absl::Status Judge(const KubeletReply& reply, const std::vector<KubeletClaim>& claims,
                   absl::string_view rpc) {
  std::map<std::string, std::string> names;
  for (const KubeletClaim& claim : claims) {
    names[claim.uid] = absl::StrCat(claim.namespace_name, "/", claim.name);
  }
  for (const auto& [uid, devices] : reply.devices) {
    if (names.count(uid) == 0) {
      return absl::InternalError(
          absl::StrCat(std::string(rpc), " returned result for unknown claim UID ", uid));
    }
  }
  for (const auto& [uid, error] : reply.errors) {
    if (names.count(uid) == 0) {
      return absl::InternalError(
          absl::StrCat(std::string(rpc), " returned result for unknown claim UID ", uid));
    }
    return absl::InternalError(
        absl::StrCat(std::string(rpc), " failed for ResourceClaim ", names[uid], ": ", error));
  }
  const size_t answered = reply.devices.size() + reply.errors.size();
  if (answered < claims.size()) {
    return absl::InternalError(
        absl::StrCat(std::string(rpc), " skipped ", claims.size() - answered, " ResourceClaims"));
  }
  return absl::OkStatus();
}

// The name of the ResourceClaim behind an entry of pod.spec.resourceClaims.
absl::StatusOr<std::string> ClaimNameOf(const Json& pod, const Json& pod_claim) {
  const std::string direct = StringOr(pod_claim, "resourceClaimName");
  if (!direct.empty()) return direct;
  const Json& statuses = At(pod, {"status", "resourceClaimStatuses"});
  if (statuses.is_array()) {
    for (const Json& status : statuses) {
      if (StringOr(status, "name") == StringOr(pod_claim, "name"))
        return StringOr(status, "resourceClaimName");
    }
  }
  return absl::FailedPreconditionError(
      absl::StrCat("pod claim ", StringOr(pod_claim, "name"),
                   ": no ResourceClaim was generated from its template yet"));
}

bool IsReservedFor(const Json& claim, const std::string& pod_uid) {
  const Json& reserved = At(claim, {"status", "reservedFor"});
  if (!reserved.is_array()) return false;
  for (const Json& consumer : reserved) {
    if (StringOr(consumer, "resource") == "pods" && StringOr(consumer, "uid") == pod_uid)
      return true;
  }
  return false;
}

std::set<std::string> DriversOf(const Json& claim) {
  std::set<std::string> drivers;
  const Json& results = At(claim, {"status", "allocation", "devices", "results"});
  if (!results.is_array()) return drivers;
  for (const Json& result : results) drivers.insert(StringOr(result, "driver"));
  return drivers;
}

bool Serves(const KubeletDevice& device, const std::string& request) {
  if (request.empty() || device.request_names.empty()) return true;
  for (const std::string& name : device.request_names) {
    if (name == request) return true;
  }
  return false;
}

}  // namespace

KubeletReply FakeKubelet::State::Call(const std::string& driver,
                                      const std::vector<KubeletClaim>& wanted, bool prepare) {
  const PluginPtr plugin = Select(driver);
  KubeletReply failed;
  if (plugin == nullptr) {
    failed.verdict =
        absl::FailedPreconditionError(absl::StrCat("DRA driver ", driver, " is not registered"));
    return failed;
  }
  absl::StatusOr<KubeletReply> reply =
      prepare ? plugin->client.Prepare(plugin->info.service, wanted, options.call_timeout)
              : plugin->client.Unprepare(plugin->info.service, wanted, options.call_timeout);
  if (!reply.ok()) {
    failed.verdict = reply.status();
    return failed;
  }
  if (options.minor < 35) {  // does not know the field
    for (auto& [uid, devices] : reply->devices) {
      for (KubeletDevice& device : devices) device.share_id.reset();
    }
  }
  reply->verdict =
      Judge(*reply, wanted, prepare ? "NodePrepareResources" : "NodeUnprepareResources");
  return *std::move(reply);
}

KubeletReply FakeKubelet::PrepareResources(absl::string_view driver,
                                           const std::vector<KubeletClaim>& claims) {
  return state_->Call(std::string(driver), claims, true);
}
KubeletReply FakeKubelet::UnprepareResources(absl::string_view driver,
                                             const std::vector<KubeletClaim>& claims) {
  return state_->Call(std::string(driver), claims, false);
}

absl::StatusOr<std::vector<KubeletContainer>> FakeKubelet::RunPod(absl::string_view namespace_name,
                                                                  absl::string_view name) {
  const std::optional<Json> pod = state_->store->Find(kube::Pods(), namespace_name, name);
  if (!pod.has_value())
    return absl::NotFoundError(absl::StrCat("pod ", PodKey(namespace_name, name), " not found"));
  const std::string pod_uid = StringOr((*pod)["metadata"], "uid");

  // 1. Every claim is fetched and checked before anything is changed.
  std::map<std::string, std::string> uid_of_pod_claim;
  std::map<std::string, std::vector<KubeletClaim>> by_driver;
  std::vector<KubeletClaim> all;
  const Json& pod_claims = At(*pod, {"spec", "resourceClaims"});
  for (const Json& pod_claim : pod_claims.is_array() ? pod_claims : Json::array()) {
    DRA_ASSIGN_OR_RETURN(const std::string claim_name, ClaimNameOf(*pod, pod_claim));
    DRA_ASSIGN_OR_RETURN(const Json claim,
                         state_->store->Get(kube::ResourceClaims(), namespace_name, claim_name));
    const KubeletClaim ref{std::string(namespace_name), claim_name,
                           StringOr(claim["metadata"], "uid")};
    if (!IsReservedFor(claim, pod_uid)) {
      return absl::FailedPreconditionError(absl::StrCat("pod ", std::string(name), "(", pod_uid,
                                                        ") is not allowed to use resource claim ",
                                                        claim_name, "(", ref.uid, ")"));
    }
    if (At(claim, {"status", "allocation"}).is_null()) {
      return absl::FailedPreconditionError(
          absl::StrCat("ResourceClaim ", claim_name, " is not allocated"));
    }
    for (const std::string& driver : DriversOf(claim)) {
      if (state_->Select(driver) == nullptr) {
        return absl::FailedPreconditionError(
            absl::StrCat("DRA driver ", driver, " is not registered"));
      }
      by_driver[driver].push_back(ref);
    }
    uid_of_pod_claim[StringOr(pod_claim, "name")] = ref.uid;
    all.push_back(ref);
  }

  // 2. The pod is remembered with its claims, so that an unprepare follows even a prepare that failed.
  {
    absl::MutexLock lock(&state_->mutex);
    for (const KubeletClaim& ref : all) {
      for (const auto& [uid, cached] : state_->claims) {
        if (uid != ref.uid && cached.ref.namespace_name == ref.namespace_name &&
            cached.ref.name == ref.name) {
          return absl::FailedPreconditionError(absl::StrCat("old ResourceClaim with same name ",
                                                            ref.name, " and different UID ", uid,
                                                            " still exists"));
        }
      }
    }
    for (const KubeletClaim& ref : all) {
      State::Claim& cached = state_->claims[ref.uid];
      cached.ref = ref;
      cached.pods.insert(PodKey(namespace_name, name));
      for (const auto& [driver, refs] : by_driver) {
        for (const KubeletClaim& of_driver : refs) {
          if (of_driver.uid == ref.uid) cached.drivers[driver];
        }
      }
    }
    for (auto& [driver, refs] : by_driver) {
      std::erase_if(refs,
                    [&](const KubeletClaim& ref) { return state_->claims[ref.uid].prepared; });
    }
  }

  // 3. One call a driver, one after another; the first that fails ends the attempt.
  for (const auto& [driver, refs] : by_driver) {
    if (refs.empty()) continue;
    KubeletReply reply = state_->Call(driver, refs, true);
    if (!reply.verdict.ok())
      return Annotate(reply.verdict, absl::StrCat("prepare resources of driver ", driver));
    absl::MutexLock lock(&state_->mutex);
    for (auto& [uid, devices] : reply.devices) {
      std::vector<KubeletDevice>& cached = state_->claims[uid].drivers[driver];
      // Kubelets before 1.37 append on a repeated prepare and keep both.
      if (state_->options.minor >= 37) cached.clear();
      cached.insert(cached.end(), devices.begin(), devices.end());
    }
  }

  // 4. Prepared, and what each container gets.
  absl::MutexLock lock(&state_->mutex);
  for (const KubeletClaim& ref : all) state_->claims[ref.uid].prepared = true;
  std::vector<KubeletContainer> containers;
  for (const char* list : {"initContainers", "containers"}) {
    const Json& entries = At(*pod, {"spec", list});
    for (const Json& entry : entries.is_array() ? entries : Json::array()) {
      KubeletContainer container;
      container.name = StringOr(entry, "name");
      const Json& uses = At(entry, {"resources", "claims"});
      for (const Json& use : uses.is_array() ? uses : Json::array()) {
        const auto uid = uid_of_pod_claim.find(StringOr(use, "name"));
        if (uid == uid_of_pod_claim.end()) continue;
        for (const auto& [driver, devices] : state_->claims[uid->second].drivers) {
          for (const KubeletDevice& device : devices) {
            if (!Serves(device, StringOr(use, "request"))) continue;
            container.cdi_ids.insert(container.cdi_ids.end(), device.cdi_ids.begin(),
                                     device.cdi_ids.end());
          }
        }
      }
      containers.push_back(std::move(container));
    }
  }
  return containers;
}

absl::Status FakeKubelet::StopPod(absl::string_view namespace_name, absl::string_view name) {
  const std::string pod = PodKey(namespace_name, name);
  std::map<std::string, std::vector<KubeletClaim>> by_driver;
  std::vector<std::string> uids;
  {
    absl::MutexLock lock(&state_->mutex);
    for (auto& [uid, claim] : state_->claims) {
      if (claim.pods.count(pod) == 0) continue;
      if (claim.pods.size() > 1) {
        claim.pods.erase(pod);
        continue;
      }
      uids.push_back(uid);
      for (const auto& [driver, devices] : claim.drivers) by_driver[driver].push_back(claim.ref);
    }
  }
  for (const auto& [driver, refs] : by_driver) {
    const KubeletReply reply = state_->Call(driver, refs, false);
    // Nothing is forgotten: the next attempt calls every driver again.
    if (!reply.verdict.ok())
      return Annotate(reply.verdict, absl::StrCat("unprepare resources of driver ", driver));
  }
  absl::MutexLock lock(&state_->mutex);
  for (const std::string& uid : uids) state_->claims.erase(uid);
  return absl::OkStatus();
}

KubeletDeviceHealth FakeKubelet::State::HealthOf(const std::string& driver,
                                                 const std::string& key) const {
  const auto devices = health.find(driver);
  if (devices == health.end()) return {};
  const auto entry = devices->second.find(key);
  if (entry == devices->second.end()) return {};
  if (absl::Now() > entry->second.received + entry->second.report.timeout) return {};
  return {entry->second.report.health, entry->second.report.message};
}

KubeletDeviceHealth FakeKubelet::Health(absl::string_view driver, absl::string_view pool,
                                        absl::string_view device) const {
  absl::MutexLock lock(&state_->mutex);
  return state_->HealthOf(std::string(driver), PodKey(pool, device));
}

bool FakeKubelet::WaitForHealth(absl::string_view driver, absl::string_view pool,
                                absl::string_view device, KubeletHealth health,
                                absl::Duration patience) const {
  const absl::Time until = absl::Now() + patience;
  absl::MutexLock lock(&state_->mutex);
  while (state_->HealthOf(std::string(driver), PodKey(pool, device)).health != health) {
    // A report also changes by growing old, which nobody signals.
    const absl::Time step = std::min(until, absl::Now() + absl::Milliseconds(200));
    state_->changed.WaitWithDeadline(&state_->mutex, step);
    if (absl::Now() >= until) {
      return state_->HealthOf(std::string(driver), PodKey(pool, device)).health == health;
    }
  }
  return true;
}

int FakeKubelet::KnownHealth(absl::string_view driver) const {
  absl::MutexLock lock(&state_->mutex);
  const auto devices = state_->health.find(std::string(driver));
  return devices == state_->health.end() ? 0 : static_cast<int>(devices->second.size());
}

}  // namespace dra::testing
