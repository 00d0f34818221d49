// The simulated hardware itself: what its models become, what `set` does, and that real interfaces stand for it.

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "char_devices.h"
#include "devices.h"
#include "discovery.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "links_source.h"
#include "namespaces.h"
#include "simulator/model.h"
#include "simulator/state.h"
#include "sysfs_tree.h"

namespace rdma {
namespace {

namespace fs = std::filesystem;

using rdma_simulator::State;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return file ? text.str() : "<cannot be read>";
}

struct Ran {
  int code = -1;
  std::string output;  // both streams
};

// By a shell, in the calling thread's namespaces.
Ran Shell(const std::string& command) {
  Ran ran;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return ran;
  char part[4096];
  for (size_t got; (got = fread(part, 1, sizeof(part), pipe)) != 0;) ran.output.append(part, got);
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 255;
  return ran;
}

std::string ModelPath(const std::string& model) {
  return std::string(RDMA_SIMULATOR_MODELS) + "/" + model + ".yaml";
}

// A directory with a host of the program's making.
class SimulatedHostTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "rdma-sim-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override {
    std::error_code error;
    fs::remove_all(directory_, error);
  }

  const std::string& directory() const { return directory_; }
  std::string root() const { return directory_ + "/host"; }
  std::string At(const std::string& path) const { return root() + "/" + path; }
  Ran Tool(const std::string& arguments) { return Shell(RDMA_SIMULATOR " " + arguments); }
  void Create(const std::string& model_path, const std::string& options = "--no-nodes") {
    const Ran ran = Tool("create " + model_path + " " + root() + " " + options);
    ASSERT_EQ(ran.code, 0) << ran.output;
  }
  void Set(const std::string& changes) {
    const Ran ran = Tool("set " + root() + " " + changes);
    ASSERT_EQ(ran.code, 0) << ran.output;
  }
  // A model of the test's own.
  std::string Model(const std::string& text) {
    const std::string path = directory_ + "/model.yaml";
    std::ofstream(path) << text;
    return path;
  }

  // The backend's look, with netlink as it would be on such a host.
  NodeNics Look() const {
    SysfsTree kernel(rdma_simulator::Visible(rdma_simulator::ReadState(root())));
    return LookAtNode(dra::Sysfs(At("sys")), At("dev"), kernel.Kernel(), {}, [] {});
  }
  // With this thread's own netlink.
  NodeNics LookForReal() const {
    return LookAtNode(dra::Sysfs(At("sys")), At("dev"), LookAtKernelNetwork(), {}, [] {});
  }

 private:
  std::string directory_;
};

// "name: interface rdma kind layer rate", "-" where there is none.
std::vector<std::string> Summary(const NodeNics& node) {
  std::vector<std::string> lines;
  for (const Nic& nic : node.nics) {
    const std::string layer = LinkLayerOf(nic);
    const auto rate = RateMbpsOf(nic);
    lines.push_back(nic.name + ": " + (nic.netdev ? nic.netdev->link.name : "-") + " " +
                    (nic.rdma ? nic.rdma->name : "-") + " " + KindOf(nic) + " " +
                    (layer.empty() ? "-" : layer) + " " +
                    (rate ? std::to_string(*rate / 1000) : "-"));
  }
  return lines;
}

std::vector<std::string> Offered(const NodeNics& node) {
  std::vector<std::string> names;
  for (const Nic& nic : node.nics)
    if (!WhyNotOffered(nic, Options())) names.push_back(nic.name);
  return names;
}

