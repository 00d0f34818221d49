#include "run.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "allocation.h"
#include "container_report.h"
#include "dra/base/file_system.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"
#include "leftovers.h"
#include "manifests.h"

namespace dra::sandbox {
namespace {

// One run: the steps in order, one thread.
class Run {
 public:
  Run(const RunOptions& options, std::ostream& out) : options_(options), out_(out) {}

  int Go() {
    absl::Status status = ReadFiles();
    if (status.ok()) status = StartBox();
    if (!status.ok()) return Failed(status);
    ShowSlices();
    RunPods();
    StopPods();
    ShowLeftovers("after unprepare",
                  FindClaimLeftovers(box_->CdiDirectory(), box_->DataDirectory()));
    StopDriver();
    Step(failures_ == 0 ? "Done." : absl::StrCat("Done, with ", failures_, " failures."));
    return failures_ == 0 ? 0 : 1;
  }

 private:
  void Step(const std::string& text) { out_ << "\n" << ++step_ << ". " << text << "\n"; }
  void Line(const std::string& text) { out_ << "   " << text << "\n" << std::flush; }
  int Failed(const absl::Status& status) {
    ++failures_;
    out_ << "   FAILED: " << std::string(status.message()) << "\n" << std::flush;
    return 1;
  }

  absl::Status ReadFiles() {
    PosixFileSystem fs;
    for (const std::string& file : options_.files) {
      DRA_ASSIGN_OR_RETURN(const std::string text, fs.ReadFile(file));
      DRA_RETURN_IF_ERROR(AddManifests(text, file, &manifests_));
    }
    Step(absl::StrCat("Read ", options_.files.size(), " files: ", manifests_.classes.size(),
                      " DeviceClasses, ", manifests_.claims.size(), " ResourceClaims, ",
                      manifests_.templates.size(), " ResourceClaimTemplates, ",
                      manifests_.pods.size(), " Pods."));
    for (const std::string& skipped : manifests_.skipped)
      Line(absl::StrCat("not needed here: ", skipped));
    return absl::OkStatus();
  }

  absl::Status StartBox() {
    DRA_ASSIGN_OR_RETURN(box_, NodeBox::Start(options_.box));
    Step(
        absl::StrCat("Started a node in a box: an API server double, a kubelet double, and "
                     "dra-driver with the backend"));
    Line(options_.box.library);
    const absl::Status ready = box_->WaitUntilReady(options_.patience);
    if (!ready.ok()) ShowLog();
    return ready;
  }

  void ShowLog() {
    PosixFileSystem fs;
    const absl::StatusOr<std::string> log = fs.ReadFile(box_->LogFile());
    if (log.ok()) out_ << "--- log of dra-driver\n" << *log << "---\n";
  }

  void ShowSlices() {
    const std::vector<Json> slices = box_->api().store().All(kube::ResourceSlices());
    Step("The kubelet registered the driver, which published its devices as ResourceSlices:");
    for (const Json& slice : slices) Line(DescribeSlice(slice));
    for (const auto& [name, device_class] : manifests_.classes)
      box_->api().store().Put(device_class);
    allocator_ = std::make_unique<Allocator>(slices, manifests_.classes, options_.box.node_name);
  }

  // The claim in the API server double, allocated, and reserved for the pod.
  absl::Status MakeClaim(const Json& pod, const PodClaim& claim) {
    testing::ObjectStore& store = box_->api().store();
    std::optional<Json> stored =
        store.Find(kube::ResourceClaims(), claim.namespace_name, claim.name);
    if (!stored.has_value()) {
      Json object = claim.object;
      object.erase("status");
      DRA_ASSIGN_OR_RETURN(stored,
                           store.Create(kube::ResourceClaims(), claim.namespace_name, object));
      DRA_ASSIGN_OR_RETURN(const Json allocation, allocator_->Allocate(*stored));
      (*stored)["status"] = {{"allocation", allocation}, {"reservedFor", Json::array()}};
    }
    (*stored)["status"]["reservedFor"].push_back(
        {{"resource", "pods"}, {"name", NameOf(pod)}, {"uid", StringOr(pod["metadata"], "uid")}});
    const absl::StatusOr<Json> updated =
        store.Update(kube::ResourceClaims(), claim.namespace_name, claim.name, "status", *stored);
    DRA_RETURN_IF_ERROR(updated.status());
    Line(absl::StrCat("claim ", claim.namespace_name, "/", claim.name, ": allocated ",
                      DescribeAllocation(*updated)));
    return absl::OkStatus();
  }

