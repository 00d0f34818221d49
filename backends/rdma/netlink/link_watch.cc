#include "link_watch.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "descriptor.h"
#include "netlink_error.h"

namespace rdma {
namespace {

using Clock = std::chrono::steady_clock;

Descriptor Opened(int fd) {
  if (fd < 0) throw MakeNetlinkError(errno, "watch links");
  return Descriptor(fd);
}

// Joined to these groups of the protocol, which are among the first 32.
Descriptor Listen(int protocol, std::initializer_list<int> groups) {
  Descriptor fd = Opened(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  for (const int group : groups) address.nl_groups |= 1u << (group - 1);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    throw MakeNetlinkError(errno, "watch links",
                           "joining groups of netlink protocol " + std::to_string(protocol));
  return fd;
}

// Without them (a sandbox may forbid this protocol) what changes without a link, as RDMA devices do, is not seen.
Descriptor ListenToUevents() {
  try {
    return Listen(NETLINK_KOBJECT_UEVENT, {1});
  } catch (const NetlinkError&) {
    return Descriptor();
  }
}

// "add@/devices/...", then "KEY=value" texts, each with its NUL.
bool IsUeventOfInterest(std::string_view message) {
  constexpr std::string_view kKey = "SUBSYSTEM=";
  while (!message.empty()) {
    const std::string_view text = message.substr(0, message.find('\0'));
    if (text.substr(0, kKey.size()) == kKey) {
      const std::string_view subsystem = text.substr(kKey.size());
      return subsystem == "net" || subsystem == "infiniband" || subsystem == "infiniband_verbs" ||
             subsystem == "infiniband_mad" || subsystem == "pci";
    }
    message.remove_prefix(std::min(message.size(), text.size() + 1));
  }
  return false;
}

// Empties the socket. True if a message for `wanted` was in it, or some were lost.
template <typename Wanted>
bool Drain(const Descriptor& fd, const Wanted& wanted) {
  bool changed = false;
  // Longer messages are cut: a uevent has 2 KiB at most, and of the others only that they came counts.
  std::array<char, 8192> buffer;
  for (;;) {
    sockaddr_nl sender{};
    iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
    msghdr message{};
    message.msg_name = &sender;
    message.msg_namelen = sizeof(sender);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    // Not recvfrom, which umockdev's uevents do not come through.
    const ssize_t got = recvmsg(fd.get(), &message, 0);
    if (got >= 0) {
      // Other processes may send to these groups too.
      const bool kernel = sender.nl_pid == 0;
      changed =
          changed || (kernel && wanted(std::string_view(buffer.data(), static_cast<size_t>(got))));
    } else if (errno == ENOBUFS) {
      changed = true;
    } else if (errno != EINTR) {
      return changed;
    }
  }
}

}  // namespace

class LinkWatch::Impl {
 public:
  Impl(std::function<void()> changed, std::chrono::milliseconds quiet)
      : changed_(std::move(changed)),
        quiet_(quiet),
        links_(Listen(NETLINK_ROUTE, {RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR,
                                      RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE})) {
    thread_ = std::thread([this] { Loop(); });
  }

  ~Impl() {
    const uint64_t one = 1;
    while (write(stop_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
  }

 private:
  void Loop() {
    bool pending = false;
    Clock::time_point earliest = Clock::now();  // the next call
    for (;;) {
      int wait = -1;
      if (pending) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(earliest - Clock::now());
        wait = std::max(0, static_cast<int>(left.count()));
      }
      // A negative descriptor is passed over.
      std::array<pollfd, 3> fds{
          {{stop_.get(), POLLIN, 0}, {links_.get(), POLLIN, 0}, {uevents_.get(), POLLIN, 0}}};
      if (poll(fds.data(), fds.size(), wait) < 0) continue;  // EINTR
      if (fds[0].revents != 0) return;
      if (fds[1].revents != 0 && Drain(links_, [](std::string_view) { return true; }))
        pending = true;
      if (fds[2].revents != 0 && Drain(uevents_, IsUeventOfInterest)) pending = true;
      if (!pending || Clock::now() < earliest) continue;
      pending = false;
      changed_();
      earliest = Clock::now() + quiet_;
    }
  }

  const std::function<void()> changed_;
  const std::chrono::milliseconds quiet_;
  const Descriptor links_;
  const Descriptor uevents_ = ListenToUevents();
  const Descriptor stop_ = Opened(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  std::thread thread_;
};

LinkWatch::LinkWatch(std::function<void()> changed, std::chrono::milliseconds quiet)
    : impl_(std::make_unique<Impl>(std::move(changed), quiet)) {}
LinkWatch::~LinkWatch() = default;

}  // namespace rdma
