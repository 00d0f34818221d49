#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>

namespace rdma {

// An open network namespace. Move only; closes on destruction.
class NetworkNamespace {
 public:
  // path: "/proc/self/ns/net", "/proc/<pid>/ns/net", "/run/netns/x", a pin. Throws NetlinkError: ENOENT if it is not
  // there, EINVAL if the file is no network namespace (a pin whose mount this process does not see: the text says so).
  static NetworkNamespace Open(const std::string& path);

  explicit NetworkNamespace(int fd);
  NetworkNamespace(NetworkNamespace&& other) noexcept;
  NetworkNamespace& operator=(NetworkNamespace&& other) noexcept;
  ~NetworkNamespace();

  int fd() const { return fd_; }
  // What tells namespaces apart while one of them is open.
  std::pair<dev_t, ino_t> Identity() const;
  // Runs `function` on a thread of its own inside this namespace, and rethrows what it throws. For sockets, which stay
  // in the namespace they were opened in, and for /proc/sys/net.
  void Run(const std::function<void()>& function) const;

 private:
  int fd_ = -1;
};

// Keeps the namespace alive, whatever dies: a bind mount of it onto `path`, an empty file that is made. Repeating it
// for the same namespace changes nothing; another one's pin at `path` is replaced. The mount is seen by other mount
// namespaces as far as mounts are shared.
void PinNamespace(const NetworkNamespace& target, const std::string& path);
// Removes pin and file; not there is well. Works too where this process sees the mount in a mount namespace that only
// receives mounts: removing the file takes the mount away everywhere (Linux 3.18).
void UnpinNamespace(const std::string& path);

}  // namespace rdma
