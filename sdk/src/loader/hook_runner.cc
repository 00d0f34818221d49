#include "loader/hook_runner.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/loader/uncreated_backend.h"

namespace dra::loader {
namespace {

// A hook that heeds its deadline returns a moment after it; its own text is better than ours.
constexpr std::chrono::milliseconds kGrace(250);

MonotonicTime After(MonotonicTime start, absl::Duration limit) {
  return start + absl::ToChronoNanoseconds(limit);
}

}  // namespace

struct HookRunner::Task {
  HookSpec spec;
  std::function<void(RunningHook&)> body;
  std::shared_ptr<RunningHook> hook;
  MonotonicTime started;
  std::condition_variable ended;  // wakes the one caller of this task, with Core::mutex
  // Guarded by Core::mutex.
  bool done = false;
  bool abandoned = false;
};

// Shared with the threads, so that one that hangs in a hook outlives the runner safely.
struct HookRunner::Core {
  struct Worker {
    std::thread thread;
    std::shared_ptr<Task> task;  // null: idle
    bool exited = false;
  };

  mutable std::mutex mutex;
  std::condition_variable changed;  // callers that wait for their turn: an end, a cancellation
  std::condition_variable work;     // workers: a task or the end
  bool parallel = false;
  const HostTable* host = nullptr;
  bool stopping = false;
  std::deque<std::shared_ptr<Task>> queue;  // handed to an idle worker, not picked up yet
  std::vector<Worker> workers;
  std::list<std::shared_ptr<Task>> running;

  size_t Stuck() const {
    return static_cast<size_t>(std::count_if(running.begin(), running.end(),
                                             [](const auto& task) { return task->abandoned; }));
  }

