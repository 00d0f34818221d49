#include <linux/if_arp.h>

#include <algorithm>

#include "addresses.h"
#include "links.h"
#include "namespaces.h"

namespace rdma {
namespace {

using Links = NamespacesTest;

// The error of the call, 0 if it throws none.
std::vector<std::string> Names(const std::vector<Link>& links) {
  std::vector<std::string> names;
  for (const Link& link : links) names.push_back(link.name);
  std::sort(names.begin(), names.end());
  return names;
}

TEST_F(Links, ListsWhatTheNamespaceHas) {
  AddVethOnHost("left", "right");
  const std::vector<Link> links = ListLinks(host_route());
  ASSERT_EQ(Names(links), (std::vector<std::string>{"left", "lo", "right"}));
  const Link left = *FindLink(host_route(), "left"), right = *FindLink(host_route(), "right");
  EXPECT_EQ(left.kind, "veth");
  EXPECT_EQ(left.type, ARPHRD_ETHER);
  EXPECT_EQ(left.address.size(), 17u);
  EXPECT_EQ(left.mtu, 1500u);
  EXPECT_FALSE(left.up);
  EXPECT_EQ(left.state, "down");
  EXPECT_EQ(left.parent, right.index);
  EXPECT_FALSE(left.parent_elsewhere);
  EXPECT_EQ(left.parent_bus, "");
  EXPECT_GT(left.gso_max_size, 0u);
  EXPECT_EQ(FindLink(host_route(), "lo")->type, ARPHRD_LOOPBACK);
  EXPECT_EQ(FindLink(host_route(), left.index), left);
  EXPECT_EQ(Names(ListLinks(pod_route())), std::vector<std::string>{"lo"});
}

TEST_F(Links, FindsNothingByWhatIsNotThere) {
  EXPECT_EQ(FindLink(host_route(), "none"), std::nullopt);
  EXPECT_EQ(FindLink(host_route(), ""), std::nullopt);
  EXPECT_EQ(FindLink(host_route(), 4711), std::nullopt);
  EXPECT_EQ(FindLink(host_route(), "longer-than-an-interface-name-may-be"), std::nullopt);
  EXPECT_EQ(FindLink(host_route(), std::string(300, 'x')), std::nullopt);
}

TEST_F(Links, FindsALinkByItsAlternativeName) {
  const int index = AddVethOnHost("left", "right");
  RequestMessage message(RTM_NEWLINKPROP, NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND);
  message.Reserve<ifinfomsg>().ifi_index = index;
  nlattr* list = message.Begin(IFLA_PROP_LIST);
  message.PutString(IFLA_ALT_IFNAME, "enp65s0f0np0v12-and-more");
  message.PutString(IFLA_ALT_IFNAME, "second");
  message.End(list);
  host_route().Request(message.get(), "add alternative names");

  const std::optional<Link> found = FindLink(host_route(), "enp65s0f0np0v12-and-more");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "left");
  EXPECT_EQ(found->alternative_names,
            (std::vector<std::string>{"enp65s0f0np0v12-and-more", "second"}));
  EXPECT_EQ(FindLink(host_route(), "second"), found);
}

TEST_F(Links, ChangesWhatIsAskedForAndNothingElse) {
  const int index = AddVethOnHost("left", "right");
  const Link before = *FindLink(host_route(), index);
  ChangeLink(host_route(), index, "left",
             {.up = true,
              .address = "02:00:5e:00:53:01",
              .mtu = 9000,
              .gso_max_size = 32768,
              .gro_max_size = 16384,
              .gso_ipv4_max_size = 20000,
              .gro_ipv4_max_size = 10000});
  Link expected = before;
  expected.up = true;
  expected.address = "02:00:5e:00:53:01";
  expected.mtu = 9000;
  expected.gso_max_size = 32768;
  expected.gro_max_size = 16384;
  expected.gso_ipv4_max_size = 20000;
  expected.gro_ipv4_max_size = 10000;
  expected.state = "lowerlayerdown";  // the other end is down
  EXPECT_EQ(FindLink(host_route(), index), expected);

  ChangeLink(host_route(), index, "left", {.up = false, .name = "other"});
  expected.up = false;
  expected.name = "other";
  expected.state = "down";
  EXPECT_EQ(FindLink(host_route(), index), expected);
}

// The kernel's side of what the numbers mean: a size for all of GSO is IPv4's too, and nothing of GRO's.
TEST_F(Links, TellsTheSizesApart) {
  const int index = AddVethOnHost("left", "right");
  Link expected = *FindLink(host_route(), index);
  ChangeLink(host_route(), index, "left", {.gso_max_size = 30000});
  expected.gso_max_size = expected.gso_ipv4_max_size = 30000;
  EXPECT_EQ(FindLink(host_route(), index), expected);
  ChangeLink(host_route(), index, "left", {.gro_max_size = 20000});
  expected.gro_max_size = expected.gro_ipv4_max_size = 20000;
  EXPECT_EQ(FindLink(host_route(), index), expected);
}

TEST_F(Links, MovesAndRenamesInOneStepThoughBothNamesAreTaken) {
  const int index = AddVethOnHost("eth0", "far");
  AddVethOnHost("net1", "far2");           // the name in the pod is taken on the host
  AddVeth(pod_route(), "eth0", "podfar");  // the name on the host is taken in the pod
  ChangeLink(host_route(), index, "eth0", {.name = "net1", .mtu = 1400, .target = &pod()});
  const std::optional<Link> moved = FindLink(pod_route(), "net1");
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->mtu, 1400u);
  EXPECT_EQ(moved->parent, FindLink(host_route(), "far")->index);
  EXPECT_TRUE(moved->parent_elsewhere);
  EXPECT_EQ(Names(ListLinks(host_route())),
            (std::vector<std::string>{"far", "far2", "lo", "net1"}));
  EXPECT_EQ(Names(ListLinks(pod_route())),
            (std::vector<std::string>{"eth0", "lo", "net1", "podfar"}));
}