TEST_F(SimulatedHostTest, ModelsBecomeTheirDevices) {
  const std::map<std::string, std::vector<std::string>> models = {
      {"bnxt-re",
       {"pci-0000-41-00-0: ens3np0 bnxt_re0 physical ethernet 400",
        "pci-0000-41-00-1: ens3v0 bnxt_re1 virtualFunction ethernet 400",
        "pci-0000-41-00-2: ens3v1 bnxt_re2 virtualFunction ethernet 400"}},
      {"efa",
       {"pci-0000-00-05-0: ens5 - physical ethernet -",
        "pci-0000-10-1b-0: - rdmap16s27 physical - 200",
        "pci-0000-20-1b-0: - rdmap32s27 physical - 200"}},
      {"grace-4gpu-4nic",
       {"pci-0000-03-00-0: rail0 mlx5_0 physical ethernet 400",
        "pci-0002-03-00-0: rail1 mlx5_1 physical ethernet 400",
        "pci-0010-03-00-0: rail2 mlx5_2 physical ethernet 400",
        "pci-0012-03-00-0: rail3 mlx5_3 physical ethernet 400"}},
      {"h100-8gpu-8nic-4roots",
       {"pci-0000-1a-00-0: gpu0rail mlx5_0 physical ethernet 400",
        "pci-0000-1e-00-0: gpu1rail mlx5_1 physical ethernet 400",
        "pci-0000-3a-00-0: gpu2rail mlx5_2 physical ethernet 400",
        "pci-0000-3e-00-0: gpu3rail mlx5_3 physical ethernet 400",
        "pci-0000-5a-00-0: gpu4rail mlx5_4 physical ethernet 400",
        "pci-0000-5e-00-0: gpu5rail mlx5_5 physical ethernet 400",
        "pci-0000-7a-00-0: gpu6rail mlx5_6 physical ethernet 400",
        "pci-0000-7e-00-0: gpu7rail mlx5_7 physical ethernet 400"}},
      {"irdma", {"pci-0000-4b-00-0: ens4 rocep75s0 physical ethernet 100"}},
      {"mlx5-infiniband",
       {"pci-0000-18-00-0: ibp24s0 mlx5_0 physical infiniband 400",
        "pci-0000-3b-00-0: - mlx5_1 physical infiniband -"}},
      {"mlx5-sriov",
       {"pci-0000-8d-00-0: ens1f0np0 mlx5_0 physical ethernet 400",
        "pci-0000-8d-00-1: ens1f0v0 mlx5_1 virtualFunction ethernet 400",
        "pci-0000-8d-00-2: ens1f0v1 mlx5_2 virtualFunction ethernet 400",
        "pci-0000-8d-00-3: ens1f0v2 mlx5_3 virtualFunction ethernet 400",
        "pci-0000-8d-00-4: ens1f0v3 mlx5_4 virtualFunction ethernet 400"}},
      {"no-netdev",
       {"pci-0000-02-00-0: eno1 - physical ethernet 1",
        "pci-0000-18-00-0: - mlx5_0 physical infiniband 400"}},
      // The bond has the members' RDMA device.
      {"roce-bond",
       {"net-bond0: bond0 mlx5_bond_0 bond ethernet 800",
        "pci-0000-3b-00-0: ens2f0np0 - physical ethernet 400",
        "pci-0000-3b-00-1: ens2f1np1 - physical ethernet 400"}},
  };
  std::set<std::string> shipped;
  for (const auto& entry : fs::directory_iterator(RDMA_SIMULATOR_MODELS))
    shipped.insert(entry.path().stem());
  for (const auto& [model, devices] : models) {
    SCOPED_TRACE(model);
    shipped.erase(model);
    Create(ModelPath(model));
    const NodeNics node = Look();
    EXPECT_EQ(Summary(node), devices);
    EXPECT_THAT(node.problems, IsEmpty());
    for (const Nic& nic : node.nics) {
      if (!nic.rdma) continue;
      EXPECT_EQ(nic.rdma->unusable, "");
      const auto edits = CharDeviceEdits(*nic.rdma, root(), {});
      EXPECT_THAT(edits.dump(), HasSubstr(At("dev/") + nic.rdma->chars.uverbs));
    }
  }
  EXPECT_THAT(shipped, IsEmpty()) << "models without a test";
}

TEST_F(SimulatedHostTest, OneSeedGivesOneHost) {
  const auto identities = [&](const std::string& node) {
    Create(ModelPath("mlx5-sriov"), "--no-nodes --node " + node);
    std::vector<std::string> texts;
    for (const Nic& nic : Look().nics) {
      texts.push_back(nic.netdev->link.address);
      texts.push_back(nic.rdma->node_guid);
      texts.push_back(nic.rdma->ports[0].port_guid);
    }
    return texts;
  };
  const std::vector<std::string> first = identities("a"), other = identities("b");
  EXPECT_EQ(first, identities("a"));
  EXPECT_EQ(std::set<std::string>(first.begin(), first.end()).size(), first.size());
  for (const std::string& text : first) EXPECT_THAT(other, Not(Contains(text)));
}