  // A hook that `spec` may not run beside, or null.
  const Task* Conflict(const HookSpec& spec) const {
    for (const auto& task : running) {
      const HookMode other = task->spec.mode;
      const bool serial =
          other == HookMode::kSerial || other == HookMode::kAlone || other == HookMode::kQuiet;
      const bool claim = other == HookMode::kClaim;
      bool conflict = false;
      switch (spec.mode) {
        case HookMode::kAny:
          conflict = other == HookMode::kQuiet;
          break;
        case HookMode::kClaim:
          conflict = other == HookMode::kAlone || other == HookMode::kQuiet ||
                     (claim && task->spec.claim_uid == spec.claim_uid) ||
                     (!parallel && (serial || claim));
          break;
        case HookMode::kSerial:
          conflict = serial || (!parallel && claim);
          break;
        case HookMode::kAlone:
          conflict = serial || claim;
          break;
        case HookMode::kQuiet:
          conflict = true;
          break;
      }
      if (conflict) return task.get();
    }
    return nullptr;
  }
};

HookRunner::HookRunner(std::string subject, const LoadOptions& options)
    : subject_(std::move(subject)), options_(options), core_(std::make_shared<Core>()) {}

HookRunner::~HookRunner() {
  std::vector<std::thread> idle;
  {
    const std::lock_guard lock(core_->mutex);
    core_->stopping = true;
    for (Core::Worker& worker : core_->workers) {
      if (worker.task != nullptr) {
        worker.task->hook->Abandon();
        worker.thread.detach();
      } else {
        idle.push_back(std::move(worker.thread));
      }
    }
  }
  core_->work.notify_all();
  for (std::thread& thread : idle) thread.join();
}

void HookRunner::SetParallel(bool parallel) {
  const std::lock_guard lock(core_->mutex);
  core_->parallel = parallel;
}
void HookRunner::SetInstance(const HostTable* host) {
  const std::lock_guard lock(core_->mutex);
  core_->host = host;
  core_->changed.notify_all();
}

size_t HookRunner::Stuck() const {
  const std::lock_guard lock(core_->mutex);
  return core_->Stuck();
}

void HookRunner::Work(const std::shared_ptr<Core>& core, size_t index) {
  std::unique_lock lock(core->mutex);
  for (;;) {
    core->work.wait(lock, [&] { return core->stopping || !core->queue.empty(); });
    if (core->queue.empty()) return;
    const std::shared_ptr<Task> task = std::move(core->queue.front());
    core->queue.pop_front();
    core->workers[index].task = task;
    lock.unlock();

    if (task->spec.host != nullptr) task->spec.host->Begin(task->hook);
    task->body(*task->hook);
    if (task->spec.host != nullptr) task->spec.host->End(task->hook->id());
    task->body = nullptr;  // what a late result holds is freed here, outside of the lock

    lock.lock();
    task->done = true;
    core->workers[index].task = nullptr;
    core->running.remove(task);
    // Without the lock: whom this wakes would run into it at once and sleep again.
    lock.unlock();
    task->ended.notify_one();
    core->changed.notify_all();
    lock.lock();
  }
}

absl::Status HookRunner::Run(const HookSpec& spec, const Call& call,
                             std::function<void(RunningHook&)> body) {
  Core& core = *core_;
  const std::string what = absl::StrCat(subject_, ": hook ", spec.name);
  // Wakes this caller when its call is cancelled; made before the lock is taken, since it may run at once.
  const auto wake = [state = core_] {
    const std::lock_guard lock(state->mutex);
    state->changed.notify_all();
  };
  const std::stop_callback on_stop(call.stop, wake);

  const auto earlier = [&](MonotonicTime limit) {
    return call.deadline ? std::min(*call.deadline, limit) : limit;
  };
  const MonotonicTime turn_by = earlier(After(std::chrono::steady_clock::now(), spec.limit));

  std::unique_lock lock(core.mutex);
  for (;;) {
    if (spec.host != core.host && spec.mode != HookMode::kQuiet) {
      return MarkUncreated(absl::FailedPreconditionError(
          absl::StrCat(what, ": the backend instance was destroyed")));
    }
    if (call.stop.stop_requested())
      return absl::CancelledError(absl::StrCat(what, ": cancelled before it started"));
    const size_t stuck = core.Stuck();
    if (stuck >= static_cast<size_t>(options_.max_stuck_hooks)) {
      std::string names;
      for (const auto& task : core.running) {
        if (task->abandoned) absl::StrAppend(&names, names.empty() ? "" : ", ", task->spec.name);
      }
      return absl::UnavailableError(absl::StrCat(what, ": not called, ", stuck,
                                                 " earlier calls overran and hang (", names,
                                                 "): restart the driver"));
    }
    const Task* conflict = core.Conflict(spec);
    const size_t threads = static_cast<size_t>(options_.hook_threads +
                                               (spec.reserved ? options_.reserved_threads : 0));
    if (conflict == nullptr && core.running.size() < threads) break;
    const auto now = std::chrono::steady_clock::now();
    if (now >= turn_by) {
      if (conflict == nullptr) {
        return absl::DeadlineExceededError(
            absl::StrCat(what, ": all ", threads, " threads run hooks"));
      }
      const std::string claim = conflict->spec.claim_uid.empty()
                                    ? ""
                                    : absl::StrCat(" of claim ", conflict->spec.claim_uid);
      return absl::DeadlineExceededError(absl::StrCat(
          what, ": waited for hook ", conflict->spec.name, claim, ", which has run for ",
          absl::FormatDuration(
              absl::Trunc(absl::FromChrono(now - conflict->started), absl::Milliseconds(1)))));
    }
    core.changed.wait_until(lock, turn_by);
  }

  auto task = std::make_shared<Task>();
  task->spec = spec;
  task->body = std::move(body);
  task->started = std::chrono::steady_clock::now();
  const MonotonicTime deadline = earlier(After(task->started, spec.limit));
  task->hook = std::make_shared<RunningHook>(spec.claim_uid, spec.secrets, deadline, call.stop);

  const auto idle =
      static_cast<size_t>(std::count_if(core.workers.begin(), core.workers.end(),
                                        [](const auto& worker) { return worker.task == nullptr; }));
  if (idle <= core.queue.size()) {
    core.workers.emplace_back();
    try {
      core.workers.back().thread = std::thread(&HookRunner::Work, core_, core.workers.size() - 1);
    } catch (const std::system_error& error) {
      core.workers.pop_back();
      return absl::ResourceExhaustedError(absl::StrCat(what, ": no thread for it: ", error.what()));
    }
  }
  core.running.push_back(task);
  core.queue.push_back(task);
  lock.unlock();
  core.work.notify_one();
  lock.lock();

  const bool in_time = task->ended.wait_until(lock, deadline + kGrace, [&] { return task->done; });
  if (in_time) return absl::OkStatus();
  task->abandoned = true;
  lock.unlock();
  task->hook->Abandon();
  return absl::DeadlineExceededError(absl::StrCat(
      what, ": has not returned within ",
      absl::FormatDuration(
          absl::Trunc(absl::FromChrono(deadline - task->started), absl::Milliseconds(1))),
      " (its limit is ", absl::FormatDuration(spec.limit), "); its late result is dropped"));
}

}  // namespace dra::loader
