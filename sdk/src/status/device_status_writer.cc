#include "dra/status/device_status_writer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "nlohmann/json.hpp"
#include "status/status_entries.h"

namespace dra::status {
namespace {

// A prepare submits and the backend often adds a little later; both go in one apply.
constexpr absl::Duration kCoalesce = absl::Milliseconds(100);
constexpr absl::Duration kRetryMin = absl::Milliseconds(500);
constexpr absl::Duration kRetryMax = absl::Seconds(60);
constexpr absl::Duration kCallTimeout = absl::Seconds(30);
constexpr absl::Duration kForEver = absl::Hours(24);

// What shall stand in one claim, and what is known to stand there.
struct Task {
  ClaimKey claim;
  std::vector<Json> entries;
  uint64_t version = 0;    // of `entries`; grows with each Submit or Withdraw
  bool pending = false;    // `entries` is not confirmed
  bool withdrawn = false;  // nothing more will be submitted
  bool confirmed = false;  // some apply of ours is stored
  bool unsure = false;     // an apply got no answer: it may be stored
  int failures = 0;
  MonotonicTime due;
};

class ApplyingWriter final : public DeviceStatusWriter {
 public:
  ApplyingWriter(kube::ApiClient* api, Clock* clock, Logger logger, std::string field_manager)
      : api_(api),
        clock_(clock),
        logger_(std::move(logger)),
        field_manager_(std::move(field_manager)),
        thread_([this] { Loop(); }) {}

  ~ApplyingWriter() override {
    stop_.request_stop();
    thread_.join();
  }

  void Submit(const ClaimKey& claim, std::vector<Json> entries) override {
    entries = NormalizeEntries(std::move(entries), clock_->Now());
    absl::MutexLock lock(&mutex_);
    Task& task = tasks_[claim.uid];
    if (!task.pending) task.due = clock_->Monotonic() + absl::ToChronoNanoseconds(kCoalesce);
    task.claim = claim;
    KeepTransitionTimes(task.entries, entries);
    task.entries = std::move(entries);
    task.withdrawn = false;
    Renew(task);
  }

  void Withdraw(const ClaimKey& claim) override {
    absl::MutexLock lock(&mutex_);
    const auto found = tasks_.find(claim.uid);
    if (found == tasks_.end()) return;
    Task& task = found->second;
    task.withdrawn = true;
    // An apply that is on its way may still land, so its result decides.
    if (!task.confirmed && !task.unsure && busy_with_ != claim.uid) {
      tasks_.erase(found);
      return;
    }
    task.entries.clear();
    task.due = clock_->Monotonic();
    Renew(task);
  }

  size_t Pending() const override {
    absl::MutexLock lock(&mutex_);
    return static_cast<size_t>(std::count_if(
        tasks_.begin(), tasks_.end(), [](const auto& entry) { return entry.second.pending; }));
  }

 private:
  // A condition whose status stays keeps the time since when it has been so.
  static void KeepTransitionTimes(const std::vector<Json>& before, std::vector<Json>& entries) {
    for (Json& entry : entries) {
      const auto conditions = entry.find("conditions");
      if (conditions == entry.end() || !conditions->is_array()) continue;
      for (const Json& old : before) {
        const bool same_device = StringOr(old, "pool") == StringOr(entry, "pool") &&
                                 StringOr(old, "device") == StringOr(entry, "device") &&
                                 StringOr(old, "shareID") == StringOr(entry, "shareID");
        const Json* old_conditions = same_device ? Find(old, "conditions") : nullptr;
        if (old_conditions == nullptr || !old_conditions->is_array()) continue;
        for (Json& condition : *conditions) {
          for (const Json& was : *old_conditions) {
            if (condition.is_object() && StringOr(was, "type") == StringOr(condition, "type") &&
                StringOr(was, "status") == StringOr(condition, "status")) {
              condition["lastTransitionTime"] = StringOr(was, "lastTransitionTime");
            }
          }
        }
      }
    }
  }

  void Renew(Task& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++task.version;
    task.pending = true;
    task.failures = 0;
    Wake();
  }

  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (sleep_.has_value()) sleep_->request_stop();
  }

  void Loop() {
    const std::stop_token stop = stop_.get_token();
    while (!stop.stop_requested()) {
      std::optional<Task> task = NextDue(stop);
      if (!task.has_value()) continue;
      const absl::Status status = Send(*task, stop);
      absl::MutexLock lock(&mutex_);
      busy_with_.clear();
      Finish(*task, status);
    }
  }