TEST_F(SimulatedHostTest, ModelsAreReadStrictly) {
  const std::pair<const char*, const char*> wrong[] = {
      {"functions: [{address: 0000:8d:00.0, speed: 1}]", "functions[0].speed: unknown field"},
      {"functions: [{card: ConnectX-9, address: 0000:8d:00.0}]",
       "functions[0].card: \"ConnectX-9\" is not one of BCM57608"},
      {"functions: [{card: ConnectX-7, address: 8d:00.0}]",
       "functions[0].address: \"8d:00.0\" is no PCI address"},
      {"functions: [{card: ConnectX-7}]", "functions[0].address: is required"},
      {"functions: [{address: 0000:8d:00.0, vendor: 15b3}]",
       "functions[0].vendor: \"15b3\" is not 0x and 4 digits"},
      {"functions: [{address: 0000:8d:00.0, numaNode: many}]",
       "functions[0].numaNode: must be an integer"},
      {"functions: [{address: 0000:8d:00.0, interfaces: [{name: abcdefghijklmnop}]}]",
       "functions[0].interfaces[0].name: \"abcdefghijklmnop\" is longer than 15 bytes"},
      {"functions: [{address: 0000:8d:00.0, interfaces: [{}]}]",
       "functions[0].interfaces[0].name: is required"},
      {"functions: [{address: 0000:8d:00.0, rdma: [{name: m, ports: [{linkLayer: ib}]}]}]",
       "functions[0].rdma[0].ports[0].linkLayer: \"ib\" is not one of"},
      {"functions: [{address: 0000:8d:00.0, virtualFunctions: 2}]",
       "functions[0].virtualFunctions: function 0000:8d:00.0 can have no virtual ones"},
      {"functions: [{card: ConnectX-7, address: 0000:8d:00.0, virtualFunctions: 17}]",
       "functions[0].virtualFunctions: 17 is not in 0..16"},
      {"functions: [{address: 0000:8d:00.0, plugged: later}]",
       "functions[0].plugged: \"later\" is not true or false"},
      {"functions: [{address: 0000:8d:00.0}, {address: 0000:8d:00.0}]",
       "two have the PCI address \"0000:8d:00.0\""},
      {"virtualInterfaces: [{name: a}, {name: a}]", "two have the interface name \"a\""},
      {"softwareRdma: [{name: a, uverbs: 1}, {name: b, uverbs: 1}]",
       "two have the uverbs number 1"},
      {"virtualInterfaces: [{name: a, master: b}]",
       "master of interface a: there is no interface \"b\""},
      {"functions: [{address: 0000:8d:00.1, physicalFunction: 0000:8d:00.0}]",
       "physicalFunction of function 0000:8d:00.1: there is no function \"0000:8d:00.0\""},
      {"functions: 1", "functions: must be an array"},
      {"functions: []\nfunctions: []", "functions: stands there twice"},
      {"cards: []", "cards: unknown field; known: functions"},
      {"- a", "must be one YAML mapping"},
      {"functions: [", "line 1"},
  };
  for (const auto& [text, message] : wrong) {
    SCOPED_TRACE(text);
    const Ran ran = Tool("create " + Model(text) + " " + root());
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.output, HasSubstr(message));
    EXPECT_THAT(ran.output, HasSubstr("model.yaml: "));
    EXPECT_FALSE(fs::exists(At("sys")));
  }
}

