#include "testing/registry_watcher.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "dra/base/file_system.h"
#include "dra/base/status.h"

namespace dra::testing {

RegistryWatcher::RegistryWatcher(Callback on_create, Callback on_remove)
    : on_create_(std::move(on_create)), on_remove_(std::move(on_remove)) {}

absl::StatusOr<std::unique_ptr<RegistryWatcher>> RegistryWatcher::Start(
    const std::string& directory, Callback on_create, Callback on_remove) {
  std::unique_ptr<RegistryWatcher> watcher(
      new RegistryWatcher(std::move(on_create), std::move(on_remove)));
  watcher->inotify_ = UniqueFd(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  watcher->stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!watcher->inotify_ || !watcher->stop_) return ErrnoStatus(errno, "watch " + directory);
  watcher->thread_ = std::thread([raw = watcher.get(), directory] {
    raw->AddTree(directory);
    raw->Run();
  });
  return watcher;
}

RegistryWatcher::~RegistryWatcher() {
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) < 0) return;  // an eventfd takes a first write always
  if (thread_.joinable()) thread_.join();
}

void RegistryWatcher::AddTree(const std::string& directory) {
  const int watch = inotify_add_watch(
      inotify_.get(), directory.c_str(),
      // fsnotify calls a move into the directory a create, and does not report one out of it as a
      // removal; a real kubelet 1.37.2 registers sockets that were renamed into place.
      IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_ONLYDIR);
  if (watch < 0) return;
  directories_[watch] = directory;
  // Listed after the watch is set: a socket that appears in between is seen twice, which Consider sorts out.
  PosixFileSystem fs;
  const absl::StatusOr<std::vector<std::string>> names = fs.List(directory);
  if (!names.ok()) return;
  for (const std::string& name : *names) Consider(JoinPath(directory, name));
}

void RegistryWatcher::Consider(const std::string& path) {
  if (BaseName(path)[0] == '.') return;
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return;
  if (S_ISDIR(info.st_mode)) {
    AddTree(path);
  } else if (S_ISSOCK(info.st_mode)) {
    const auto [known, is_new] = sockets_.try_emplace(path, info.st_ino);
    if (!is_new && known->second == info.st_ino) return;
    known->second = info.st_ino;
    // Another socket was renamed over the one that was registered: to the kubelet a create, whose newer timestamp ends
    // the old registration first.
    if (!is_new) on_remove_(path);
    on_create_(path);
  }
}

void RegistryWatcher::Run() {
  alignas(inotify_event) char buffer[16384];
  for (;;) {
    pollfd wait[] = {{inotify_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (poll(wait, 2, -1) < 0 && errno != EINTR) return;
    if (wait[1].revents != 0) return;
    const ssize_t got = read(inotify_.get(), buffer, sizeof(buffer));
    for (ssize_t at = 0; at < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      const auto directory = directories_.find(event->wd);
      if (directory == directories_.end() || event->len == 0) continue;
      const std::string path = JoinPath(directory->second, event->name);
      if ((event->mask & IN_DELETE) != 0) {
        if (sockets_.erase(path) > 0) on_remove_(path);
      } else {
        Consider(path);
      }
    }
  }
}

}  // namespace dra::testing
