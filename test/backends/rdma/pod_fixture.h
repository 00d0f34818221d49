#pragma once

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "addresses.h"
#include "attach.h"
#include "claim_folder.h"
#include "give_back.h"
#include "links.h"
#include "namespace.h"
#include "netlink_socket.h"
#include "plan.h"
#include "routes.h"

namespace rdma {

// A host with a claim directory, in network and mount namespaces of its own that the test's thread is in; pods are
// network namespaces beside it. What is there is asked of `ip`, not of the code that is tested.
class PodTest : public testing::Test {
 protected:
  static constexpr char kClaim[] = "6f1d2a34-0000-4000-8000-000000000001";
  static constexpr char kPod[] = "0b8e7c11-0000-4000-8000-000000000002";

  void SetUp() override {
    home_directory_ = std::filesystem::current_path();
    old_net_ = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    old_mounts_ = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (system("ip -V >/dev/null 2>&1 && nsenter -V >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "no iproute2 and util-linux";
    if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) {
      ASSERT_EQ(errno, EPERM);
      GTEST_SKIP() << "making network and mount namespaces is not permitted";
    }
    entered_ = true;
    ASSERT_EQ(mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    char pattern[] = "/tmp/dra-pod-XXXXXX";
    directory_ = mkdtemp(pattern);
    ASSERT_EQ(mount("tmpfs", directory_.c_str(), "tmpfs", 0, nullptr), 0);
    std::filesystem::create_directories(directory_ + "/claim");
    std::filesystem::create_directories(directory_ + "/sys/bus/pci/devices");
    pod_.emplace(NewPod());
    switch_.emplace(NewPod());
  }

  void TearDown() override {
    if (entered_) {
      pod_.reset();
      switch_.reset();
      umount2(directory_.c_str(), MNT_DETACH);
      // A thread that shares its root directory with another, as with a sanitizer's own, may not change its mounts.
      EXPECT_EQ(unshare(CLONE_FS), 0);
      EXPECT_EQ(setns(old_mounts_, CLONE_NEWNS), 0);
      EXPECT_EQ(setns(old_net_, CLONE_NEWNET), 0);
      std::filesystem::current_path(home_directory_);
      if (!directory_.empty()) std::filesystem::remove(directory_);
    }
    close(old_mounts_);
    close(old_net_);
  }

  static NetworkNamespace NewPod() {
    int fd = -1;
    std::thread([&] {
      if (unshare(CLONE_NEWNET) == 0) fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    }).join();
    return NetworkNamespace(fd);
  }

  // What a command prints; ADD_FAILURE if it fails.
  static std::string Output(const std::string& command) {
    std::string text;
    FILE* pipe = popen((command + " 2>&1").c_str(), "r");
    std::array<char, 4096> part;
    for (size_t got; (got = fread(part.data(), 1, part.size(), pipe)) > 0;)
      text.append(part.data(), got);
    if (pclose(pipe) != 0) ADD_FAILURE() << command << ": " << text;
    return text;
  }
  static std::string In(const NetworkNamespace& pod, const std::string& command) {
    return "nsenter --net=/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(pod.fd()) +
           " -- " + command;
  }
  static std::string Host(const std::string& command) { return Output(command); }
  std::string Pod(const std::string& command) { return Output(In(*pod_, command)); }
  static Json Parse(const std::string& text) {
    return text.empty() ? Json::array() : Json::parse(text);
  }

  // A NIC with everything that a host gives one: eth3, whose other end is sw3 in a namespace of its own, at 192.0.3.1
  // and 2001:db8:3::1.
  void AddNic(const std::string& name = "eth3", int number = 3) {
    const std::string n = std::to_string(number), peer = "sw" + n;
    const std::string fd =
        "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(switch_->fd());
    Host("ip link add " + name + " address 02:00:5e:00:53:0" + n +
         " mtu 1600 type veth peer name " + peer + " netns " + fd);
    Output(In(*switch_, "ip link set " + peer + " up mtu 9000"));
    Output(In(*switch_, "ip addr add 192.0." + n + ".1/24 dev " + peer));
    Output(In(*switch_, "ip addr add 2001:db8:" + n + "::1/64 dev " + peer + " nodad"));
    Host("ip link set " + name + " up");
    Host("ip addr add 192.0." + n + ".7/24 brd + dev " + name);
    Host("ip addr add 2001:db8:" + n + "::7/64 dev " + name + " nodad");
    Host("ip route add 198.51." + n + ".0/24 via 192.0." + n + ".1 dev " + name +
         " proto static metric 7");
    Host("ip route add 198.51." + n + ".0/24 dev " + name + " table 10" + n + " scope link");
    Host("ip -6 route add 2001:db8:99" + n + "::/48 via 2001:db8:" + n + "::1 dev " + name);
    Host("ip neigh add 192.0." + n + ".9 lladdr 02:00:5e:00:53:99 dev " + name + " nud permanent");
  }

  // As Prepare reads it.
  static HostInterface ReadHome(const std::string& name) {
    NetlinkSocket route(NETLINK_ROUTE);
    const Link link = FindLink(route, name).value();
    HostInterface home;
    home.name = name;
    home.alternative_names = link.alternative_names;
    home.alias = link.alias;
    home.flags = link.flags;
    home.index = link.index;
    home.kind = link.kind;
    home.address = link.address;
    home.permanent_address = link.permanent_address;
    home.mtu = link.mtu;
    home.up = link.up;
    for (const XdpProgram& program : link.xdp) home.xdp_programs.push_back(program.id);
    home.gso_max_size = link.gso_max_size;
    home.gro_max_size = link.gro_max_size;
    home.gso_ipv4_max_size = link.gso_ipv4_max_size;
    home.gro_ipv4_max_size = link.gro_ipv4_max_size;
    for (const InterfaceAddress& address : ListAddresses(route, link.index)) {
      if (address.permanent && address.scope == 0) home.addresses.push_back(address);
    }
    for (const Route& r : ListRoutes(route)) {
      if (r.index == link.index && r.protocol != 2) home.routes.push_back(r);
    }
    home.neighbours = ListPermanentNeighbours(route, link.index);
    return home;
  }

  static Attachment AttachmentOf(const std::string& interface, const std::string& pod_name) {
    Attachment attachment;
    attachment.device = "net-" + interface;
    attachment.request = "nic";
    attachment.home = ReadHome(interface);
    attachment.pod_name = pod_name;
    for (const InterfaceAddress& address : attachment.home.addresses)
      attachment.config.interface.addresses.push_back(address.cidr);
    return attachment;
  }
  static Attachment MacvlanOn(const std::string& interface, const std::string& pod_name) {
    Attachment attachment = AttachmentOf(interface, pod_name);
    attachment.kind = AttachKind::kMacvlan;
    attachment.config.interface = {};
    attachment.config.interface.macvlan = "bridge";
    attachment.config.interface.addresses = {"192.0.3.77/24"};
    return attachment;
  }
  void WritePlan(std::vector<Attachment> attachments) {
    folder().WritePlan({kClaim, kPod, std::move(attachments)});
  }

  // Everything of the host that moves may change, as `ip` tells it. Indexes are the kernel's business.
  static Json HostPicture() {
    Json picture = {{"links", Json::object()}};
    for (const Json& link : Parse(Host("ip -j -d addr"))) {
      Json& to = picture["links"][link.at("ifname").get<std::string>()];
      for (const char* key : {"address", "mtu", "gso_max_size", "gro_max_size", "operstate"}) {
        if (link.contains(key)) to[key] = link[key];
      }
      to["flags"] = link["flags"];
      std::vector<std::string> addresses;
      for (const Json& info : link["addr_info"]) {
        if (info.empty() || info["scope"] == "link") continue;
        addresses.push_back(info["local"].get<std::string>() + "/" + info["prefixlen"].dump() +
                            " " + info.value("broadcast", "") + " " +
                            info["scope"].get<std::string>());
      }
      std::sort(addresses.begin(), addresses.end());
      to["addresses"] = addresses;
    }
    std::vector<std::string> routes;
    for (const char* family : {"-4", "-6"}) {
      for (Json route : Parse(Host(std::string("ip ") + family + " -j route show table all"))) {
        route.erase("flags");
        // Link-local and local ones follow from the addresses, in the kernel's own time and order.
        const std::string text = route.dump();
        if (route.value("table", "") != "local" && text.find("fe80:") == std::string::npos)
          routes.push_back(text);
      }
    }
    std::sort(routes.begin(), routes.end());
    picture["routes"] = routes;
    std::vector<std::string> neighbours;
    for (const Json& neighbour : Parse(Host("ip -j neigh show nud permanent"))) {
      if (neighbour.contains("lladdr"))
        neighbours.push_back(neighbour["dst"].get<std::string>() + " " +
                             neighbour["dev"].get<std::string>());
    }
    std::sort(neighbours.begin(), neighbours.end());
    picture["neighbours"] = neighbours;
    return picture;
  }
  // An interface is up a moment after it is set up.
  static ::testing::AssertionResult BecomesLike(const Json& wanted) {
    Json now;
    for (int i = 0; i < 100; ++i) {
      now = HostPicture();
      if (now == wanted) return ::testing::AssertionSuccess();
      usleep(20000);
    }
    return ::testing::AssertionFailure()
           << "the host is not as it was: " << Json::diff(wanted, now).dump(1);
  }

  static Json LinkIn(const NetworkNamespace& pod, const std::string& name) {
    for (const Json& link : Parse(Output(In(pod, "ip -j -d addr")))) {
      if (link["ifname"] == name) return link;
    }
    return nullptr;
  }
  Json PodLink(const std::string& name) { return LinkIn(*pod_, name); }
  static bool HostHas(const std::string& name) {
    return std::filesystem::exists("/proc/sys/net/ipv4/conf/" + name);
  }
  // The other end of a veth goes with it.
  bool VethIsDestroyed(const std::string& peer) {
    for (int i = 0; i < 250; ++i) {
      if (LinkIn(*switch_, peer).is_null()) return true;
      usleep(20000);
    }
    return false;
  }
  static std::vector<std::string> AddressesOf(const Json& link) {
    std::vector<std::string> result;
    for (const Json& info : link["addr_info"]) {
      if (info["scope"] == "global")
        result.push_back(info["local"].get<std::string>() + "/" + info["prefixlen"].dump());
    }
    return result;
  }

  void AttachTo(const NetworkNamespace& pod, const std::string& sandbox = "sandbox-1",
                const std::string& uid = kPod) {
    Attach(folder(), {uid, sandbox}, pod);
  }
  std::string AttachError(const NetworkNamespace& pod, const std::string& uid = kPod) {
    try {
      AttachTo(pod, "sandbox-1", uid);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "attached";
  }
  std::vector<GivenBack> Back(std::chrono::milliseconds limit = std::chrono::milliseconds(2000)) {
    return GiveBack(folder(), sys(), limit);
  }
  std::string BackError(std::chrono::milliseconds limit) {
    try {
      Back(limit);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "given back";
  }

  // What the claim directory has, mounts too.
  std::vector<std::string> Files() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder().path()))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    std::ifstream mounts("/proc/thread-self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
      if (line.find(folder().pin()) != std::string::npos) names.push_back("mount");
    }
    return names;
  }

  ClaimFolder folder() const { return ClaimFolder(directory_ + "/claim"); }
  std::string sys() const { return directory_ + "/sys"; }
  const NetworkNamespace& pod() { return *pod_; }
  std::optional<NetworkNamespace> pod_, switch_;
  std::string directory_;

 private:
  bool entered_ = false;
  int old_net_ = -1, old_mounts_ = -1;
  std::filesystem::path home_directory_;
};

}  // namespace rdma
