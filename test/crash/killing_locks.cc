#include "test/crash/killing_locks.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/base/unique_fd.h"

namespace dra::crash {
namespace {

std::atomic<KillPoints*> g_lock_points = nullptr;
std::string* g_lock_root = nullptr;

std::string PathOf(int fd) {
  char path[PATH_MAX];
  const ssize_t size = ::readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), path, sizeof(path));
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : "?";
}

// As publish_turn.h and claim_locks.h lay them out.
std::string ByteClass(const std::string& file, uint64_t byte) {
  if (absl::EndsWith(file, "publish.lock")) {
    if (byte == 0) return "owner";
    if (byte == 1) return "next";
    if (byte == 2) return "numbering";
    return byte < uint64_t{1} << 40 ? "instance" : "owner mark";
  }
  if (byte == 0) return "reconcile";
  if (byte == (uint64_t{1} << 62) + 1) return "waiting";
  return byte <= uint64_t{1} << 61 ? "claim" : "key";
}

}  // namespace

void SetLockPoints(KillPoints* points, std::string root) {
  static std::string* const kept = new std::string(std::move(root));
  g_lock_root = kept;
  g_lock_points = points;
}

// Called by __wrap_fcntl for what has succeeded.
void PassLock(int fd, const struct flock& lock) {
  KillPoints* const points = g_lock_points;
  if (points == nullptr || !points->armed()) return;
  const int kept_errno = errno;
  const std::string file = PathClass(PathOf(fd), *g_lock_root);
  const char* const what = lock.l_type == F_UNLCK   ? "Unlock "
                           : lock.l_type == F_RDLCK ? "Share "
                                                    : "Lock ";
  points->Reach(absl::StrCat(what, file, " ", ByteClass(file, static_cast<uint64_t>(lock.l_start)),
                             " after"));
  errno = kept_errno;
}

}  // namespace dra::crash

extern "C" {

int __real_fcntl(int fd, int command, ...);

int __wrap_fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const int result = __real_fcntl(fd, command, argument);
  if (result == 0 && command == F_OFD_SETLK)
    dra::crash::PassLock(fd, *static_cast<const struct flock*>(argument));
  return result;
}

}  // extern "C"