TEST_F(SimulatedHostTest, StandInsAreNodesWithTheNumberOfNull) {
  const Ran ran = Tool("create " + ModelPath("irdma") + " " + root());
  if (ran.code != 0) GTEST_SKIP() << "making device nodes is not permitted: " << ran.output;
  const auto numbers = [&] {
    struct stat info = {};
    EXPECT_EQ(lstat(At("dev/infiniband/uverbs0").c_str(), &info), 0);
    EXPECT_TRUE(S_ISCHR(info.st_mode));
    EXPECT_EQ(info.st_mode & 0777, 0666u);
    return std::to_string(major(info.st_rdev)) + ":" + std::to_string(minor(info.st_rdev));
  };
  EXPECT_EQ(numbers(), "1:3");
  EXPECT_EQ(Read(At("sys/class/infiniband_verbs/uverbs0/dev")), "231:192\n");
  Create(ModelPath("irdma"), "--rdma-numbers");
  EXPECT_EQ(numbers(), "231:192");
  Create(ModelPath("irdma"), "--no-nodes");
  EXPECT_EQ(fs::read_symlink(At("dev/infiniband/uverbs0")), "/dev/null");
}

TEST_F(SimulatedHostTest, CreateOverwritesOnlyItsOwn) {
  fs::create_directories(At("sys/class/net"));
  std::ofstream(At("sys/class/net/ens4")) << "somebody's";
  Ran ran = Tool("create " + ModelPath("irdma") + " " + root() + " --no-nodes");
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.output, HasSubstr("sys/class/net/ens4 is there and is not the simulator's"));
  EXPECT_EQ(Read(At("sys/class/net/ens4")), "somebody's");
  fs::remove(At("sys/class/net/ens4"));
  std::ofstream(At("sys/class/net/bonding_masters")) << "somebody's";
  Create(ModelPath("irdma"));
  Create(ModelPath("no-netdev"));
  EXPECT_EQ(Read(At("sys/class/net/bonding_masters")), "somebody's");
  EXPECT_FALSE(fs::exists(fs::symlink_status(At("sys/class/net/ens4"))));
  EXPECT_FALSE(fs::exists(At("sys/devices/pci0000:4a")));
  ran = Tool("create " + ModelPath("irdma") + " /");
  EXPECT_EQ(ran.code, 1);
  ran = Tool("show " + directory());
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.output, HasSubstr("is no simulated host"));
}

TEST_F(SimulatedHostTest, FunctionsComeAndGo) {
  Create(ModelPath("mlx5-sriov"));
  const NodeNics before = Look();
  Set("--unplug 0000:8d:00.0");
  EXPECT_THAT(Look().nics, IsEmpty());
  EXPECT_THAT(fs::is_empty(At("sys/bus/pci/devices")), true);
  Set("--plug 0000:8d:00.0");
  EXPECT_EQ(Summary(Look()), Summary(before));
  Set("--vfs 0000:8d:00.0=1");
  EXPECT_THAT(Names(Look()), ElementsAre("pci-0000-8d-00-0", "pci-0000-8d-00-1"));
  EXPECT_EQ(Read(At("sys/bus/pci/devices/0000:8d:00.0/sriov_numvfs")), "1\n");
  // The same ones again.
  Set("--vfs 0000:8d:00.0=4");
  const NodeNics after = Look();
  EXPECT_EQ(Summary(after), Summary(before));
  for (size_t i = 0; i < before.nics.size(); ++i)
    EXPECT_EQ(after.nics[i].rdma->node_guid, before.nics[i].rdma->node_guid);
  EXPECT_EQ(Find(after, "pci-0000-8d-00-4")->vf_index, 3);

  const std::string late =
      Model("functions: [{card: EFA, address: 0000:10:1b.0, plugged: false, rdma: [{name: a}]}]");
  Create(late);
  EXPECT_THAT(Look().nics, IsEmpty());
  Set("--plug 0000:10:1b.0");
  EXPECT_THAT(Names(Look()), ElementsAre("pci-0000-10-1b-0"));
}

