#include "rooted_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <filesystem>

#include "dra/backend/error.h"
#include "path_parts.h"

namespace nvidia {
namespace {

constexpr size_t kMaxText = 1 << 20;

[[noreturn]] void Unavailable(const std::string& what, const std::string& path, int error) {
  throw dra::BackendError(DRA_UNAVAILABLE,
                          "cannot " + what + " " + path + ": " + std::strerror(error));
}

}  // namespace

bool RootedTree::Look(const std::string& opened, struct stat* status) const {
  const bool there = lstat(opened.c_str(), status) == 0;
  const int error = there ? 0 : errno;
  if (seen_ != nullptr) seen_->Saw(opened, there ? status : nullptr);
  errno = error;
  return there;
}

std::optional<std::string> RootedTree::Resolve(const std::string& path) const {
  std::deque<std::string> ahead;
  PutInFront(ahead, path);
  std::vector<std::string> done;
  const auto text = [&] {
    std::string result;
    for (const std::string& part : done) result += "/" + part;
    return result;
  };
  int links = 0;
  while (!ahead.empty()) {
    const std::string part = ahead.front();
    ahead.pop_front();
    if (part == ".") continue;
    if (part == "..") {
      if (done.empty()) return std::nullopt;
      done.pop_back();
      continue;
    }
    done.push_back(part);
    const std::string here = Open(text());
    struct stat status;
    if (!Look(here, &status)) {
      if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) return std::nullopt;
      Unavailable("look at", here, errno);
    }
    if (!S_ISLNK(status.st_mode)) continue;
    if (++links > kMaxLinks) return std::nullopt;
    char target[PATH_MAX];
    const ssize_t size = readlink(here.c_str(), target, sizeof(target));
    if (size < 0) Unavailable("read the link", here, errno);
    done.pop_back();
    if (size > 0 && target[0] == '/') done.clear();
    PutInFront(ahead, std::string(target, static_cast<size_t>(size)));
  }
  return done.empty() ? "/" : text();
}

std::optional<std::string> RootedTree::ResolveType(const std::string& path, unsigned type) const {
  std::optional<std::string> resolved = Resolve(path);
  struct stat status;
  if (!resolved || !Look(Open(*resolved), &status)) return std::nullopt;
  return (status.st_mode & S_IFMT) == type ? resolved : std::nullopt;
}

std::vector<std::string> RootedTree::List(const std::string& directory) const {
  std::vector<std::string> names;
  const std::optional<std::string> resolved = ResolveType(directory, S_IFDIR);
  if (!resolved) return names;
  struct stat status;
  if (seen_ != nullptr && lstat(Open(*resolved).c_str(), &status) == 0)
    seen_->Listed(Open(*resolved), status);
  std::error_code error;
  std::filesystem::directory_iterator it(Open(*resolved), error), end;
  for (; !error && it != end; it.increment(error)) names.push_back(it->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory)
    Unavailable("list", Open(*resolved), error.value());
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::string> RootedTree::ReadText(const std::string& path) const {
  const std::optional<std::string> resolved = ResolveType(path, S_IFREG);
  if (!resolved) return std::nullopt;
  const std::string name = Open(*resolved);
  const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT) return std::nullopt;
    Unavailable("open", name, errno);
  }
  std::string text;
  char part[4096];
  ssize_t got = 0;
  do {
    got = read(fd, part, sizeof(part));
    if (got > 0) text.append(part, static_cast<size_t>(got));
  } while (text.size() < kMaxText && (got > 0 || (got < 0 && errno == EINTR)));
  const int error = got < 0 ? errno : 0;
  close(fd);
  if (error != 0) Unavailable("read", name, error);
  return text;
}

}  // namespace nvidia
