#include "attach.h"

#include <linux/netlink.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include "find_interface.h"
#include "homecoming.h"
#include "links.h"
#include "set_up_interface.h"

namespace rdma {
namespace {

using std::chrono::seconds;

constexpr char kSys[] = "/sys";
constexpr seconds kLockLimit{20};
constexpr seconds kPatience{5};

std::string What(const Attachment& attachment) {
  const std::string& interface = attachment.home.name;
  return "device " + attachment.device +
         (interface.empty() ? "" : " (interface " + interface + ")") + ": ";
}

template <typename Function>
void Naming(const Attachment& attachment, Function&& function) {
  try {
    function();
  } catch (const std::exception& error) {
    throw std::runtime_error(What(attachment) + error.what());
  }
}

class Attaching {
 public:
  Attaching(const ClaimFolder& folder, const PodSandbox& sandbox, const NetworkNamespace& pod,
            const Plan& plan, RdmaMoves& rdma)
      : folder_(folder),
        sandbox_(sandbox),
        pod_(pod),
        host_(NetworkNamespace::Open("/proc/thread-self/ns/net")),
        plan_(plan),
        rdma_(rdma) {}

  void Run() {
    const std::optional<AttachState> before = folder_.ReadState();
    if (before) state_ = *before;
    const std::optional<NetworkNamespace> pinned = folder_.OpenPin();
    here_ = MayHaveMoved(state_) && pinned && pinned->Identity() == pod_.Identity();
    // Of containers that run already nothing is taken away.
    const bool attached =
        here_ && state_.phase == AttachState::Phase::kAttached && IsOfThisNamespace();
    try {
      const auto [file_system, inode] = host_.Identity();
      if (plan_.host_inode != 0 &&
          (plan_.host_device != file_system || plan_.host_inode != inode)) {
        throw std::runtime_error(
            "the driver runs in another network namespace than the container runtime, and would "
            "not "
            "get the device back: give the driver's pod hostNetwork: true");
      }
      if (pod_.Identity() == host_.Identity()) {
        throw std::runtime_error(
            "the pod uses the host's network (hostNetwork: true), into which no network device can "
            "be moved: use a pod with a network of its own");
      }
      if (!here_) LeaveEarlierSandbox(pinned);
    } catch (const std::exception& error) {
      Note(error.what());
      throw;
    }
    try {
      Bring(attached);
    } catch (const std::exception& error) {
      throw std::runtime_error(Undo(attached, error.what()));
    }
  }

 private:
  struct Step {
    const Attachment* attachment;
    std::optional<Link> in_pod;   // it is there already
    std::optional<Link> on_host;  // of a macvlan: the NIC it is made on
  };

  bool IsOfThisNamespace() const {
    const auto [file_system, inode] = pod_.Identity();
    return state_.namespace_device == file_system && state_.namespace_inode == inode;
  }

  Homecoming WayHome(const NetworkNamespace* from) {
    return {host_, from, &state_, kSys, kPatience, rdma_};
  }

  // The same pod in a new sandbox: what is in the old one's namespace comes home first, settings and all.
  void LeaveEarlierSandbox(const std::optional<NetworkNamespace>& pinned) {
    if (MayHaveMoved(state_))
      BringAllHome(WayHome(pinned ? &*pinned : nullptr), plan_.claim_uid, plan_.attachments);
    UnpinNamespace(folder_.pin());
    folder_.RemoveState();
    state_ = AttachState();
  }

  void Bring(bool attached) {
    std::vector<Step> steps = Look();
    bool missing = false;
    for (const Step& step : steps) missing = missing || IsMissing(step);
    if (!attached || missing) {
      for (const Step& step : steps) Naming(*step.attachment, [&] { NoteHome(step); });
      const auto [file_system, inode] = pod_.Identity();
      PinNamespace(pod_, folder_.pin());
      state_.phase = AttachState::Phase::kMoving;
      state_.pod_uid = sandbox_.pod_uid;
      state_.sandbox = sandbox_.sandbox_id;
      state_.namespace_device = file_system;
      state_.namespace_inode = inode;
      state_.error.clear();
      folder_.WriteState(state_);
    }
    std::set<const Attachment*> brought;
    for (Step& step : steps) {
      Naming(*step.attachment, [&] {
        if (IsMissing(step)) {
          moved_.push_back(*step.attachment);
          brought.insert(step.attachment);
        }
        Move(step);
      });
    }
    std::vector<AttachedInterface> interfaces;
    for (const Step& step : steps) {
      if (!step.in_pod) continue;
      Naming(*step.attachment, [&] {
        const bool afresh = !attached || brought.count(step.attachment) != 0;
        interfaces.push_back(SetUpInterface(pod_, *step.in_pod, *step.attachment, afresh));
      });
    }
    AttachState done = state_;
    done.phase = AttachState::Phase::kAttached;
    done.interfaces = interfaces;
    done.error.clear();
    if (done != folder_.ReadState()) folder_.WriteState(done);
  }

