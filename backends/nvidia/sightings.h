#pragma once

#include <sys/stat.h>

#include <chrono>
#include <ctime>
#include <map>
#include <string>

namespace nvidia {

// What a search in a file tree looked at, to tell later whether the same search would find the same: each path with
// what lay there, or that nothing did. A mount over a directory, another target of a link, a file written anew, a name
// more in a directory that was listed: each is a change. One thread.
class Sightings {
 public:
  Sightings();

  // path: as this process opens it. status: of its lstat; nullptr if it is not there.
  void Saw(const std::string& path, const struct stat* status);
  // The names in the directory were read, after this status of it.
  void Listed(const std::string& path, const struct stat& status);

  // Whether all of it is as it was. Costs an lstat for each path.
  bool Unchanged() const;
  // Whether nothing had changed for so long when the search began. What changes while it is searched may keep the time
  // of the change before, for a file system's clock ticks slowly, and would not be seen.
  bool Settled(std::chrono::nanoseconds quiet) const;

 private:
  struct Sight {
    bool there = false, listed = false;
    struct stat status = {};
  };
  static bool Same(const Sight& sight, bool there, const struct stat& now);

  std::map<std::string, Sight> sights_;
  timespec begun_;
};

}  // namespace nvidia
