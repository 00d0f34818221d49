#pragma once

#include <unistd.h>

#include <string>
#include <utility>

namespace nvidia_hook {

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// The root filesystem of a container that is not running yet. Whoever made the image made its links: none of them leads
// out. Every step is taken from an open directory and no step follows a link by itself, so that a link swapped by
// somebody who shares a volume with the container changes nothing. This is what openat2(RESOLVE_IN_ROOT) does, on every
// kernel, and it can make directories on the way.
class RootDir {
 public:
  // Throws Error if it is no directory, or this process's own root.
  explicit RootDir(const std::string& path);

  const std::string& path() const { return path_; }

  // The directory, links followed within the root; ".." stops at the root. Without `make` the Fd is -1 if it is not
  // there; with it, it is made (0755). Throws Error.
  Fd Directory(const std::string& path, bool make) const;
  // Whether there is something of that name; a link at the end is not followed. Throws Error.
  bool Exists(const std::string& path) const;
  // Makes `path` a link to `target`, in place of what is there. Nothing happens if it is that link already, or if
  // something is mounted there, which is what the pod wants. Throws Error.
  void MakeLink(const std::string& path, const std::string& target) const;
  // Puts the text in the file, in place of what is there, if its directory exists. Whether it is done; errno if not.
  bool PutFile(const std::string& path, const std::string& text) const;

 private:
  std::string path_;
  Fd fd_;
};

}  // namespace nvidia_hook