TEST_F(SimulatedHostTest, ADriverTakesAllAwayAndBringsItBack) {
  Create(ModelPath("mlx5-sriov"));
  const NodeNics before = Look();
  Set("--unbind 0000:8d:00.1 --bind 0000:8d:00.2=vfio-pci");
  const NodeNics without = Look();
  EXPECT_EQ(Find(without, "pci-0000-8d-00-1")->driver, "");
  EXPECT_EQ(Find(without, "pci-0000-8d-00-2")->driver, "vfio-pci");
  EXPECT_FALSE(Find(without, "pci-0000-8d-00-2")->rdma);
  EXPECT_THAT(Offered(without),
              ElementsAre("pci-0000-8d-00-0", "pci-0000-8d-00-3", "pci-0000-8d-00-4"));
  // Virtual functions are their physical function's driver's.
  Set("--unbind 0000:8d:00.0");
  EXPECT_THAT(Names(Look()), ElementsAre("pci-0000-8d-00-0"));
  Set("--bind 0000:8d:00.0=mlx5_core --bind 0000:8d:00.1=mlx5_core "
      "--bind 0000:8d:00.2=mlx5_core");
  EXPECT_EQ(Summary(Look()), Summary(before));
}

TEST_F(SimulatedHostTest, DevicesNodesAndPortsChange) {
  Create(ModelPath("mlx5-sriov"));
  Set("--remove-rdma mlx5_1 --remove-node uverbs2 --port mlx5_3=DOWN --link ens1f0v3=down");
  NodeNics node = Look();
  EXPECT_FALSE(Find(node, "pci-0000-8d-00-1")->rdma);
  EXPECT_THAT(Find(node, "pci-0000-8d-00-2")->rdma->unusable,
              HasSubstr("uverbs2 is missing: load the kernel module ib_uverbs"));
  EXPECT_EQ(Find(node, "pci-0000-8d-00-3")->rdma->ports[0].state, "DOWN");
  EXPECT_EQ(Find(node, "pci-0000-8d-00-4")->netdev->link.state, "down");
  Set("--add-rdma mlx5_1 --add-node uverbs2 --port mlx5_3/1=ACTIVE --link ens1f0v3=up");
  node = Look();
  EXPECT_EQ(Find(node, "pci-0000-8d-00-1")->rdma->name, "mlx5_1");
  EXPECT_EQ(Find(node, "pci-0000-8d-00-2")->rdma->unusable, "");
  EXPECT_EQ(Find(node, "pci-0000-8d-00-3")->rdma->ports[0].state, "ACTIVE");
  Set("--remove-node rdma_cm");
  EXPECT_FALSE(Look().rdma_cm);
}

TEST_F(SimulatedHostTest, ARenameReachesAllPlaces) {
  Create(ModelPath("roce-bond"));
  Set("--rename bond0=storage --rename ens2f0np0=left");
  const NodeNics node = Look();
  EXPECT_THAT(Names(node), ElementsAre("net-storage", "pci-0000-3b-00-0", "pci-0000-3b-00-1"));
  EXPECT_EQ(Find(node, "net-storage")->rdma->name, "mlx5_bond_0");
  EXPECT_EQ(Find(node, "pci-0000-3b-00-0")->netdev->link.name, "left");
  EXPECT_EQ(Find(node, "pci-0000-3b-00-0")->master, "storage");
}

TEST_F(SimulatedHostTest, SetRefusesWhatIsNotThere) {
  Create(ModelPath("mlx5-sriov"));
  const std::string before = Read(At(".rdma-simulator.json"));
  const std::pair<const char*, const char*> wrong[] = {
      {"--unplug 0000:8d:00.9", "--unplug: there is no function \"0000:8d:00.9\"; the host has "},
      {"--bind 0000:8d:00.1", "--bind: \"0000:8d:00.1\" is not of the form ADDRESS=DRIVER"},
      {"--vfs 0000:8d:00.0=99", "99 is not in 0..16"},
      {"--vfs 0000:8d:00.1=1", "can have no virtual ones"},
      {"--remove-rdma mlx5_9", "--remove-rdma: there is no RDMA device \"mlx5_9\""},
      {"--remove-node uverbs9", "--remove-node: there is no node \"uverbs9\""},
      {"--port mlx5_0=SLEEPY", "\"SLEEPY\" is not one of ACTIVE, ARMED"},
      {"--port mlx5_0/2=DOWN", "has no port \"2\"; it has 1 to 1"},
      {"--link ens1f0np0=left", "\"left\" is neither up nor down"},
      {"--rename ens1f0np0=ens1f0v0", "\"ens1f0v0\" is there already"},
      {"--rename ens1f0np0=abcdefghijklmnop", "cannot be the name of an interface"},
      {"--unplug 0000:8d:00.0 --rename nic=nac", "there is no interface \"nic\""},
  };
  for (const auto& [changes, message] : wrong) {
    SCOPED_TRACE(changes);
    const Ran ran = Tool("set " + root() + " " + changes);
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.output, HasSubstr(message));
  }
  EXPECT_EQ(Read(At(".rdma-simulator.json")), before);
}

