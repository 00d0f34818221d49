#pragma once

#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "netlink_socket.h"

namespace rdma {

using Bytes = std::vector<uint8_t>;

inline void Append(Bytes& bytes, const void* data, size_t size) {
  const auto* begin = static_cast<const uint8_t*>(data);
  bytes.insert(bytes.end(), begin, begin + size);
  bytes.resize(NLMSG_ALIGN(bytes.size()));
}
inline Bytes Join(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// An attribute, and a message, with the length that they claim; by default the true one.
inline Bytes Attribute(int type, const Bytes& value, int claimed = -1) {
  const nlattr header{
      static_cast<uint16_t>(claimed >= 0 ? claimed : static_cast<int>(NLA_HDRLEN + value.size())),
      static_cast<uint16_t>(type)};
  Bytes bytes;
  Append(bytes, &header, sizeof(header));
  Append(bytes, value.data(), value.size());
  return bytes;
}
inline Bytes Attribute(int type, const std::string& text) {
  return Attribute(type, Bytes(text.c_str(), text.c_str() + text.size() + 1));
}
template <typename T>
Bytes Number(int type, T value) {
  Bytes bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return Attribute(type, bytes);
}
inline Bytes Message(uint32_t sequence, int type, int flags, const Bytes& body, int claimed = -1) {
  const nlmsghdr header{
      static_cast<uint32_t>(claimed >= 0 ? claimed : static_cast<int>(NLMSG_HDRLEN + body.size())),
      static_cast<uint16_t>(type), static_cast<uint16_t>(flags), sequence, 0};
  Bytes bytes;
  Append(bytes, &header, sizeof(header));
  Append(bytes, body.data(), body.size());
  return bytes;
}
template <typename Header>
Bytes Body(const Header& header, std::initializer_list<Bytes> attributes = {}) {
  Bytes bytes;
  Append(bytes, &header, sizeof(header));
  const Bytes rest = Join(attributes);
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}
// The answer to a request: 0 for an acknowledgement, or an errno.
inline Bytes Result(uint32_t sequence, int error, int flags = NLM_F_CAPPED,
                    const Bytes& attributes = {}) {
  nlmsgerr result{};
  result.error = -error;
  result.msg.nlmsg_len = NLMSG_HDRLEN;
  return Message(sequence, NLMSG_ERROR, flags, Join({Body(result), attributes}));
}
inline Bytes Done(uint32_t sequence, int error = 0, const Bytes& attributes = {},
                  int flags = NLM_F_MULTI) {
  const int32_t value = -error;
  return Message(sequence, NLMSG_DONE, flags, Join({Body(value), attributes}));
}

// Plays the kernel at the other end of a socket: for what this one cannot be made to say.
class KernelStandIn {
 public:
  // The datagrams with which it answers a request.
  using Answer = std::function<std::vector<Bytes>(const nlmsghdr& request)>;

  // limit: how long the client waits for an answer.
  explicit KernelStandIn(Answer answer, timeval limit = {.tv_sec = 30, .tv_usec = 0})
      : answer_(std::move(answer)) {
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    // An address as long as a sockaddr_nl: programs look whether the sender's is.
    static std::atomic<int> count{0};
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    snprintf(name.sun_path + 1, 10, "%05x%04x", getpid() & 0xfffff, count++ & 0xffff);
    if (bind(ends[1], reinterpret_cast<const sockaddr*>(&name), sizeof(sockaddr_nl)) != 0)
      std::abort();
    const int room = 1 << 22;
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    client_ = ends[0];
    own_ = ends[1];
    thread_ = std::thread([this] { Loop(); });
  }
  ~KernelStandIn() {
    shutdown(own_, SHUT_RDWR);
    thread_.join();
    close(own_);
    if (client_ >= 0) close(client_);
  }

  // Once.
  NetlinkSocket Connect() { return NetlinkSocket::FromDescriptor(std::exchange(client_, -1)); }
  // The other end, for another program.
  int client() const { return client_; }
  // What came in.
  std::vector<Bytes> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void Loop() {
    alignas(nlmsghdr) uint8_t buffer[8192];
    for (ssize_t got; (got = recv(own_, buffer, sizeof(buffer), 0)) > 0;) {
      if (static_cast<size_t>(got) < sizeof(nlmsghdr)) continue;
      {
        const std::lock_guard lock(mutex_);
        requests_.emplace_back(buffer, buffer + got);
      }
      for (const Bytes& datagram : answer_(*reinterpret_cast<const nlmsghdr*>(buffer))) {
        if (send(own_, datagram.data(), datagram.size(), MSG_NOSIGNAL) < 0) return;
      }
    }
  }

  const Answer answer_;
  mutable std::mutex mutex_;
  std::vector<Bytes> requests_;
  int client_ = -1, own_ = -1;
  std::thread thread_;
};

}  // namespace rdma
