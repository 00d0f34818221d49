#include "netlink_socket.h"

#include <linux/sockios.h>
#include <netlink/msg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "attributes.h"

namespace rdma {
namespace {

// A dump that changes meet is made as often as this. Each takes milliseconds.
constexpr int kDumpTries = 20;
// The kernel answers before send() returns; what waits longer waits for ever.
constexpr timeval kAnswerLimit{.tv_sec = 30, .tv_usec = 0};

int OpenSocket(int protocol) {
  const std::string what = "open netlink socket of protocol " + std::to_string(protocol);
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
  if (fd < 0) throw MakeNetlinkError(errno, what);
  // All three are helps that an older kernel may lack: EXT_ACK before 4.12, STRICT_CHK before 4.20.
  const int on = 1;
  setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on));
  setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
  setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  // Connected to the kernel, it takes nothing of other processes.
  if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kAnswerLimit, sizeof(kAnswerLimit)) != 0 ||
      connect(fd, reinterpret_cast<const sockaddr*>(&kernel), sizeof(kernel)) != 0) {
    const int error = errno;
    close(fd);
    throw MakeNetlinkError(error, what);
  }
  return fd;
}

// The kernel's text among the attributes behind an error.
std::string KernelText(Attributes::Bytes attributes) {
  return Attributes(attributes).Text(NLMSGERR_ATTR_MSG);
}

}  // namespace

struct NetlinkSocket::Answers {
  std::vector<std::vector<uint8_t>> datagrams;
  std::vector<const nlmsghdr*> messages;  // in them
  bool interrupted = false;
};

NetlinkSocket::NetlinkSocket(int protocol) : fd_(OpenSocket(protocol)) {}

NetlinkSocket::NetlinkSocket(int protocol, const NetworkNamespace& target) {
  target.Run([&] { fd_ = OpenSocket(protocol); });
}

NetlinkSocket NetlinkSocket::FromDescriptor(int fd) { return NetlinkSocket(fd, 0); }

NetlinkSocket::NetlinkSocket(NetlinkSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), sequence_(other.sequence_) {}

NetlinkSocket& NetlinkSocket::operator=(NetlinkSocket&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(sequence_, other.sequence_);
  return *this;
}

NetlinkSocket::~NetlinkSocket() {
  if (fd_ >= 0) close(fd_);
}

NetworkNamespace NetlinkSocket::Namespace() const {
  const int fd = ioctl(fd_, SIOCGSKNS);  // closes on exec
  if (fd < 0) throw MakeNetlinkError(errno, "find the network namespace of a socket");
  return NetworkNamespace(fd);
}

void NetlinkSocket::Send(nl_msg* message, const std::string& what) {
  nlmsghdr* header = nlmsg_hdr(message);
  header->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
  header->nlmsg_seq = ++sequence_;
  ssize_t sent;
  do {
    sent = send(fd_, header, header->nlmsg_len, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) throw MakeNetlinkError(errno, what, "sending the request");
}

// One datagram, whatever its size: that of a link with many virtual functions can have over 32 KiB.
std::vector<uint8_t> NetlinkSocket::Receive(const std::string& what) {
  const auto receive = [&](void* data, size_t size, int flags) {
    ssize_t got;
    do {
      got = recv(fd_, data, size, flags);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN) {
      throw MakeNetlinkError(ETIMEDOUT, what,
                             "no answer within " + std::to_string(kAnswerLimit.tv_sec) + " s");
    }
    if (got < 0) throw MakeNetlinkError(errno, what, "receiving the answer");
    return static_cast<size_t>(got);
  };
  // The kernel fills datagrams of a dump up to the size last offered to it.
  constexpr size_t kLeast = 1 << 15;
  std::vector<uint8_t> room(std::max(kLeast, receive(nullptr, 0, MSG_PEEK | MSG_TRUNC)));
  const size_t size = receive(room.data(), room.size(), 0);
  std::vector<uint8_t> data(room.data(), room.data() + size);
  if (data.empty()) throw MakeNetlinkError(EPROTO, what, "an empty answer");
  return data;
}

NetlinkSocket::Answers NetlinkSocket::Exchange(nl_msg* message, const std::string& what) {
  Send(message, what);
  const bool dump = (nlmsg_hdr(message)->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
  Answers answers;
  for (;;) {
    // Moved into the list before pointers into it are taken; a vector's bytes stay where they are when it is moved.
    answers.datagrams.push_back(Receive(what));
    const std::vector<uint8_t>& datagram = answers.datagrams.back();
    for (size_t at = 0; datagram.size() - at >= sizeof(nlmsghdr);) {
      const auto* header = reinterpret_cast<const nlmsghdr*>(datagram.data() + at);
      if (header->nlmsg_len < sizeof(nlmsghdr) || header->nlmsg_len > datagram.size() - at) {
        throw MakeNetlinkError(EBADMSG, what, "a message longer than its datagram");
      }
      at += std::min<size_t>(NLMSG_ALIGN(header->nlmsg_len), datagram.size() - at);
      if (header->nlmsg_seq != sequence_)
        continue;  // of a request that failed before its answers were read
      if (header->nlmsg_flags & NLM_F_DUMP_INTR) answers.interrupted = true;

      if (header->nlmsg_type == NLMSG_ERROR) {
        nlmsgerr result;
        Attributes::Bytes rest;
        if (!SplitAnswer(header, &result, &rest))
          throw MakeNetlinkError(EBADMSG, what, "an answer cut short");
        if (result.error == 0) return answers;
        if (!(header->nlmsg_flags &
              NLM_F_CAPPED)) {  // the request's body is repeated before the attributes
          const size_t body = NLMSG_ALIGN(result.msg.nlmsg_len) - NLMSG_HDRLEN;
          rest = result.msg.nlmsg_len < NLMSG_HDRLEN || body > rest.size() ? Attributes::Bytes{}
                                                                           : rest.subspan(body);
        }
        throw MakeNetlinkError(result.error < 0 ? -result.error : EPROTO, what,
                               header->nlmsg_flags & NLM_F_ACK_TLVS ? KernelText(rest) : "");
      }
      if (header->nlmsg_type == NLMSG_DONE) {
        int error = 0;
        Attributes::Bytes rest;
        if (SplitAnswer(header, &error, &rest) && error < 0)
          throw MakeNetlinkError(-error, what, KernelText(rest));
        if (dump) return answers;
      } else if (header->nlmsg_type >= NLMSG_MIN_TYPE) {
        answers.messages.push_back(header);
      }
    }
  }
}

void NetlinkSocket::Request(nl_msg* message, const std::string& what) { Exchange(message, what); }

void NetlinkSocket::Dump(nl_msg* message, const std::string& what,
                         const std::function<void(const nlmsghdr*)>& take) {
  for (int tries = 0; tries < kDumpTries; ++tries) {
    const Answers answers = Exchange(message, what);
    if (answers.interrupted) continue;
    for (const nlmsghdr* answer : answers.messages) take(answer);
    return;
  }
  throw MakeNetlinkError(
      EINTR, what, "the list changed while it was read, " + std::to_string(kDumpTries) + " times");
}

}  // namespace rdma