// Interfaces that other programs see, and that can be moved.
class RealLinksTest : public SimulatedHostTest {
 protected:
  // In a namespace of its own.
  void InNamespace(const std::function<void()>& body) {
    if (!RunApart(CLONE_NEWNET, body)) GTEST_SKIP() << "making network namespaces is not permitted";
  }
  std::optional<Link> Here(const std::string& name) {
    NetlinkSocket route(NETLINK_ROUTE);
    return FindLink(route, name);
  }
  void Good(const Ran& ran) { ASSERT_EQ(ran.code, 0) << ran.output; }
};

TEST_F(RealLinksTest, StandForTheHostsInterfaces) {
  InNamespace([&] {
    Create(ModelPath("h100-8gpu-8nic-4roots"));
    const std::vector<std::string> as_modelled = Summary(Look());
    Good(Tool("links " + root()));
    Good(Tool("links " + root()));  // again changes nothing
    const NodeNics node = LookForReal();
    std::vector<std::string> summary;
    for (const std::string& line : Summary(node))
      if (line.rfind("pci-", 0) == 0) summary.push_back(line);
    EXPECT_EQ(summary, as_modelled);
    EXPECT_THAT(node.problems, IsEmpty());
    EXPECT_EQ(Offered(node).size(), 8u) << "the other ends are not offered";
    const Nic* nic = Find(node, "pci-0000-3a-00-0");
    ASSERT_NE(nic, nullptr);
    const Link link = Here("gpu2rail").value();
    EXPECT_EQ(nic->netdev->link.index, link.index);
    EXPECT_EQ(link.mtu, 4200u);
    EXPECT_TRUE(link.up);
    EXPECT_EQ(link.state, "up");
    EXPECT_EQ(link.address + "\n", Read(At("sys/class/net/gpu2rail/address")));
    EXPECT_TRUE(Here("gpu2rail-w"));
    Good(Tool("unlink " + root()));
    EXPECT_FALSE(Here("gpu2rail"));
    EXPECT_FALSE(Here("gpu2rail-w"));
  });
}

