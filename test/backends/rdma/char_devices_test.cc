#include "char_devices.h"

#include <set>
#include <string>

#include "fixtures.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sysfs_tree.h"

namespace rdma {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::vector<std::string> Paths(const dra::Json& edits) {
  std::vector<std::string> paths;
  for (const dra::Json& node : edits.value("deviceNodes", dra::Json::array()))
    paths.push_back(node.at("path"));
  return paths;
}

// The RDMA device of the one NIC, or the named one.
RdmaDevice DeviceIn(const SysfsTree& tree, const std::string& nic) {
  const NodeNics node = tree.Look();
  const Nic* found = Find(node, nic);
  EXPECT_NE(found, nullptr);
  EXPECT_TRUE(found != nullptr && found->rdma);
  return found != nullptr && found->rdma ? *found->rdma : RdmaDevice{};
}

std::string Refusal(const RdmaDevice& device, const std::string& root,
                    const NetworkConfig::RdmaWish& wish, dra_code code) {
  try {
    CharDeviceEdits(device, root, wish);
  } catch (const dra::BackendError& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "accepted";
}

#define NEEDS_NODES(tree) \
  if (!(tree).real_nodes()) GTEST_SKIP() << "this process may not make device nodes"

TEST(CharDevices, AreThoseOfThisDeviceAlone) {
  SysfsTree tree(rdma_simulator::SriovNode());
  NEEDS_NODES(tree);
  const dra::Json edits = CharDeviceEdits(DeviceIn(tree, "pci-0000-8d-00-1"), tree.root(), {});
  EXPECT_EQ(edits.at("deviceNodes"),
            dra::Json::array({{{"path", "/dev/infiniband/uverbs1"},
                               {"hostPath", tree.root() + "/dev/infiniband/uverbs1"},
                               {"permissions", "rw"}},
                              {{"path", "/dev/infiniband/rdma_cm"},
                               {"hostPath", tree.root() + "/dev/infiniband/rdma_cm"},
                               {"permissions", "rw"}}}));
}

TEST(CharDevices, HaveUmadAndIssmWhereAskedFor) {
  SysfsTree tree(rdma_simulator::InfiniBandNode());
  NEEDS_NODES(tree);
  const RdmaDevice device = DeviceIn(tree, "pci-0000-18-00-0");
  EXPECT_THAT(Paths(CharDeviceEdits(device, tree.root(), {.umad = true})),
              UnorderedElementsAre("/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm",
                                   "/dev/infiniband/umad0"));
  EXPECT_THAT(Paths(CharDeviceEdits(device, tree.root(), {.umad = true, .issm = true})),
              UnorderedElementsAre("/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm",
                                   "/dev/infiniband/umad0", "/dev/infiniband/issm0"));
}

TEST(CharDevices, OfAPortAreItsOwn) {
  SysfsTree tree(rdma_simulator::TwoPortNode());
  NEEDS_NODES(tree);
  EXPECT_THAT(Paths(CharDeviceEdits(DeviceIn(tree, "pci-0000-05-00-0"), tree.root(),
                                    {.umad = true, .issm = true})),
              UnorderedElementsAre("/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm",
                                   "/dev/infiniband/umad0", "/dev/infiniband/issm0"));
  EXPECT_THAT(
      Paths(CharDeviceEdits(DeviceIn(tree, "pci-0000-05-00-0-p1"), tree.root(), {.umad = true})),
      UnorderedElementsAre("/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm",
                           "/dev/infiniband/umad1"));
}

TEST(CharDevices, OfEfaDoWithoutRdmaCm) {
  SysfsTree tree({.functions = {rdma_simulator::Efa()}, .rdma_cm = false});
  NEEDS_NODES(tree);
  const RdmaDevice device = DeviceIn(tree, "pci-0000-10-1b-0");
  EXPECT_EQ(device.unusable, "");
  EXPECT_THAT(Paths(CharDeviceEdits(device, tree.root(), {})),
              UnorderedElementsAre("/dev/infiniband/uverbs22"));
  tree.node.rdma_cm = true;
  tree.Write();
  EXPECT_THAT(Paths(CharDeviceEdits(device, tree.root(), {})),
              UnorderedElementsAre("/dev/infiniband/uverbs22", "/dev/infiniband/rdma_cm"));
  EXPECT_THAT(Refusal(device, tree.root(), {.umad = true}, DRA_FAILED_PRECONDITION),
              HasSubstr("rdmap16s27 has no umad device: load the kernel module ib_umad"));
}

TEST(CharDevices, ThatAreMissingAreNamedWithTheirModule) {
  SysfsTree tree({.functions = {rdma_simulator::BnxtRe()}});
  NEEDS_NODES(tree);
  const RdmaDevice device = DeviceIn(tree, "pci-0000-41-00-0");
  const struct {
    const char* node;
    const char* module;
  } cases[] = {{"uverbs20", "ib_uverbs"}, {"rdma_cm", "rdma_ucm"}, {"umad20", "ib_umad"}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.node);
    tree.Write();
    tree.Remove(std::string("dev/infiniband/") + c.node);
    const std::string refusal =
        Refusal(device, tree.root(), {.umad = true}, DRA_FAILED_PRECONDITION);
    EXPECT_THAT(refusal, HasSubstr(tree.root() + "/dev/infiniband/" + c.node + " is missing"));
    EXPECT_THAT(refusal, HasSubstr(std::string("modprobe ") + c.module));
  }
  RdmaDevice without = device;
  without.chars.uverbs.clear();
  EXPECT_THAT(Refusal(without, tree.root(), {}, DRA_FAILED_PRECONDITION),
              HasSubstr("bnxt_re0 has no verbs device"));
}

TEST(CharDevices, AreNoPlainFiles) {
  SysfsTree tree({.functions = {rdma_simulator::BnxtRe()}});
  const RdmaDevice device = DeviceIn(tree, "pci-0000-41-00-0");
  tree.Remove("dev/infiniband/uverbs20");
  std::filesystem::create_directory(tree.dev() + "/infiniband/uverbs20");
  EXPECT_THAT(Refusal(device, tree.root(), {}, DRA_FAILED_PRECONDITION),
              HasSubstr("uverbs20 is no character device"));
}

TEST(CharDevices, HaveNoIssmOnEthernet) {
  SysfsTree tree({.functions = {rdma_simulator::BnxtRe()}});
  EXPECT_THAT(Refusal(DeviceIn(tree, "pci-0000-41-00-0"), tree.root(), {.issm = true},
                      DRA_INVALID_ARGUMENT),
              HasSubstr("rdma.issm: RDMA device bnxt_re0 has no InfiniBand port"));
}

// NET-07: one node that is missing costs the RDMA device, and it is back by itself when the node is.
TEST(CharDevices, ThatAreMissingMakeTheDeviceUnusableUntilTheyAreThere) {
  SysfsTree tree({.functions = {rdma_simulator::BnxtRe()}, .rdma_cm = false});
  NodeNics node = tree.Look();
  ASSERT_EQ(node.problems.size(), 1u);
  EXPECT_EQ(node.problems[0].subject, tree.dev() + "/infiniband");
  EXPECT_THAT(node.problems[0].message,
              HasSubstr("rdma_cm is missing: load the kernel module rdma_ucm"));
  EXPECT_FALSE(node.rdma_cm);
  ASSERT_NE(Find(node, "pci-0000-41-00-0"), nullptr);
  EXPECT_THAT(Find(node, "pci-0000-41-00-0")->rdma->unusable, HasSubstr("rdma_cm"));
  tree.node.rdma_cm = true;
  tree.Write();
  node = tree.Look();
  EXPECT_TRUE(node.problems.empty());
  EXPECT_TRUE(node.rdma_cm);
  EXPECT_EQ(Find(node, "pci-0000-41-00-0")->rdma->unusable, "");
}

}  // namespace
}  // namespace rdma
