#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dra/base/status.h"
#include "testing/admission.h"
#include "testing/api_errors.h"
#include "testing/store_state.h"

namespace dra::testing {
namespace {

class HistoryWatch final : public StoreWatch {
 public:
  HistoryWatch(std::shared_ptr<ObjectStore::State> state, const kube::Resource& resource,
               std::string namespace_name, Selector selector, bool bookmarks)
      : state_(std::move(state)),
        resource_(FindServed(resource)),
        namespace_(std::move(namespace_name)),
        selector_(std::move(selector)),
        bookmarks_(bookmarks) {}

  ~HistoryWatch() override {
    absl::MutexLock lock(&state_->mutex);
    --state_->open_watches;
    state_->changed.SignalAll();
  }

  // Called once, with the store locked.
  void Start(int64_t position, std::vector<StoreEvent> first)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) {
    position_ = position;
    initial_ = std::move(first);
    epoch_ = state_->watch_epoch;
    ++state_->open_watches;
    state_->changed.SignalAll();
  }

  absl::StatusOr<std::optional<StoreEvent>> Next(absl::Duration patience,
                                                 const std::stop_token& stop) override {
    const absl::Time until = absl::Now() + patience;
    std::stop_callback wake(stop, [this] {
      absl::MutexLock lock(&state_->mutex);
      state_->changed.SignalAll();
    });
    absl::MutexLock lock(&state_->mutex);
    for (;;) {
      if (state_->watch_epoch != epoch_) return absl::CancelledError("watch cut");
      if (next_initial_ < initial_.size()) return initial_[next_initial_++];
      if (position_ < state_->compacted) {
        return ExpiredError(
            absl::StrCat("too old resource version: ", position_, " (", state_->compacted, ")"));
      }
      std::optional<StoreEvent> event = TakeFromHistory();
      if (event.has_value()) return event;
      if (stop.stop_requested() || state_->changed.WaitWithDeadline(&state_->mutex, until))
        return std::nullopt;
    }
  }

  StoreEvent Bookmark() override {
    absl::MutexLock lock(&state_->mutex);
    return BookmarkAt(position_);
  }

 private:
  StoreEvent BookmarkAt(int64_t revision) const {
    return {"BOOKMARK",
            {{"kind", resource_->kind},
             {"apiVersion", resource_->group.empty()
                                ? resource_->version
                                : absl::StrCat(resource_->group, "/", resource_->version)},
             {"metadata",
              {{"resourceVersion", absl::StrCat(revision)}, {"creationTimestamp", nullptr}}}}};
  }

  std::optional<StoreEvent> TakeFromHistory() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) {
    auto change =
        std::upper_bound(state_->history.begin(), state_->history.end(), position_,
                         [](int64_t at, const auto& entry) { return at < entry->revision; });
    for (; change != state_->history.end(); ++change) {
      position_ = (*change)->revision;
      if ((*change)->resource == nullptr) {
        if (bookmarks_) return BookmarkAt(position_);
        continue;
      }
      if ((*change)->resource != resource_) continue;
      std::optional<StoreEvent> event = EventOf(**change);
      if (event.has_value()) return event;
    }
    return std::nullopt;
  }

  bool Concerns(const Json& object) const {
    return !object.is_null() && selector_.Matches(object) &&
           (namespace_.empty() || StringOr(object["metadata"], "namespace") == namespace_);
  }

  // An object that stops matching is DELETED for this watch, one that begins to match is ADDED.
  std::optional<StoreEvent> EventOf(const StoreChange& change) const {
    const bool before = Concerns(change.before);
    const bool after = Concerns(change.after);
    if (!before && !after) return std::nullopt;
    if (after) return StoreEvent{before ? "MODIFIED" : "ADDED", change.after};
    Json last = change.before;
    last["metadata"]["resourceVersion"] = absl::StrCat(change.revision);
    return StoreEvent{"DELETED", std::move(last)};
  }

  const std::shared_ptr<ObjectStore::State> state_;
  const kube::Resource* const resource_;
  const std::string namespace_;
  const Selector selector_;
  const bool bookmarks_;
  int64_t position_ = 0;
  int64_t epoch_ = 0;
  std::vector<StoreEvent> initial_;
  size_t next_initial_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StoreWatch>> OpenWatch(std::shared_ptr<ObjectStore::State> state,
                                                      const kube::Resource& resource,
                                                      absl::string_view namespace_name,
                                                      const StoreQuery& query) {
  absl::MutexLock lock(&state->mutex);
  if (FindServed(resource) == nullptr) return NoSuchResourceError();
  DRA_ASSIGN_OR_RETURN(
      Selector selector,
      Selector::Parse(resource, state->profile, query.field_selector, query.label_selector));
  const bool from_now =
      query.initial_events || query.resource_version.empty() || query.resource_version == "0";
  int64_t position = state->revision;
  std::vector<StoreEvent> initial;
  if (from_now) {
    for (const auto& [key, object] : state->objects[resource.plural]) {
      const bool here = namespace_name.empty() ||
                        StringOr(object["metadata"], "namespace") == std::string(namespace_name);
      if (here && selector.Matches(object)) initial.push_back({"ADDED", object});
    }
  } else {
    if (!absl::SimpleAtoi(query.resource_version, &position)) {
      return BadRequestError(absl::StrCat("invalid resource version: ", query.resource_version));
    }
    if (position < state->compacted) {
      return ExpiredError(
          absl::StrCat("too old resource version: ", position, " (", state->compacted, ")"));
    }
  }
  auto watch = std::make_unique<HistoryWatch>(state, resource, std::string(namespace_name),
                                              std::move(selector), query.bookmarks);
  if (query.initial_events) {
    StoreEvent end;
    end.type = "BOOKMARK";
    end.object = {{"kind", resource.kind},
                  {"metadata",
                   {{"resourceVersion", absl::StrCat(position)},
                    {"annotations", {{"k8s.io/initial-events-end", "true"}}}}}};
    initial.push_back(std::move(end));
  }
  watch->Start(position, std::move(initial));
  return watch;
}

void ObjectStore::CutWatches() {
  absl::MutexLock lock(&state_->mutex);
  ++state_->watch_epoch;
  state_->changed.SignalAll();
}

void ObjectStore::Compact() {
  absl::MutexLock lock(&state_->mutex);
  // The next revision is the oldest that is kept: a watch that stands at the present one has lost its place, too.
  state_->compacted = ++state_->revision;
  state_->history.clear();
  state_->changed.SignalAll();
}

void ObjectStore::SendBookmarks() {
  absl::MutexLock lock(&state_->mutex);
  auto bookmark = std::make_shared<StoreChange>();
  bookmark->revision = ++state_->revision;
  state_->history.push_back(std::move(bookmark));
  state_->changed.SignalAll();
}

int ObjectStore::OpenWatches() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->open_watches;
}

bool ObjectStore::WaitForWatches(int count, absl::Duration patience) const {
  const absl::Time until = absl::Now() + patience;
  absl::MutexLock lock(&state_->mutex);
  while (state_->open_watches < count) {
    if (state_->changed.WaitWithDeadline(&state_->mutex, until))
      return state_->open_watches >= count;
  }
  return true;
}

}  // namespace dra::testing