TEST_F(RealLinksTest, HaveTheirAddressesAndShortNamesAtTheOtherEnd) {
  InNamespace([&] {
    Create(Model(R"(
functions:
  - {card: ConnectX-7, address: 0000:8d:00.0, interfaces: [{name: enp141s0f0np0v1, addresses: [192.0.2.7/24]}]}
  - {card: ConnectX-7, address: 0000:8d:00.1, interfaces: [{name: enp141s0f0np0v2, state: down}]}
)"));
    Good(Tool("links " + root()));
    NetlinkSocket route(NETLINK_ROUTE);
    const Link first = Here("enp141s0f0np0v1").value();
    std::vector<std::string> cidrs;
    for (const InterfaceAddress& address : ListAddresses(route, first.index))
      cidrs.push_back(address.cidr);
    EXPECT_THAT(cidrs, Contains("192.0.2.7/24"));
    EXPECT_NE(Here("enp141s0f0np0v2")->state, "up") << "nothing is on its wire";
    std::set<std::string> peers;
    for (const Link& link : ListLinks(route))
      if (link.name.size() <= 15 && link.name.substr(link.name.size() - 2) == "-w")
        peers.insert(link.name);
    EXPECT_EQ(peers.size(), 2u);
  });
}

TEST_F(RealLinksTest, LeaveOutWhatNoVethCanBe) {
  InNamespace([&] {
    Create(ModelPath("roce-bond"));
    const Ran ran = Tool("links " + root());
    EXPECT_EQ(ran.code, 0);
    EXPECT_THAT(ran.output, HasSubstr("left out: bond0 is a bond"));
    EXPECT_TRUE(Here("ens2f0np0"));
    Good(Tool("unlink " + root()));
    Create(ModelPath("mlx5-infiniband"));
    EXPECT_THAT(Tool("links " + root()).output, HasSubstr("left out: ibp24s0 is InfiniBand"));
  });
}

TEST_F(RealLinksTest, AreFollowedWhereTheyGo) {
  InNamespace([&] {
    Create(ModelPath("no-netdev"));
    Good(Tool("links " + root()));
    const std::optional<NetworkNamespace> pod = NewNamespace();
    ASSERT_TRUE(pod);
    NetlinkSocket route(NETLINK_ROUTE), pod_route(NETLINK_ROUTE, *pod);
    const int index = Here("eno1")->index;
    ChangeLink(route, index, "eno1", {.name = "net1", .target = &*pod});
    Good(Tool("sync " + root()));
    EXPECT_FALSE(fs::exists(At("sys/class/net/eno1")));
    EXPECT_THAT(Find(LookForReal(), "pci-0000-02-00-0")->netdev, testing::Eq(std::nullopt));

    // Back under the pod's name.
    const NetworkNamespace host = NetworkNamespace::Open("/proc/thread-self/ns/net");
    ChangeLink(pod_route, FindLink(pod_route, "net1")->index, "net1", {.target = &host});
    Good(Tool("sync " + root()));
    const NodeNics node = LookForReal();
    ASSERT_TRUE(Find(node, "pci-0000-02-00-0")->netdev);
    EXPECT_EQ(Find(node, "pci-0000-02-00-0")->netdev->link.name, "net1");

    Set("--rename net1=eno1");
    EXPECT_TRUE(Here("eno1"));
    EXPECT_EQ(Find(LookForReal(), "pci-0000-02-00-0")->netdev->link.name, "eno1");

    // An unplugged card takes its interface out of the pod.
    ChangeLink(route, Here("eno1")->index, "eno1", {.target = &*pod});
    Set("--unplug 0000:02:00.0");
    EXPECT_FALSE(FindLink(pod_route, "eno1"));
    Set("--plug 0000:02:00.0");
    EXPECT_TRUE(Here("eno1"));
  });
}

// As the kernel gives a card's interface back to the first namespace when the pod's ends.
TEST_F(RealLinksTest, ComeBackWhenAPodsNamespaceEnds) {
  InNamespace([&] {
    Create(ModelPath("no-netdev"));
    Good(Tool("links " + root()));
    {
      const std::optional<NetworkNamespace> pod = NewNamespace();
      ASSERT_TRUE(pod);
      NetlinkSocket route(NETLINK_ROUTE);
      ChangeLink(route, Here("eno1")->index, "eno1", {.target = &*pod});
    }
    // It ends in the kernel's own time.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (Here("eno1-w") && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_FALSE(Here("eno1-w"));
    Good(Tool("sync " + root()));
    EXPECT_TRUE(Here("eno1"));
    EXPECT_EQ(Find(LookForReal(), "pci-0000-02-00-0")->netdev->link.name, "eno1");
  });
}

TEST_F(RealLinksTest, AreFollowedByAProgramThatStays) {
  InNamespace([&] {
    Create(ModelPath("no-netdev"));
    const Ran follower = Shell(RDMA_SIMULATOR " links " + root() + " --follow > /dev/null 2>" +
                               directory() + "/log & echo $!");
    const pid_t pid = std::stoi(follower.output);
    const auto becomes = [&](bool there) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (fs::exists(At("sys/class/net/eno1")) != there ||
             (there && Read(At("sys/class/net/eno1/ifindex")) !=
                           std::to_string(Here("eno1") ? Here("eno1")->index : -1) + "\n")) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      return true;
    };
    EXPECT_TRUE(becomes(true));
    {
      const std::optional<NetworkNamespace> pod = NewNamespace();
      ASSERT_TRUE(pod);
      NetlinkSocket route(NETLINK_ROUTE);
      ChangeLink(route, Here("eno1")->index, "eno1", {.target = &*pod});
      EXPECT_TRUE(becomes(false));
    }
    EXPECT_TRUE(becomes(true)) << "the pod's namespace ended";
    EXPECT_EQ(Read(directory() + "/log"), "");
    EXPECT_EQ(kill(pid, SIGTERM), 0);
  });
}

