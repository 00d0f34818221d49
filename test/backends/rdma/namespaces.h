#pragma once

#include <gtest/gtest.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "links.h"
#include "message.h"
#include "namespace.h"
#include "netlink_socket.h"

namespace rdma {

// The errno of what `call` throws, 0 if nothing; its text.
inline int ErrorOf(const std::function<void()>& call, std::string* text = nullptr) {
  try {
    call();
  } catch (const NetlinkError& e) {
    if (text != nullptr) *text = e.what();
    return e.error();
  }
  return 0;
}

// Runs `body` on a thread of its own in new namespaces of these kinds, and rethrows what it throws. False if this
// process may not make them. New mount namespaces have nothing in common with the machine's.
inline bool RunApart(int flags, const std::function<void()>& body) {
  bool permitted = true;
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      if (unshare(flags) != 0) {
        permitted = errno != EPERM;
        if (permitted) throw MakeNetlinkError(errno, "unshare");
        return;
      }
      if ((flags & CLONE_NEWNS) != 0 &&
          mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
        throw MakeNetlinkError(errno, "make mounts private");
      }
      body();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
  return permitted;
}

// A new, empty network namespace; nullopt if this process may not make one.
inline std::optional<NetworkNamespace> NewNamespace() {
  std::optional<NetworkNamespace> made;
  RunApart(CLONE_NEWNET, [&] { made = NetworkNamespace::Open("/proc/thread-self/ns/net"); });
  return made;
}

// Both ends in the socket's namespace.
inline void AddVeth(NetlinkSocket& route, const std::string& name, const std::string& peer) {
  RequestMessage message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
  message.Reserve<ifinfomsg>();
  message.PutString(IFLA_IFNAME, name);
  nlattr* info = message.Begin(IFLA_LINKINFO);
  message.PutString(IFLA_INFO_KIND, "veth");
  nlattr* data = message.Begin(IFLA_INFO_DATA);
  nlattr* end = message.Begin(VETH_INFO_PEER);
  message.Reserve<ifinfomsg>();
  message.PutString(IFLA_IFNAME, peer);
  message.End(end);
  message.End(data);
  message.End(info);
  route.Request(message.get(), "add veth " + name);
}

// Two empty namespaces with a socket in each. Skips where they may not be made.
class NamespacesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::optional<NetworkNamespace> host = NewNamespace(), pod = NewNamespace();
    if (!host || !pod) GTEST_SKIP() << "making network namespaces is not permitted";
    host_.emplace(std::move(*host));
    pod_.emplace(std::move(*pod));
    host_route_.emplace(NETLINK_ROUTE, *host_);
    pod_route_.emplace(NETLINK_ROUTE, *pod_);
  }

  const NetworkNamespace& host() { return *host_; }
  const NetworkNamespace& pod() { return *pod_; }
  NetlinkSocket& host_route() { return *host_route_; }
  NetlinkSocket& pod_route() { return *pod_route_; }
  // Its index.
  int AddVethOnHost(const std::string& name, const std::string& peer) {
    AddVeth(host_route(), name, peer);
    return FindLink(host_route(), name).value().index;
  }

 private:
  std::optional<NetworkNamespace> host_, pod_;
  std::optional<NetlinkSocket> host_route_, pod_route_;
};

}  // namespace rdma