TEST_F(Links, SaysSoIfTheNewNameIsTakenInTheTarget) {
  const int index = AddVethOnHost("left", "far");
  AddVeth(pod_route(), "net1", "podfar");
  EXPECT_EQ(
      ErrorOf([&] { ChangeLink(host_route(), index, "left", {.name = "net1", .target = &pod()}); }),
      EEXIST);
  // Wherever this kernel left it, it is there still.
  const std::vector<std::string> pod_names = Names(ListLinks(pod_route()));
  EXPECT_NE(FindLink(host_route(), "left").has_value(), FindLink(pod_route(), "left").has_value());
  RecordProperty("moved_all_the_same", FindLink(pod_route(), "left").has_value());
}

TEST_F(Links, MakesAMacvlanInAnotherNamespace) {
  const int parent = AddVethOnHost("nic", "far");
  AddMacvlan(host_route(), parent, "net1", "bridge", "02:00:5e:00:53:07", 1300, pod());
  const std::optional<Link> made = FindLink(pod_route(), "net1");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->kind, "macvlan");
  EXPECT_EQ(made->address, "02:00:5e:00:53:07");
  EXPECT_EQ(made->mtu, 1300u);
  EXPECT_EQ(made->parent, parent);
  EXPECT_TRUE(made->parent_elsewhere);
  EXPECT_EQ(FindLink(host_route(), "net1"), std::nullopt);

  AddMacvlan(host_route(), parent, "net2", "vepa", "", 0, pod());
  EXPECT_EQ(FindLink(pod_route(), "net2")->mtu, 1500u);
  std::string text;
  EXPECT_EQ(
      ErrorOf([&] { AddMacvlan(host_route(), parent, "net3", "brigde", "", 0, pod()); }, &text),
      EINVAL);
  EXPECT_EQ(text, "add macvlan net3: no mode \"brigde\"");
  EXPECT_EQ(ErrorOf([&] { AddMacvlan(host_route(), parent, "net1", "bridge", "", 0, pod()); }),
            EEXIST);
}

TEST_F(Links, DeletesALink) {
  const int index = AddVethOnHost("left", "right");
  DeleteLink(host_route(), index, "left");
  EXPECT_EQ(Names(ListLinks(host_route())), std::vector<std::string>{"lo"});
  std::string text;
  EXPECT_EQ(ErrorOf([&] { DeleteLink(host_route(), index, "left"); }, &text), ENODEV);
  EXPECT_EQ(text, "delete link left: No such device");
}

TEST_F(Links, TellsErrorsInTheKernelsOwnWords) {
  const int index = AddVethOnHost("left", "right");
  std::string text;
  EXPECT_EQ(ErrorOf([&] { ChangeLink(host_route(), index, "left", {.mtu = 10}); }, &text), EINVAL);
  EXPECT_EQ(text, "set link left: Invalid argument (mtu less than device minimum)");
  EXPECT_EQ(ErrorOf([&] { ChangeLink(host_route(), index, "left", {.address = "02:00:5e:00:53"}); },
                    &text),
            EINVAL);
  EXPECT_EQ(
      ErrorOf([&] { ChangeLink(host_route(), index, "left", {.address = "02-00-5e-00-53-01"}); },
              &text),
      EINVAL);
  EXPECT_EQ(text,
            "hardware address \"02-00-5e-00-53-01\": not bytes like 02:00:5e:00:53:01, 32 at most");
  EXPECT_EQ(ErrorOf([&] { ChangeLink(host_route(), index, "left", {.name = "lo"}); }, &text),
            EEXIST);
  const NetworkNamespace closed(-1);
  EXPECT_EQ(ErrorOf([&] { ChangeLink(host_route(), index, "left", {.target = &closed}); }, &text),
            EBADF);
  // The socket is as good as before.
  EXPECT_EQ(FindLink(host_route(), index)->name, "left");
}

