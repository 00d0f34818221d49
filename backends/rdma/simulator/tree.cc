#include "tree.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <system_error>

namespace rdma_simulator {
namespace {

namespace fs = std::filesystem;

// Numbers of the nodes. Source: linux drivers/infiniband/core/{uverbs_main.c,user_mad.c}; rdma_cm's is any of misc's.
constexpr unsigned kRdmaMajor = 231, kUverbsMinor = 192, kIssmMinor = 64;
constexpr unsigned kMiscMajor = 10, kRdmaCmMinor = 58;

class Writer {
 public:
  explicit Writer(const std::string& root) : sys_(root + "/sys"), dev_(root + "/dev") {
    for (const fs::path& path : {sys_, dev_}) {
      std::error_code error;
      fs::remove_all(path, error);
      if (error) throw std::runtime_error("remove " + path.string() + ": " + error.message());
      Directory(path);
    }
    for (const char* path : {"class/net", "bus/pci/devices", "bus/pci/drivers", "devices"})
      Directory(sys_ / path);
  }

  const fs::path& sys() const { return sys_; }
  bool real_nodes() const { return real_nodes_; }

  void Directory(const fs::path& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) throw std::runtime_error("make " + path.string() + ": " + error.message());
  }
  void File(const fs::path& path, const std::string& text) {
    Directory(path.parent_path());
    std::ofstream file(path, std::ios::binary);
    file << text << "\n";
    file.close();
    if (!file) throw std::runtime_error("cannot write " + path.string());
  }
  void OptionalFile(const fs::path& path, const std::string& text) {
    if (!text.empty()) File(path, text);
  }
  // As sysfs has them: relative.
  void Link(const fs::path& path, const fs::path& target) {
    Directory(path.parent_path());
    std::error_code error;
    fs::create_symlink(target.lexically_relative(path.parent_path()), path, error);
    if (error) throw std::runtime_error("link " + path.string() + ": " + error.message());
  }
  void CharacterNode(const std::string& name, unsigned major, unsigned minor) {
    const fs::path path = dev_ / name;
    Directory(path.parent_path());
    if (mknod(path.c_str(), S_IFCHR | 0666, makedev(major, minor)) == 0) return;
    real_nodes_ = false;
    File(path, "");
  }

  // below: directory of the device, or of /sys/devices/virtual; device: its target of "device", "" = none.
  void AddInterface(const Interface& interface, const fs::path& below, const fs::path& device) {
    const fs::path path = below / "net" / interface.name;
    File(path / "ifindex", std::to_string(interface.index));
    File(path / "type", std::to_string(interface.type));
    File(path / "address", interface.address);
    File(path / "mtu", std::to_string(interface.mtu));
    File(path / "operstate", interface.state);
    File(path / "speed", std::to_string(interface.speed_mbps.value_or(-1)));
    File(path / "dev_port", std::to_string(interface.dev_port));
    char dev_id[20];
    std::snprintf(dev_id, sizeof(dev_id), "0x%llx",
                  static_cast<unsigned long long>(interface.dev_id));
    File(path / "dev_id", dev_id);
    File(path / "ifalias", interface.alias);
    OptionalFile(path / "phys_port_name", interface.physical_port_name);
    OptionalFile(path / "phys_switch_id", interface.physical_switch_id);
    if (!device.empty()) Link(path / "device", device);
    Link(sys_ / "class/net" / interface.name, path);
    interfaces_[interface.name] = path;
  }
  // "master", "lower_..." and a bond's list of members, once all interfaces are there.
  void Relate(const Interface& interface) {
    const auto find = [&](const std::string& name) {
      const auto found = interfaces_.find(name);
      if (found == interfaces_.end()) {
        throw std::runtime_error("interface " + interface.name + ": there is no interface " + name);
      }
      return found->second;
    };
    const fs::path path = find(interface.name);
    if (!interface.master.empty()) {
      Link(path / "master", find(interface.master));
      Link(find(interface.master) / ("lower_" + interface.name), path);
      std::string& members = members_[interface.master];
      members += (members.empty() ? "" : " ") + interface.name;
      File(find(interface.master) / "bonding/slaves", members);
    }
    if (!interface.parent.empty())
      Link(path / ("lower_" + interface.parent), find(interface.parent));
  }

  void AddRdma(const RdmaDevice& rdma, const fs::path& below, const fs::path& device, bool nodes) {
    const fs::path path = below / "infiniband" / rdma.name;
    File(path / "node_type", rdma.node_type);
    File(path / "node_guid", rdma.node_guid);
    File(path / "sys_image_guid", rdma.system_image_guid);
    OptionalFile(path / "fw_ver", rdma.firmware);
    OptionalFile(path / "board_id", rdma.board_id);
    OptionalFile(path / "hca_type", rdma.hca_type);
    for (size_t i = 0; i < rdma.ports.size(); ++i)
      AddPort(rdma.ports[i], path / "ports" / std::to_string(i + 1));
    if (!device.empty()) Link(path / "device", device);
    Link(sys_ / "class/infiniband" / rdma.name, path);
    if (rdma.uverbs) {
      CharacterClass("infiniband_verbs", "uverbs", *rdma.uverbs, rdma.name, "", kUverbsMinor, below,
                     device, nodes);
    }
    for (size_t i = 0; i < rdma.umad.size(); ++i) {
      CharacterClass("infiniband_mad", "umad", rdma.umad[i], rdma.name, std::to_string(i + 1), 0,
                     below, device, nodes);
    }
    for (size_t i = 0; i < rdma.issm.size(); ++i) {
      CharacterClass("infiniband_mad", "issm", rdma.issm[i], rdma.name, std::to_string(i + 1),
                     kIssmMinor, below, device, nodes);
    }
  }
  void AddRdmaCm() { CharacterNode("infiniband/rdma_cm", kMiscMajor, kRdmaCmMinor); }

