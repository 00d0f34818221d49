#include "dra/observe/events.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"
#include "nlohmann/json.hpp"
#include "observe/event_body.h"

namespace dra::observe {
namespace {

constexpr size_t kMaxQueued = 1000;
constexpr size_t kMaxSeries = 1000;
constexpr absl::Duration kSeriesLife = absl::Minutes(10);
constexpr absl::Duration kWriteTimeout = absl::Seconds(10);
constexpr absl::Duration kRetryWait = absl::Seconds(2);
constexpr absl::Duration kFlushLimit = absl::Seconds(1);
constexpr char kDropped[] = "dra_events_dropped_total";

}  // namespace

struct EventRecorder::Impl {
  // Equal events that were written once, and the object that counts them.
  struct Series {
    Json object;
    absl::Time last_seen;
    int64_t count = 1;
  };

  Impl(kube::ApiClient* api_client, Clock* used_clock, Metrics* used_metrics, Logger used_logger,
       std::string reporting_controller, std::string reporting_instance)
      : api(api_client),
        clock(used_clock),
        metrics(used_metrics),
        logger(std::move(used_logger)),
        controller(std::move(reporting_controller)),
        instance(std::move(reporting_instance)) {}

  kube::ApiClient* const api;
  Clock* const clock;
  Metrics* const metrics;
  const Logger logger;
  const std::string controller;
  const std::string instance;

  std::mutex mutex;
  std::condition_variable_any changed;
  std::deque<EventRecord> queue;
  bool closing = false;
  std::stop_source aborted;  // the flush at the end took too long
  bool idle = true;

  std::map<std::string, Series> series;  // the writer's thread only
  bool failing = false;
  std::jthread thread;

