#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nvidia {

// A directory tree whose links mean paths below its root, as for a process that is chrooted there: a driver
// container's root, or the host's as this process sees it. For looking, not for a fence: the tree is the host's.
class RootedTree {
 public:
  // root: as this process opens it.
  explicit RootedTree(std::string root) : root_(root == "/" ? "" : std::move(root)) {}

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
  std::string root_;  // "" for "/"
};

}  // namespace nvidia
