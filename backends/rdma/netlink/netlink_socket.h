#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "namespace.h"
#include "netlink_error.h"

struct nl_msg;
struct nlmsghdr;

namespace rdma {

// One request as bytes, for tests that compare it with what other tools send.
using NetlinkMessage = std::vector<uint8_t>;

// A netlink socket with acknowledgements, the kernel's own error texts (NETLINK_EXT_ACK) and its strict checking
// (NETLINK_GET_STRICT_CHK), with which it filters dumps itself. One thread at a time.
class NetlinkSocket {
 public:
  // protocol: NETLINK_ROUTE or NETLINK_RDMA. It stays in the namespace it was opened in: the calling thread's, or
  // `target`. Throws NetlinkError: EPROTONOSUPPORT where the kernel has no such protocol (no RDMA subsystem).
  explicit NetlinkSocket(int protocol);
  NetlinkSocket(int protocol, const NetworkNamespace& target);
  // Takes over a connected datagram socket whose other end plays the kernel: for tests.
  static NetlinkSocket FromDescriptor(int fd);
  NetlinkSocket(NetlinkSocket&& other) noexcept;
  NetlinkSocket& operator=(NetlinkSocket&& other) noexcept;
  ~NetlinkSocket();

  // The one that it was opened in.
  NetworkNamespace Namespace() const;

  // Sends the request and waits for its acknowledgement. what: "set link eth0", begins the text of an error. An error
  // does not say that nothing was done: the kernel takes back nothing of a request that it failed half-way.
  void Request(nl_msg* message, const std::string& what);
  // Calls `take` for every answer, once all are there; of a message without NLM_F_DUMP too. A dump that the kernel
  // interrupted because something changed (NLM_F_DUMP_INTR) is made again, some times, then EINTR: an incomplete list
  // is never given as a whole one.
  void Dump(nl_msg* message, const std::string& what,
            const std::function<void(const nlmsghdr*)>& take);

 private:
  struct Answers;

  NetlinkSocket(int fd, uint32_t sequence) : fd_(fd), sequence_(sequence) {}
  void Send(nl_msg* message, const std::string& what);
  std::vector<uint8_t> Receive(const std::string& what);
  Answers Exchange(nl_msg* message, const std::string& what);

  int fd_ = -1;
  uint32_t sequence_ = 0;
};

}  // namespace rdma