  static std::string KeyOf(const EventRecord& record) {
    const ObjectReference& about = record.regarding;
    return Json::array({about.api_version, about.kind, about.namespace_name, about.name, about.uid,
                        record.reason, record.action, record.note,
                        record.type == EventType::kNormal})
        .dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  void Dropped() const {
    if (metrics != nullptr) metrics->Increment(kDropped);
  }

  // Unique enough, and readable: the object's name and random digits, a DNS subdomain of at most 253 bytes.
  static std::string NameFor(const EventRecord& record) {
    std::string base = record.regarding.name.substr(0, 230);
    while (!base.empty() && (base.back() == '.' || base.back() == '-')) base.pop_back();
    return absl::StrCat(base.empty() ? "event" : base, ".", RandomHex(8));
  }

  absl::Status WriteNew(const EventRecord& record, const std::string& key, const Call& call) {
    const Json body = EventBody(record, NameFor(record), controller, instance);
    absl::StatusOr<Json> created = api->Create(kube::Events(), EventNamespace(record.regarding),
                                               body, kube::WriteOptions(), call);
    if (!created.ok()) return created.status();
    if (series.size() < kMaxSeries)
      series.insert_or_assign(key, Series{*std::move(created), record.time, 1});
    return absl::OkStatus();
  }

  absl::Status WriteAgain(Series& known, const EventRecord& record, const Call& call) {
    Json body = known.object;
    body["series"] = {{"count", known.count + 1}, {"lastObservedTime", MicroTime(record.time)}};
    const Json* metadata = Find(body, "metadata");
    absl::StatusOr<Json> updated =
        api->Update(kube::Events(), EventNamespace(record.regarding), StringOr(*metadata, "name"),
                    body, kube::WriteOptions(), call);
    if (!updated.ok()) return updated.status();
    known.object = *std::move(updated);
    known.count += 1;
    known.last_seen = record.time;
    return absl::OkStatus();
  }

  absl::Status Write(const EventRecord& record, const Call& call) {
    for (auto entry = series.begin(); entry != series.end();) {
      entry = record.time - entry->second.last_seen > kSeriesLife ? series.erase(entry)
                                                                  : std::next(entry);
    }
    const std::string key = KeyOf(record);
    const auto known = series.find(key);
    if (known == series.end() || Find(known->second.object, "metadata") == nullptr) {
      return WriteNew(record, key, call);
    }
    const absl::Status status = WriteAgain(known->second, record, call);
    // Somebody changed it, or it has expired: a new one.
    if (!absl::IsAborted(status) && !absl::IsNotFound(status) && !absl::IsInvalidArgument(status))
      return status;
    series.erase(known);
    return WriteNew(record, key, call);
  }

  void Run(const std::stop_token& stop) {
    while (true) {
      EventRecord record;
      {
        std::unique_lock<std::mutex> lock(mutex);
        idle = queue.empty();
        changed.notify_all();
        changed.wait(lock, stop, [this] { return !queue.empty() || closing; });
        if (stop.stop_requested() || queue.empty()) return;
        idle = false;
        record = std::move(queue.front());
        queue.pop_front();
      }
      const absl::Status status = Write(record, Call::WithTimeout(kWriteTimeout, stop));
      if (status.ok()) {
        if (std::exchange(failing, false)) logger.Info("Events are written again");
        continue;
      }
      if (!std::exchange(failing, true)) {
        logger.Warn("cannot write Events, keeping the newest", {{"error", status.ToString()}});
      }
      // A refusal stays one; the others wait in line for the server to come back, the oldest first.
      if (!kube::IsTransient(status)) {
        Dropped();
        continue;
      }
      {
        const std::lock_guard<std::mutex> lock(mutex);
        if (queue.size() < kMaxQueued && !closing) {
          queue.push_front(std::move(record));
        } else {
          Dropped();
        }
      }
      const std::optional<kube::ApiError> error = kube::ApiErrorOf(status);
      const absl::Duration wait = std::max(
          kRetryWait, error.has_value() && error->retry_after.has_value() ? *error->retry_after
                                                                          : absl::ZeroDuration());
      clock->Sleep(wait, stop);
    }
  }
};

EventRecorder::EventRecorder(kube::ApiClient* api, Clock* clock, Metrics* metrics, Logger logger,
                             std::string reporting_controller, std::string reporting_instance)
    : impl_(std::make_unique<Impl>(api, clock, metrics, std::move(logger),
                                   std::move(reporting_controller),
                                   std::move(reporting_instance))) {
  if (api == nullptr) return;
  impl_->thread = std::jthread(
      [impl = impl_.get()](const std::stop_token&) { impl->Run(impl->aborted.get_token()); });
}

EventRecorder::~EventRecorder() {
  if (!impl_->thread.joinable()) return;
  {
    std::unique_lock<std::mutex> lock(impl_->mutex);
    impl_->closing = true;
    impl_->changed.notify_all();
    impl_->changed.wait_for(lock, absl::ToChronoNanoseconds(kFlushLimit),
                            [this] { return impl_->queue.empty() && impl_->idle; });
  }
  impl_->aborted.request_stop();
  impl_->thread.join();
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  for (size_t left = impl_->queue.size(); left > 0; --left) impl_->Dropped();
}

void EventRecorder::Record(EventType type, const ObjectReference& regarding,
                           absl::string_view reason, absl::string_view action,
                           absl::string_view note) {
  const std::string text = absl::StrCat("event ", reason, ": ", note);
  const std::string about = absl::StrCat(regarding.kind, " ", regarding.name);
  if (type == EventType::kWarning) {
    impl_->logger.Warn(text, {{"object", about}});
  } else {
    impl_->logger.Info(text, {{"object", about}});
  }
  if (impl_->api == nullptr) return;
  EventRecord record{type,
                     regarding,
                     std::string(reason),
                     std::string(action),
                     std::string(note),
                     impl_->clock->Now()};
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex);
    if (impl_->queue.size() >= kMaxQueued) {
      impl_->queue.pop_front();
      impl_->Dropped();
    }
    impl_->queue.push_back(std::move(record));
  }
  impl_->changed.notify_all();
}

}  // namespace dra::observe
