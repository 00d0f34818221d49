#include "root_dir.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <climits>
#include <deque>
#include <optional>
#include <vector>

#include "../path_parts.h"
#include "error.h"

namespace nvidia_hook {

using nvidia::kMaxLinks;
using nvidia::PutInFront;

namespace {

constexpr int kStep = O_PATH | O_NOFOLLOW | O_CLOEXEC;

struct SplitPath {
  std::string directory, name;
};
SplitPath Split(const std::string& path) {
  const size_t slash = path.rfind('/');
  SplitPath split;
  if (slash != std::string::npos) split = {path.substr(0, slash), path.substr(slash + 1)};
  if (path.empty() || path[0] != '/' || split.name.empty() || split.name == "." ||
      split.name == "..") {
    throw Error("\"" + path + "\" is no absolute path of a file");
  }
  return split;
}

// The text of the link `name`; nullopt if that is no link.
std::optional<std::string> LinkText(int directory, const std::string& name) {
  char text[PATH_MAX];
  const ssize_t size = readlinkat(directory, name.c_str(), text, sizeof(text));
  if (size < 0) return std::nullopt;
  return std::string(text, static_cast<size_t>(size));
}

// A name beside `name` that nobody else uses.
std::string Temporary(const std::string& name) {
  return ".dra-" + std::to_string(getpid()) + "-" + name.substr(0, 200);
}

}  // namespace

RootDir::RootDir(const std::string& path)
    : path_(path), fd_(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  if (!fd_) Fail("open the container's root " + path);
  struct stat root, own;
  if (fstat(fd_.get(), &root) != 0 || stat("/", &own) != 0) Fail("look at " + path);
  if (root.st_dev == own.st_dev && root.st_ino == own.st_ino)
    throw Error(path + " is this process's own root, not a container's: run as createContainer");
}

Fd RootDir::Directory(const std::string& path, bool make) const {
  std::deque<std::string> ahead;
  PutInFront(ahead, path);
  std::vector<Fd> stack;  // from below the root to here
  const auto here = [&] { return stack.empty() ? fd_.get() : stack.back().get(); };
  const std::string what = path + " in the container";
  int links = 0;
  while (!ahead.empty()) {
    const std::string part = ahead.front();
    ahead.pop_front();
    if (part == ".") continue;
    if (part == "..") {
      if (!stack.empty()) stack.pop_back();
      continue;
    }
    Fd next(openat(here(), part.c_str(), kStep));
    if (!next && errno == ENOENT) {
      if (!make) return Fd();
      if (mkdirat(here(), part.c_str(), 0755) != 0 && errno != EEXIST)
        Fail("make directory " + part + " of " + what);
      next = Fd(openat(here(), part.c_str(), kStep));
    }
    struct stat status;
    if (!next || fstat(next.get(), &status) != 0) Fail("open " + part + " of " + what);
    if (S_ISDIR(status.st_mode)) {
      stack.push_back(std::move(next));
      continue;
    }
    if (!S_ISLNK(status.st_mode)) {
      if (!make) return Fd();
      throw Error(part + " of " + what + " is no directory");
    }
    if (++links > kMaxLinks) throw Error(what + " goes through more than 40 links");
    const auto target = LinkText(next.get(), "");
    if (!target) Fail("read the link " + part + " of " + what);
    if (!target->empty() && target->front() == '/') stack.clear();
    PutInFront(ahead, *target);
  }
  Fd found(openat(here(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!found) Fail("open " + what);
  return found;
}

bool RootDir::Exists(const std::string& path) const {
  const SplitPath split = Split(path);
  const Fd directory = Directory(split.directory, /*make=*/false);
  struct stat status;
  return directory &&
         fstatat(directory.get(), split.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

void RootDir::MakeLink(const std::string& path, const std::string& target) const {
  const SplitPath split = Split(path);
  if (target.empty()) throw Error("link " + path + " has no target");
  const Fd directory = Directory(split.directory, /*make=*/true);
  if (LinkText(directory.get(), split.name) == target) return;
  // Renamed over what is there: a link of the image to its own copy of the library, which is another version.
  const std::string temporary = Temporary(split.name);
  unlinkat(directory.get(), temporary.c_str(), 0);
  if (symlinkat(target.c_str(), directory.get(), temporary.c_str()) != 0)
    Fail("make link " + path + " to " + target + " in the container");
  if (renameat(directory.get(), temporary.c_str(), directory.get(), split.name.c_str()) != 0) {
    const int error = errno;
    unlinkat(directory.get(), temporary.c_str(), 0);
    if (error == EBUSY) return;
    errno = error;
    Fail("put link " + path + " to " + target + " in place of what the container has there");
  }
}

bool RootDir::PutFile(const std::string& path, const std::string& text) const {
  const SplitPath split = Split(path);
  const Fd directory = Directory(split.directory, /*make=*/false);
  if (!directory) {
    errno = ENOENT;
    return false;
  }
  const std::string temporary = Temporary(split.name);
  unlinkat(directory.get(), temporary.c_str(), 0);
  const Fd file(openat(directory.get(), temporary.c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file) return false;
  const bool written =
      write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      fchmod(file.get(), 0644) == 0 &&
      renameat(directory.get(), temporary.c_str(), directory.get(), split.name.c_str()) == 0;
  const int error = errno;
  if (!written) unlinkat(directory.get(), temporary.c_str(), 0);
  errno = error;
  return written;
}

}  // namespace nvidia_hook
