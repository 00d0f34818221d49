#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/json.h"
#include "dra/kube/reflector.h"
#include "nlohmann/json.hpp"

namespace dra::publisher {

// What is known of the stored slices: what the watch reported, overlaid with the answers to our own writes, which the
// watch repeats a little later. The newer of the two counts, by resource version. Any thread.
class SliceStore {
 public:
  // Takes a change from the watch. True if it is news; false for the echo of a write of ours and for what is older
  // than that.
  bool Apply(const kube::Change& change);
  // The answer to a write or a GET of ours.
  void Put(const Json& slice);
  // The slice is gone: a delete of ours, or a GET that found nothing.
  void Remove(absl::string_view name);

  std::vector<Json> All() const;
  // Slices that are known here and missing in a fresh list: created since, or created and deleted without the watch
  // having seen either. Only a GET can tell.
  std::vector<std::string> MissingIn(const kube::Reflector::Store& listed) const;

 private:
  // UIDs never come back, so whatever still arrives about a deleted slice is late.
  void Bury(const std::string& uid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<std::string, Json> slices_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> buried_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> buried_order_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dra::publisher