TEST_F(Links, AddsAddressesOfBothFamiliesAndListsThem) {
  const int index = AddVethOnHost("left", "right");
  ChangeLink(host_route(), index, "left", {.up = true});
  const int other = FindLink(host_route(), "right")->index;
  ChangeLink(host_route(), other, "right", {.up = true});
  const InterfaceAddress v4{.index = index, .cidr = "192.0.2.7/24", .broadcast = "192.0.2.255"};
  const InterfaceAddress v6{.index = index, .cidr = "2001:db8::7/64"};
  const InterfaceAddress elsewhere{
      .index = other, .cidr = "198.51.100.1/32", .scope = RT_SCOPE_LINK};
  for (int times = 0; times < 2; ++times) {  // the second changes nothing
    AddAddress(host_route(), v4);
    AddAddress(host_route(), v6);
    AddAddress(host_route(), elsewhere);
  }
  std::vector<InterfaceAddress> of_link = ListAddresses(host_route(), index);
  std::erase_if(of_link,
                [](const InterfaceAddress& a) { return a.scope == RT_SCOPE_LINK; });  // fe80::
  EXPECT_EQ(of_link, (std::vector<InterfaceAddress>{v4, v6}));
  const std::vector<InterfaceAddress> all = ListAddresses(host_route());
  for (const InterfaceAddress& address : {v4, v6, elsewhere}) {
    EXPECT_EQ(std::count(all.begin(), all.end(), address), 1) << address.cidr;
  }
  EXPECT_TRUE(ListAddresses(host_route(), 4711).empty());
  EXPECT_TRUE(ListAddresses(pod_route()).empty());
  std::string text;
  EXPECT_EQ(
      ErrorOf([&] { AddAddress(host_route(), {.index = 4711, .cidr = "192.0.2.1/24"}); }, &text),
      ENODEV);
  EXPECT_EQ(
      ErrorOf([&] { AddAddress(host_route(), {.index = index, .cidr = "192.0.2.1/33"}); }, &text),
      EINVAL);
  EXPECT_EQ(text, "\"192.0.2.1/33\": the prefix length is no number from 0 to 32");
}

// So that the work does not grow with the number of interfaces.
TEST_F(Links, TheKernelPicksTheAddressesOfOneInterface) {
  const int left = AddVethOnHost("left", "right"), right = FindLink(host_route(), "right")->index;
  AddAddress(host_route(), {.index = left, .cidr = "192.0.2.7/24"});
  AddAddress(host_route(), {.index = right, .cidr = "198.51.100.7/24"});
  const auto count = [&](int index) {
    RequestMessage message(RTM_GETADDR, NLM_F_DUMP);
    message.Reserve<ifaddrmsg>().ifa_index = static_cast<uint32_t>(index);
    int answers = 0;
    host_route().Dump(message.get(), "list addresses", [&](const nlmsghdr*) { ++answers; });
    return answers;
  };
  EXPECT_EQ(count(0), 2);
  EXPECT_EQ(count(left), 1);
}

TEST_F(Links, TellsAnAddressWithATimeLimit) {
  const int index = AddVethOnHost("left", "right");
  RequestMessage message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
  auto& header = message.Reserve<ifaddrmsg>();
  header.ifa_family = AF_INET;
  header.ifa_prefixlen = 24;
  header.ifa_index = static_cast<uint32_t>(index);
  const uint8_t address[] = {192, 0, 2, 9};
  message.Put(IFA_LOCAL, address, sizeof(address));
  const ifa_cacheinfo limits{.ifa_prefered = 600, .ifa_valid = 600, .cstamp = 0, .tstamp = 0};
  message.Put(IFA_CACHEINFO, &limits, sizeof(limits));
  host_route().Request(message.get(), "add address");
  const std::vector<InterfaceAddress> listed = ListAddresses(host_route(), index);
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].cidr, "192.0.2.9/24");
  EXPECT_FALSE(listed[0].permanent);
}

// Enough of them that the list comes in many datagrams.
TEST_F(Links, ListsHundredsOfLinks) {
  for (int i = 0; i < 200; ++i)
    AddVeth(host_route(), "a" + std::to_string(i), "b" + std::to_string(i));
  EXPECT_EQ(ListLinks(host_route()).size(), 401u);
}

}  // namespace
}  // namespace rdma
