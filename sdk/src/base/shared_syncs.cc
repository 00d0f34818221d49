#include "base/shared_syncs.h"

#include <utility>

namespace dra {

absl::Status SharedSyncs::Run(absl::string_view path) {
  mutex_.Lock();
  const auto found = paths_.try_emplace(std::string(path)).first;
  Path& shared = found->second;
  ++shared.users;
  const std::shared_ptr<Batch> mine = shared.next;
  struct Turn {
    const Batch* batch;
    const Path* path;
  };
  Turn turn = {mine.get(), &shared};
  mutex_.Await(absl::Condition(
      +[](Turn* wanted) { return wanted->batch->done || !wanted->path->running; }, &turn));
  if (!mine->done) {
    // Nothing runs, so the next one is the one that was joined.
    shared.running = true;
    shared.next = std::make_shared<Batch>();
    mutex_.Unlock();
    absl::Status status = sync_(found->first);
    mutex_.Lock();
    mine->status = std::move(status);
    mine->done = true;
    shared.running = false;
  }
  if (--shared.users == 0) paths_.erase(found);
  mutex_.Unlock();
  return mine->status;
}

}  // namespace dra