  // Finds everything and refuses what cannot be, before anything is moved.
  std::vector<Step> Look() {
    NetlinkSocket host(NETLINK_ROUTE, host_), pod(NETLINK_ROUTE, pod_);
    const std::vector<Link> on_host = ListLinks(host), in_pod = ListLinks(pod);
    std::vector<Step> steps;
    std::set<std::string> names;
    for (const Attachment& attachment : plan_.attachments) {
      Step& step = steps.emplace_back(Step{&attachment, std::nullopt, std::nullopt});
      if (attachment.home.name.empty()) continue;
      const std::string temporary = TemporaryName(plan_.claim_uid, attachment.device);
      const AttachedInterface* noted = NotedOf(&state_, attachment.device, pod_);
      step.on_host = FindOnHost(on_host, attachment, temporary, kSys);
      if (attachment.kind == AttachKind::kMacvlan) {
        if (here_ && step.on_host)
          step.in_pod = FindMacvlan(in_pod, attachment, step.on_host->index, noted);
      } else if (here_) {
        step.in_pod = FindInPod(in_pod, attachment, noted);
      }
      if (!step.in_pod && !step.on_host)
        throw std::runtime_error(What(attachment) + "is not on the host any more");
      if (!names.insert(attachment.pod_name).second)
        throw std::runtime_error(What(attachment) + "another device of the claim has the name " +
                                 attachment.pod_name +
                                 " too: give `interface.name` in the configuration of one of them");
      if (!step.in_pod && HasName(in_pod, attachment.pod_name)) {
        throw std::runtime_error(
            What(attachment) + "the pod has an interface " + attachment.pod_name +
            " already: give another `interface.name` in the claim's configuration");
      }
    }
    return steps;
  }

  bool IsMissing(const Step& step) {
    const Attachment& attachment = *step.attachment;
    if (!attachment.home.name.empty() && !step.in_pod) return true;
    return !attachment.rdma_device.empty() && !rdma_.Has(attachment.rdma_device, pod_);
  }

  // What is noted already is from before the first change.
  void NoteHome(const Step& step) {
    if (step.in_pod || !step.on_host || step.attachment->kind == AttachKind::kMacvlan) return;
    if (state_.lost.count(step.attachment->device) != 0) return;
    state_.lost[step.attachment->device] =
        NoteSettings(step.on_host->name, step.attachment->config);
  }

  void Move(Step& step) {
    const Attachment& attachment = *step.attachment;
    if (!attachment.home.name.empty() && !step.in_pod) {
      NetlinkSocket host(NETLINK_ROUTE, host_), pod(NETLINK_ROUTE, pod_);
      if (attachment.kind == AttachKind::kMacvlan) {
        const NetworkConfig::Interface& wish = attachment.config.interface;
        AddMacvlan(host, step.on_host->index, attachment.pod_name, wish.macvlan,
                   wish.hardware_address, wish.mtu.value_or(0), pod_);
      } else {
        if (attachment.home.xdp_programs.empty()) DetachXdp(host, *step.on_host, attachment.home);
        // The kernel takes it down by itself, once it is sure that it moves it.
        LinkChange change;
        change.name = attachment.pod_name;
        change.target = &pod_;
        ChangeLink(host, step.on_host->index, step.on_host->name, change);
      }
      step.in_pod = FindLink(pod, attachment.pod_name);
      if (!step.in_pod) throw std::runtime_error("was renamed in the pod while it was moved there");
    }
    if (!attachment.rdma_device.empty() && !rdma_.Has(attachment.rdma_device, pod_))
      rdma_.Move(attachment.rdma_device, host_, pod_);
  }

  // Everything as it was, and the reason noted. Gives the text for the pod.
  std::string Undo(bool attached, std::string text) {
    try {
      // Of an earlier try that was killed any may be in the pod. Without one only what this call moved is ours there.
      const bool all = here_ && !attached;
      BringAllHome(WayHome(&pod_), plan_.claim_uid, all ? plan_.attachments : moved_);
      if (attached) {
        state_.phase = AttachState::Phase::kAttached;
      } else {
        UnpinNamespace(folder_.pin());
        state_ = AttachState();
        state_.pod_uid = sandbox_.pod_uid;
        state_.sandbox = sandbox_.sandbox_id;
      }
    } catch (const std::exception& error) {
      text += std::string("; and it could not be undone: ") + error.what();
    }
    Note(text);
    return text;
  }

  // For the claim's conditions. What the caller tells is more than that this cannot be noted.
  void Note(const std::string& error) {
    try {
      state_.error = error;
      folder_.WriteState(state_);
    } catch (const std::exception&) {
    }
  }

  const ClaimFolder& folder_;
  const PodSandbox& sandbox_;
  const NetworkNamespace& pod_;
  const NetworkNamespace host_;
  const Plan& plan_;
  RdmaMoves& rdma_;
  AttachState state_;
  bool here_ = false;  // an earlier call began with this namespace: something may be in it already
  std::vector<Attachment> moved_;  // by this call
};

}  // namespace

void Attach(const ClaimFolder& folder, const PodSandbox& sandbox, const NetworkNamespace& pod,
            RdmaMoves& rdma) {
  const std::unique_ptr<ClaimFolder::Lock> lock = folder.TryLock(kLockLimit);
  if (!lock) {
    throw std::runtime_error(folder.path() + ": is locked by another process for more than " +
                             std::to_string(kLockLimit.count()) +
                             " s: it moves devices of the same claim");
  }
  const std::optional<Plan> plan = folder.ReadPlan();
  if (!plan) throw std::runtime_error(folder.path() + ": the claim is not prepared any more");
  if (plan->pod_uid != sandbox.pod_uid) {
    throw std::runtime_error("claim " + plan->claim_uid + " is prepared for pod " + plan->pod_uid +
                             ", its network devices cannot be in pod " + sandbox.pod_uid +
                             " too: give each pod a claim of its own");
  }
  Attaching(folder, sandbox, pod, *plan, rdma).Run();
}

}  // namespace rdma
