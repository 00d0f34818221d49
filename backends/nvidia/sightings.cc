#include "sightings.h"

#include <cerrno>

namespace nvidia {
namespace {

bool Same(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

std::chrono::nanoseconds SinceEpoch(const timespec& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

Sightings::Sightings() { clock_gettime(CLOCK_REALTIME, &begun_); }

void Sightings::Saw(const std::string& path, const struct stat* status) {
  // The first one counts: where a later one differs, the search has met a change, and will not be taken for unchanged.
  const auto [sight, is_new] = sights_.try_emplace(path);
  if (!is_new) return;
  sight->second.there = status != nullptr;
  if (status != nullptr) sight->second.status = *status;
}

void Sightings::Listed(const std::string& path, const struct stat& status) {
  const auto [sight, is_new] = sights_.try_emplace(path);
  if (!is_new && (sight->second.listed || !Same(sight->second, true, status))) return;
  sight->second = {.there = true, .listed = true, .status = status};
}

bool Sightings::Same(const Sight& sight, bool there, const struct stat& now) {
  const struct stat& then = sight.status;
  if (!there || !sight.there) return there == sight.there;
  if (now.st_dev != then.st_dev || now.st_ino != then.st_ino || now.st_mode != then.st_mode)
    return false;
  // What else happens in a directory that is only on the way does not matter.
  if (S_ISDIR(now.st_mode) && !sight.listed) return true;
  return now.st_size == then.st_size && nvidia::Same(now.st_mtim, then.st_mtim) &&
         nvidia::Same(now.st_ctim, then.st_ctim);
}

bool Sightings::Unchanged() const {
  for (const auto& [path, sight] : sights_) {
    struct stat now = {};
    const bool there = lstat(path.c_str(), &now) == 0;
    if (!there && errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG) return false;
    if (!Same(sight, there, now)) return false;
  }
  return true;
}

bool Sightings::Settled(std::chrono::nanoseconds quiet) const {
  for (const auto& [path, sight] : sights_) {
    if (!sight.there || (S_ISDIR(sight.status.st_mode) && !sight.listed)) continue;
    if (SinceEpoch(sight.status.st_ctim) + quiet > SinceEpoch(begun_)) return false;
  }
  return true;
}

}  // namespace nvidia