  absl::Status RunPod(Json pod) {
    pod["metadata"]["uid"] = NewUuid();
    std::vector<PodClaim> claims;
    DRA_RETURN_IF_ERROR(PodClaims(pod, manifests_, &claims));
    for (const PodClaim& claim : claims) {
      DRA_RETURN_IF_ERROR(
          Annotate(MakeClaim(pod, claim), absl::StrCat("ResourceClaim ", claim.name)));
      pod["status"]["resourceClaimStatuses"].push_back(
          {{"name", claim.pod_claim_name}, {"resourceClaimName", claim.name}});
    }
    box_->api().store().Put(pod);
    const absl::Time start = absl::Now();
    const auto containers = box_->kubelet().RunPod(NamespaceOf(pod), NameOf(pod));
    started_.push_back(
        pod);  // also a failed one is stopped: the kubelet unprepares what it may have prepared
    DRA_RETURN_IF_ERROR(containers.status());
    Line(absl::StrCat("the kubelet called NodePrepareResources; all was ready after ",
                      absl::ToInt64Milliseconds(absl::Now() - start), " ms"));
    for (const testing::KubeletContainer& container : *containers) {
      DRA_ASSIGN_OR_RETURN(const std::vector<std::string> lines,
                           DescribeContainer(container, box_->CdiDirectory()));
      for (const std::string& line : lines) Line(line);
    }
    return absl::OkStatus();
  }

  void RunPods() {
    for (const Json& pod : manifests_.pods) {
      Step(absl::StrCat("Pod ", KeyOf(pod), ":"));
      const absl::Status status = RunPod(pod);
      if (!status.ok()) Failed(status);
    }
    if (manifests_.pods.empty())
      Failed(absl::InvalidArgumentError("no Pod in the applied files: nothing to prepare"));
  }

  void StopPods() {
    Step(
        "The pods end; the kubelet calls NodeUnprepareResources for each claim that no pod uses "
        "any more.");
    for (const Json& pod : started_) {
      const absl::Status stopped = box_->kubelet().StopPod(NamespaceOf(pod), NameOf(pod));
      if (!stopped.ok()) Failed(Annotate(stopped, absl::StrCat("Pod ", KeyOf(pod))));
    }
  }

  void ShowLeftovers(const std::string& when,
                     const absl::StatusOr<std::vector<std::string>>& left) {
    if (!left.ok()) {
      Failed(left.status());
    } else if (left->empty()) {
      Line(absl::StrCat("nothing is left ", when, ": no CDI file, no record, no hold"));
    } else {
      Failed(absl::InternalError(absl::StrCat("left ", when, ": ", absl::StrJoin(*left, ", "))));
    }
  }

  void StopDriver() {
    const absl::StatusOr<int> status = box_->StopDriver();
    Step("SIGTERM to dra-driver:");
    if (!status.ok()) {
      Failed(status.status());
    } else if (*status != 0) {
      Failed(absl::InternalError(absl::StrCat("it ended with status ", *status)));
    } else {
      Line(
          "it ended with status 0; its ResourceSlices stay, so that a restart or an upgrade goes "
          "unnoticed");
    }
    const auto sockets = FindSockets(box_->DataDirectory());
    if (!sockets.ok())
      Failed(sockets.status());
    else if (!sockets->empty())
      Failed(absl::InternalError(absl::StrCat("sockets left: ", absl::StrJoin(*sockets, ", "))));
    if (failures_ > 0) ShowLog();
  }

  const RunOptions& options_;
  std::ostream& out_;
  Manifests manifests_;
  std::unique_ptr<NodeBox> box_;
  std::unique_ptr<Allocator> allocator_;
  std::vector<Json> started_;
  int step_ = 0;
  int failures_ = 0;
};

}  // namespace

int RunSandbox(const RunOptions& options, std::ostream& out) { return Run(options, out).Go(); }

}  // namespace dra::sandbox
