#include "give_back.h"

#include <unistd.h>

#include <cerrno>
#include <optional>
#include <stdexcept>

#include "homecoming.h"

namespace rdma {
namespace {

std::optional<Plan> ReadPlan(const ClaimFolder& folder) {
  try {
    return folder.ReadPlanOrClosed();
  } catch (const std::exception& error) {
    throw std::runtime_error(
        std::string(error.what()) +
        ": what of the host's is in the pod cannot be told; bring its interface back by hand (ip "
        "link), then remove the file");
  }
}

}  // namespace

std::vector<GivenBack> GiveBack(const ClaimFolder& folder, const std::string& sys,
                                std::chrono::milliseconds limit, RdmaMoves& rdma) {
  const auto end = std::chrono::steady_clock::now() + limit;
  if (access(folder.path().c_str(), F_OK) != 0 && errno == ENOENT) return {};
  const std::unique_ptr<ClaimFolder::Lock> lock = folder.TryLock(limit);
  if (!lock) {
    throw std::runtime_error(folder.path() + ": is locked by another process for more than " +
                             std::to_string(limit.count()) +
                             " ms: a container of the claim is being started");
  }
  const std::optional<Plan> plan = ReadPlan(folder);
  std::vector<GivenBack> result;
  std::optional<AttachState> state;
  bool moved = true;
  try {
    state = folder.ReadState();
    moved = state && MayHaveMoved(*state);
  } catch (const std::exception&) {
    // It only helps to find what is found without it too, by the plan.
  }
  // Of an earlier boot nothing is left in a pod, and the host has its interfaces set up anew.
  if (plan && !plan->boot_id.empty() && plan->boot_id != ClaimFolder::BootId()) moved = false;
  if (plan && moved) {
    const std::optional<NetworkNamespace> pod = folder.OpenPin();
    // Without it the kernel brings the device back once the file, and with it a mount that is not seen here, has gone
    // and nobody else holds the namespace.
    if (!pod) UnpinNamespace(folder.pin());
    const NetworkNamespace host = NetworkNamespace::Open("/proc/thread-self/ns/net");
    const auto [file_system, inode] = host.Identity();
    if (plan->host_inode != 0 && (plan->host_device != file_system || plan->host_inode != inode)) {
      throw std::runtime_error(
          "claim " + plan->claim_uid +
          ": was prepared in another network namespace, to which its devices belong: start the "
          "driver in the host's network namespace (hostNetwork: true)");
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    const Homecoming way{host, pod ? &*pod : nullptr, state ? &*state : nullptr, sys, left, rdma};
    result = BringAllHome(way, plan->claim_uid, plan->attachments);
  } else if (plan) {
    // No hook has come so far as to move anything.
    for (const Attachment& attachment : plan->attachments) {
      const std::string& interface = attachment.home.name;
      result.push_back(
          {attachment.device, interface.empty() ? attachment.rdma_device : interface, ""});
    }
  }
  UnpinNamespace(folder.pin());
  folder.RemoveState();
  return result;
}

}  // namespace rdma