TEST_F(RealLinksTest, HaveTheirWiresWhereTheyAreWanted) {
  InNamespace([&] {
    const std::optional<NetworkNamespace> wire = NewNamespace();
    ASSERT_TRUE(wire);
    Create(ModelPath("no-netdev"));
    // The program opens it by this process.
    const std::string path =
        "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(wire->fd());
    Good(Tool("links " + root() + " --wire " + path));
    NetlinkSocket wire_route(NETLINK_ROUTE, *wire);
    EXPECT_TRUE(FindLink(wire_route, "eno1-w"));
    EXPECT_FALSE(Here("eno1-w"));
    EXPECT_EQ(Find(LookForReal(), "pci-0000-02-00-0")->netdev->link.name, "eno1");
    EXPECT_EQ(Tool("links " + root()).code, 1) << "other wires";
    Set("--link eno1=down");
    EXPECT_FALSE(FindLink(wire_route, "eno1-w")->up);
    Good(Tool("unlink " + root()));
    EXPECT_FALSE(Here("eno1"));
  });
}

TEST_F(RealLinksTest, NeverTakeAnothersInterface) {
  InNamespace([&] {
    NetlinkSocket route(NETLINK_ROUTE);
    AddVeth(route, "eno1", "other");
    Create(ModelPath("no-netdev"));
    const Ran ran = Tool("links " + root());
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.output, HasSubstr("there is an interface eno1 already"));
    EXPECT_TRUE(Here("eno1"));
    DeleteLink(route, Here("eno1")->index, "eno1");
    Good(Tool("links " + root()));
  });
}

#ifdef NVIDIA_SIMULATOR
// With the simulated GPUs in the same root: what the scheduler matches.
TEST_F(SimulatedHostTest, StandsBesideTheSimulatedGpus) {
  struct Machine {
    const char *nics, *gpus;
    bool roots_match;
  };
  for (const Machine& machine : {Machine{"h100-8gpu-8nic-4roots", "h100x8", true},
                                 Machine{"grace-4gpu-4nic", "gb200x4", false}}) {
    SCOPED_TRACE(machine.nics);
    fs::remove_all(root());
    Create(ModelPath(machine.nics));
    const Ran ran = Shell(std::string(NVIDIA_SIMULATOR) + " create " + NVIDIA_SIMULATOR_MODELS +
                          "/" + machine.gpus + ".yaml " + root() + " --no-nodes");
    ASSERT_EQ(ran.code, 0) << ran.output;
    const dra::Sysfs sys(At("sys"));
    std::multiset<std::string> gpu_roots, nic_roots;
    std::multiset<int64_t> gpu_nodes, nic_nodes;
    for (const std::string& name : sys.List("bus/pci/devices")) {
      const auto address = dra::ParsePciAddress(name);
      const bool gpu = sys.Read("bus/pci/devices/" + name + "/class").value_or("") == "0x030200";
      (gpu ? gpu_roots : nic_roots).insert(sys.PcieRoot(*address).value_or("none"));
      (gpu ? gpu_nodes : nic_nodes).insert(sys.NumaNode(*address).value_or(-1));
    }
    EXPECT_EQ(gpu_nodes, nic_nodes);
    if (machine.roots_match) {
      EXPECT_EQ(gpu_roots, nic_roots);
      EXPECT_EQ(std::set<std::string>(gpu_roots.begin(), gpu_roots.end()).size(), 4u);
    } else {
      for (const std::string& root : gpu_roots) EXPECT_THAT(nic_roots, Not(Contains(root)));
    }
    // Either can be made anew without the other's loss.
    Create(ModelPath(machine.nics));
    EXPECT_TRUE(fs::exists(At("proc/driver/nvidia/version")));
  }
}
#endif

}  // namespace
}  // namespace rdma
