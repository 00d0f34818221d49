#include "namespace.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <exception>
#include <system_error>
#include <thread>

#include "netlink_error.h"

namespace rdma {
namespace {

// Signals are the business of threads in the process's own namespace.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }

 private:
  sigset_t old_;
};

// How often a pin is taken away again when another process puts one there at the same time.
constexpr int kUnpinTries = 10;

// An empty file to mount on; one left behind by a crash will do.
void MakeMountPoint(const std::string& path, const std::string& what) {
  const int fd = open(path.c_str(), O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0400);
  if (fd < 0) throw MakeNetlinkError(errno, what, "making the file to mount it on");
  struct stat file {};
  const bool known = fstat(fd, &file) == 0;
  close(fd);
  if (!known || !S_ISREG(file.st_mode) || file.st_size != 0) {
    throw MakeNetlinkError(EEXIST, what, "there is something else than a pin");
  }
}

}  // namespace

NetworkNamespace NetworkNamespace::Open(const std::string& path) {
  const std::string what = "open network namespace " + path;
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) throw MakeNetlinkError(errno, what);
  const int type = ioctl(fd, NS_GET_NSTYPE);
  if (type == CLONE_NEWNET) return NetworkNamespace(fd);
  close(fd);
  throw MakeNetlinkError(
      EINVAL, what,
      type < 0
          ? "it is an ordinary file: if it is a pin, its mount is not seen in this mount namespace"
          : "it is a namespace of another kind");
}

NetworkNamespace::NetworkNamespace(int fd) : fd_(fd) {}

NetworkNamespace::NetworkNamespace(NetworkNamespace&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

NetworkNamespace& NetworkNamespace::operator=(NetworkNamespace&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

NetworkNamespace::~NetworkNamespace() {
  if (fd_ >= 0) close(fd_);
}

std::pair<dev_t, ino_t> NetworkNamespace::Identity() const {
  struct stat file {};
  if (fstat(fd_, &file) != 0) throw MakeNetlinkError(errno, "identify network namespace");
  return {file.st_dev, file.st_ino};
}

void NetworkNamespace::Run(const std::function<void()>& function) const {
  std::exception_ptr thrown;
  const auto inside = [&] {
    try {
      if (setns(fd_, CLONE_NEWNET) != 0) throw MakeNetlinkError(errno, "enter network namespace");
      function();
    } catch (...) {
      thrown = std::current_exception();
    }
  };
  try {
    std::thread thread;
    {
      const SignalsBlocked blocked;  // the thread inherits it
      thread = std::thread(inside);
    }
    thread.join();
  } catch (const std::system_error& e) {
    throw MakeNetlinkError(e.code().value(), "enter network namespace", "starting a thread");
  }
  if (thrown) std::rethrow_exception(thrown);
}

void PinNamespace(const NetworkNamespace& target, const std::string& path) {
  const std::string what = "pin network namespace at " + path;
  try {
    if (NetworkNamespace::Open(path).Identity() == target.Identity()) return;
    UnpinNamespace(path);
  } catch (const NetlinkError& e) {
    if (e.error() != ENOENT && e.error() != EINVAL) throw;
  }
  MakeMountPoint(path, what);
  const std::string source = "/proc/self/fd/" + std::to_string(target.fd());
  if (mount(source.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    throw MakeNetlinkError(errno, what, "mounting it");
  }
}

void UnpinNamespace(const std::string& path) {
  const std::string what = "unpin network namespace at " + path;
  for (int tries = 0; tries < kUnpinTries; ++tries) {
    // Mounts may lie on each other. EINVAL: none is left that this mount namespace has.
    while (umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0) {
    }
    if (errno == ENOENT) return;
    if (errno != EINVAL) throw MakeNetlinkError(errno, what, "unmounting it");
    if (unlink(path.c_str()) == 0 || errno == ENOENT) return;
    if (errno != EBUSY) throw MakeNetlinkError(errno, what, "removing the file");
  }
  throw MakeNetlinkError(EBUSY, what, "it is a mount that this mount namespace cannot take away");
}

}  // namespace rdma
