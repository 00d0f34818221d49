#include "char_devices.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "dra/backend/device_node.h"

namespace rdma {
namespace {

namespace fs = std::filesystem;

constexpr char kRdmaCm[] = "infiniband/rdma_cm";
constexpr char kVerbsModule[] = "ib_uverbs", kCmModule[] = "rdma_ucm", kMadModule[] = "ib_umad";

bool HasPortOf(const RdmaDevice& device, const char* link_layer) {
  return std::any_of(device.ports.begin(), device.ports.end(),
                     [&](const RdmaPort& port) { return port.link_layer == link_layer; });
}

// librdmacm's connections exist on InfiniBand, RoCE and iWARP.
bool NeedsRdmaCm(const RdmaDevice& device) {
  return HasPortOf(device, "InfiniBand") || HasPortOf(device, "Ethernet");
}

std::string Missing(const std::string& path, const char* module) {
  return path + " is missing: load the kernel module " + module + " (modprobe " + module + ")";
}
std::string NoneOf(const RdmaDevice& device, const char* what, const char* module) {
  return "RDMA device " + device.name + " has no " + what + " device: load the kernel module " +
         module + " (modprobe " + module + ")";
}

class Edits {
 public:
  explicit Edits(const std::string& dev_root) : root_(dev_root == "/" ? "" : dev_root) {}

  std::string HostPath(const std::string& node) const { return root_ + "/dev/" + node; }
  void Add(const std::string& node, const char* module) {
    const std::string path = HostPath(node);
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status))
      throw dra::BackendError(DRA_FAILED_PRECONDITION, Missing(path, module));
    if (!fs::is_character_file(status)) {
      throw dra::BackendError(DRA_FAILED_PRECONDITION,
                              path +
                                  " is no character device: remove it and load the kernel module " +
                                  module + " anew");
    }
    dra::AddDeviceNode(edits_, path, {.container_path = "/dev/" + node, .permissions = "rw"});
  }
  dra::Json Take() { return std::move(edits_); }

 private:
  const std::string root_;
  dra::Json edits_ = dra::Json::object();
};

}  // namespace

std::optional<std::string> WhyUnusable(const RdmaDevice& device, const std::string& dev) {
  if (device.chars.uverbs.empty()) return NoneOf(device, "verbs", kVerbsModule);
  const std::pair<std::string, const char*> needed[] = {{device.chars.uverbs, kVerbsModule},
                                                        {kRdmaCm, kCmModule}};
  for (const auto& [node, module] : needed) {
    if (node == kRdmaCm && !NeedsRdmaCm(device)) continue;
    std::error_code error;
    if (!fs::exists(dev + "/" + node, error)) return Missing(dev + "/" + node, module);
  }
  return std::nullopt;
}

dra::Json CharDeviceEdits(const RdmaDevice& device, const std::string& dev_root,
                          const NetworkConfig::RdmaWish& wish) {
  if (wish.issm && !HasPortOf(device, "InfiniBand")) {
    throw dra::BackendError(
        DRA_INVALID_ARGUMENT,
        "rdma.issm: RDMA device " + device.name +
            " has no InfiniBand port, and only there a subnet manager is needed: leave issm out");
  }
  if (device.chars.uverbs.empty()) {
    throw dra::BackendError(DRA_FAILED_PRECONDITION, NoneOf(device, "verbs", kVerbsModule));
  }
  Edits edits(dev_root);
  edits.Add(device.chars.uverbs, kVerbsModule);
  std::error_code error;
  if (NeedsRdmaCm(device) || fs::exists(edits.HostPath(kRdmaCm), error))
    edits.Add(kRdmaCm, kCmModule);
  const auto add_all = [&](bool wanted, const std::vector<std::string>& nodes, const char* what) {
    if (!wanted) return;
    if (nodes.empty())
      throw dra::BackendError(DRA_FAILED_PRECONDITION, NoneOf(device, what, kMadModule));
    for (const std::string& node : nodes) edits.Add(node, kMadModule);
  };
  add_all(wish.umad, device.chars.umad, "umad");
  add_all(wish.issm, device.chars.issm, "issm");
  return edits.Take();
}

}  // namespace rdma
