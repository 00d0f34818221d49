#include "publisher/slice_store.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "publisher/slice_names.h"

namespace dra::publisher {
namespace {

constexpr size_t kMaxBuried = 4096;

// True if `a` is older than `b` or the same version. Versions of one resource are compared as numbers, as the Go
// client's mutation cache does; if they are no numbers, only equality is known.
bool NotNewer(const Json& a, const Json& b) {
  const std::string first = Meta(a, "resourceVersion"), second = Meta(b, "resourceVersion");
  uint64_t x = 0, y = 0;
  if (absl::SimpleAtoi(first, &x) && absl::SimpleAtoi(second, &y)) return x <= y;
  return first == second;
}

}  // namespace

bool SliceStore::Apply(const kube::Change& change) {
  if (change.object == nullptr) return false;
  const Json& object = *change.object;
  const std::string name = Meta(object, "name"), uid = Meta(object, "uid");
  absl::MutexLock lock(&mutex_);
  const auto known = slices_.find(name);
  if (change.type == kube::Change::Type::kDeleted) {
    Bury(uid);
    if (known == slices_.end() || Meta(known->second, "uid") != uid) return false;
    slices_.erase(known);
    return true;
  }
  if (buried_.count(uid) != 0) return false;
  if (known != slices_.end() && Meta(known->second, "uid") == uid &&
      NotNewer(object, known->second)) {
    return false;
  }
  slices_[name] = object;
  return true;
}

void SliceStore::Put(const Json& slice) {
  const std::string name = Meta(slice, "name"), uid = Meta(slice, "uid");
  absl::MutexLock lock(&mutex_);
  // The watch may have told of the deletion before the answer to the create was read (SLC-01).
  if (buried_.count(uid) != 0) return;
  const auto known = slices_.find(name);
  if (known != slices_.end() && Meta(known->second, "uid") == uid &&
      NotNewer(slice, known->second)) {
    return;
  }
  slices_[name] = slice;
}

void SliceStore::Remove(absl::string_view name) {
  absl::MutexLock lock(&mutex_);
  const auto known = slices_.find(std::string(name));
  if (known == slices_.end()) return;
  Bury(Meta(known->second, "uid"));
  slices_.erase(known);
}

std::vector<Json> SliceStore::All() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Json> all;
  all.reserve(slices_.size());
  for (const auto& [name, slice] : slices_) all.push_back(slice);
  return all;
}

std::vector<std::string> SliceStore::MissingIn(const kube::Reflector::Store& listed) const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> missing;
  for (const auto& [name, slice] : slices_) {
    if (listed.count(name) == 0) missing.push_back(name);
  }
  return missing;
}

void SliceStore::Bury(const std::string& uid) {
  if (uid.empty() || !buried_.insert(uid).second) return;
  buried_order_.push_back(uid);
  if (buried_order_.size() > kMaxBuried) {
    buried_.erase(buried_order_.front());
    buried_order_.pop_front();
  }
}

}  // namespace dra::publisher