  // The task whose time has come, or nothing after a wait.
  std::optional<Task> NextDue(const std::stop_token& stop) {
    std::stop_source sleep;
    absl::Duration wait = kForEver;
    {
      absl::MutexLock lock(&mutex_);
      const MonotonicTime now = clock_->Monotonic();
      for (auto& [uid, task] : tasks_) {
        if (!task.pending) continue;
        const absl::Duration left = absl::FromChrono(task.due - now);
        if (left <= absl::ZeroDuration()) {
          busy_with_ = uid;
          return task;
        }
        wait = std::min(wait, left);
      }
      sleep_ = sleep;
    }
    std::stop_callback forward(stop, [&sleep] { sleep.request_stop(); });
    clock_->Sleep(wait, sleep.get_token());
    absl::MutexLock lock(&mutex_);
    sleep_.reset();
    return std::nullopt;
  }

  absl::Status Send(const Task& task, const std::stop_token& stop) {
    return api_
        ->Apply(kube::ResourceClaims(), task.claim.namespace_name, task.claim.name, "status",
                field_manager_, ApplyBody(task.claim, task.entries),
                Call::WithTimeout(kCallTimeout, stop))
        .status();
  }

  // Takes in how the apply of `sent` ended.
  void Finish(const Task& sent, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = tasks_.find(sent.claim.uid);
    if (found == tasks_.end() || absl::IsCancelled(status)) return;
    Task& task = found->second;
    if (status.ok()) {
      task.confirmed = !sent.entries.empty();
      task.unsure = false;
      task.failures = 0;
      if (task.version == sent.version) task.pending = false;
      if (task.withdrawn && !task.confirmed) tasks_.erase(found);
      return;
    }
    if (Ends(status)) {
      // Nobody is left to show it to, or it will never be taken; a newer Submit starts afresh.
      if (task.version == sent.version || IsGone(status)) tasks_.erase(found);
      if (!IsGone(status)) Warn(sent, status, "device status was refused; it is not sent again");
      return;
    }
    const std::optional<kube::ApiError> error = kube::ApiErrorOf(status);
    if (!error.has_value() || error->http_code == 0 || error->http_code >= 500) task.unsure = true;
    if (task.withdrawn && !task.confirmed && !task.unsure) {
      tasks_.erase(found);
      return;
    }
    if (task.failures == 0)
      Warn(sent, status, "device status could not be written; it is sent again");
    absl::Duration wait =
        std::min(kRetryMax, kRetryMin * (int64_t{1} << std::min(task.failures, 10)));
    ++task.failures;
    if (error.has_value() && error->retry_after.has_value()) {
      wait = std::max(wait, *error->retry_after);
    }
    task.due = clock_->Monotonic() + absl::ToChronoNanoseconds(wait);
  }

  // The claim is not there any more, or another one has its name.
  static bool IsGone(const absl::Status& status) {
    if (absl::IsNotFound(status) || absl::IsAborted(status) || absl::IsAlreadyExists(status)) {
      return true;
    }
    const std::optional<kube::ApiError> error = kube::ApiErrorOf(status);
    if (!error.has_value() || error->http_code != 422) return false;
    return std::any_of(error->causes.begin(), error->causes.end(),
                       [](const auto& cause) { return cause.field == "metadata.uid"; });
  }

  static bool Ends(const absl::Status& status) {
    return IsGone(status) || absl::IsInvalidArgument(status);
  }

  void Warn(const Task& task, const absl::Status& status, absl::string_view text) {
    logger_.Warn(text, {{"driver", field_manager_},
                        {"claim", absl::StrCat(task.claim.namespace_name, "/", task.claim.name)},
                        {"claim_uid", task.claim.uid},
                        {"error", absl::StrCat(status.ToString(), Hint(status))}});
  }

  // From 1.36 on the permission is checked within validation, so that its absence looks like an invalid object.
  static std::string Hint(const absl::Status& status) {
    const std::optional<kube::ApiError> error = kube::ApiErrorOf(status);
    if (!error.has_value() || error->http_code != 422) return "";
    for (const auto& cause : error->causes) {
      if (cause.reason == "FieldValueForbidden" || absl::StrContains(cause.message, "orbidden")) {
        return "; hint: RBAC for resourceclaims/driver (verbs associated-node:update and "
               "associated-node:patch) is missing";
      }
    }
    return "";
  }

  kube::ApiClient* const api_;
  Clock* const clock_;
  const Logger logger_;
  const std::string field_manager_;
  std::stop_source stop_;

  mutable absl::Mutex mutex_;
  std::map<std::string, Task> tasks_ ABSL_GUARDED_BY(mutex_);  // by claim UID
  std::string busy_with_ ABSL_GUARDED_BY(mutex_);              // claim whose apply is on its way
  std::optional<std::stop_source> sleep_ ABSL_GUARDED_BY(mutex_);  // of the sleep that lasts now
  std::thread thread_;
};

}  // namespace

std::unique_ptr<DeviceStatusWriter> DeviceStatusWriter::Create(kube::ApiClient* api, Clock* clock,
                                                               Logger logger,
                                                               std::string field_manager) {
  return std::make_unique<ApplyingWriter>(api, clock, std::move(logger), std::move(field_manager));
}

}  // namespace dra::status
