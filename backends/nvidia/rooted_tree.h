#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sightings.h"

namespace nvidia {

// A directory tree whose links mean paths below its root, as for a process that is chrooted there: a driver
// container's root, or the host's as this process sees it. For looking, not for a fence: the tree is the host's.
class RootedTree {
 public:
  // root: as this process opens it. seen: gets all that is looked at but contents; outlives this; nullptr: nobody asks.
  explicit RootedTree(std::string root, Sightings* seen = nullptr)
      : root_(root == "/" ? "" : std::move(root)), seen_(seen) {}

  // The path of the same file without links, "/usr/lib/x.so" for "/lib/x.so"; nullopt if there is none, if links go in
  // circles, or if one leads out of the tree. Throws DRA_UNAVAILABLE if it cannot be looked at.
  std::optional<std::string> Resolve(const std::string& path) const;
  // The same, if it is a file of that type (S_IFREG, S_IFDIR, S_IFSOCK).
  std::optional<std::string> ResolveType(const std::string& path, unsigned type) const;
  // Names in a directory, sorted; empty if there is none. Throws DRA_UNAVAILABLE.
  std::vector<std::string> List(const std::string& directory) const;
  // A small text file; nullopt if there is none. Throws DRA_UNAVAILABLE.
  std::optional<std::string> ReadText(const std::string& path) const;

  // What this process opens for a resolved path.
  std::string Open(const std::string& resolved) const { return root_ + resolved; }

 private:
  // lstat of a resolved path; false with errno if it cannot be had.
  bool Look(const std::string& opened, struct stat* status) const;

  std::string root_;  // "" for "/"
  Sightings* seen_;
};

}  // namespace nvidia