 private:
  void AddPort(const Port& port, const fs::path& path) {
    File(path / "link_layer", port.link_layer);
    File(path / "state", port.state);
    File(path / "phys_state", port.physical_state);
    File(path / "rate", port.rate);
    Directory(path / "gids");
    for (size_t i = 0; i < port.gids.size(); ++i) {
      const std::string number = std::to_string(i);
      File(path / "gids" / number, port.gids[i].gid);
      // Without an interface the kernel's files are there and cannot be read.
      OptionalFile(path / "gid_attrs/ndevs" / number, port.gids[i].netdev);
      OptionalFile(path / "gid_attrs/types" / number, port.gids[i].type);
    }
  }
  void CharacterClass(const std::string& class_name, const std::string& prefix, int number,
                      const std::string& ibdev, const std::string& port, unsigned first_minor,
                      const fs::path& below, const fs::path& device, bool nodes) {
    const std::string name = prefix + std::to_string(number);
    const fs::path path = below / class_name / name;
    const unsigned minor = first_minor + static_cast<unsigned>(number);
    File(path / "ibdev", ibdev);
    OptionalFile(path / "port", port);
    File(path / "dev", std::to_string(kRdmaMajor) + ":" + std::to_string(minor));
    if (!device.empty()) Link(path / "device", device);
    Link(sys_ / "class" / class_name / name, path);
    if (nodes) CharacterNode("infiniband/" + name, kRdmaMajor, minor);
  }

  const fs::path sys_, dev_;
  bool real_nodes_ = true;
  std::map<std::string, fs::path> interfaces_;
  std::map<std::string, std::string> members_;
};

fs::path DirectoryOf(const Writer& writer, const Function& function) {
  fs::path path = writer.sys() / "devices" / function.root;
  for (const std::string& bridge : function.bridges) path /= bridge;
  return path / function.address;
}

void WriteFunction(Writer& writer, const Function& function, bool nodes) {
  const fs::path path = DirectoryOf(writer, function);
  const std::pair<const char*, std::string> files[] = {
      {"vendor", function.vendor},
      {"device", function.device},
      {"subsystem_vendor", function.subsystem_vendor},
      {"subsystem_device", function.subsystem_device},
      {"class", function.pci_class},
      {"numa_node", std::to_string(function.numa_node)}};
  for (const auto& [name, text] : files) writer.File(path / name, text);
  writer.Link(writer.sys() / "bus/pci/devices" / function.address, path);
  if (!function.driver.empty()) {
    const fs::path driver = writer.sys() / "bus/pci/drivers" / function.driver;
    writer.Link(driver / function.address, path);
    writer.Link(path / "driver", driver);
  }
  for (const Interface& interface : function.interfaces) writer.AddInterface(interface, path, path);
  for (const RdmaDevice& rdma : function.rdma) writer.AddRdma(rdma, path, path, nodes);
  for (const ChildDevice& child : function.children) {
    const fs::path below = path / child.name;
    writer.Directory(below);
    writer.Link(writer.sys() / "bus" / child.bus / "devices" / child.name, below);
    for (const Interface& interface : child.interfaces)
      writer.AddInterface(interface, below, below);
    for (const RdmaDevice& rdma : child.rdma) writer.AddRdma(rdma, below, below, nodes);
  }
}

// Links between physical and virtual functions, once both are there.
void WriteSriov(Writer& writer, const Node& node) {
  std::map<std::string, const Function*> functions;
  for (const Function& function : node.functions) functions[function.address] = &function;
  std::map<std::string, int> virtual_functions;
  for (const Function& function : node.functions) {
    if (function.physical_function.empty()) continue;
    const auto physical = functions.find(function.physical_function);
    if (physical == functions.end()) {
      throw std::runtime_error("function " + function.address + ": there is no physical function " +
                               function.physical_function);
    }
    const fs::path virtual_path = DirectoryOf(writer, function);
    const fs::path physical_path = DirectoryOf(writer, *physical->second);
    const int number = virtual_functions[function.physical_function]++;
    writer.Link(virtual_path / "physfn", physical_path);
    writer.Link(physical_path / ("virtfn" + std::to_string(number)), virtual_path);
  }
  for (const Function& function : node.functions) {
    if (!function.total_vfs) continue;
    const fs::path path = DirectoryOf(writer, function);
    writer.File(path / "sriov_totalvfs", std::to_string(*function.total_vfs));
    writer.File(path / "sriov_numvfs", std::to_string(virtual_functions[function.address]));
  }
}

}  // namespace

bool WriteTree(const Node& node, const std::string& root) {
  Writer writer(root);
  for (const Function& function : node.functions)
    WriteFunction(writer, function, node.device_nodes);
  WriteSriov(writer, node);
  const fs::path virtual_devices = writer.sys() / "devices/virtual";
  for (const Interface& interface : node.virtual_interfaces)
    writer.AddInterface(interface, virtual_devices, "");
  for (const RdmaDevice& rdma : node.software_rdma)
    writer.AddRdma(rdma, virtual_devices, "", node.device_nodes);
  for (const Function& function : node.functions) {
    for (const Interface& interface : function.interfaces) writer.Relate(interface);
    for (const ChildDevice& child : function.children) {
      for (const Interface& interface : child.interfaces) writer.Relate(interface);
    }
  }
  for (const Interface& interface : node.virtual_interfaces) writer.Relate(interface);
  if (node.rdma_cm) writer.AddRdmaCm();
  if (!node.pci_ids.empty()) writer.File(root + "/usr/share/misc/pci.ids", node.pci_ids);
  return writer.real_nodes();
}

}  // namespace rdma_simulator
