#include "options.h"

#include <string>

#include "dra/backend/host_path.h"
#include "dra/backend/json_reader.h"

namespace nvidia {
namespace {

constexpr int64_t kMaxXid = 65535;
constexpr int64_t kMaxPollSeconds = 3600;

}  // namespace

std::string Options::HostPath(const std::string& path) const {
  if (host_root.empty() || host_root == "/") return path;
  if (path == "/") return host_root;
  return host_root + (path.empty() || path.front() == '/' ? "" : "/") + path;
}

Options ReadOptions(const dra::Json& config) {
  Options options;
  dra::JsonReader::Read(config, "config", [&](dra::JsonReader& reader) {
    options.host_root = dra::ReadHostPath(reader, "hostRoot", "/");
    options.driver_root = dra::ReadHostPath(reader, "driverRoot", "/");
    options.dev_root = dra::ReadHostPath(reader, "devRoot", "");
    options.kernel_root = dra::ReadHostPath(reader, "kernelRoot", options.kernel_root);
    options.kubelet_root = dra::ReadHostPath(reader, "kubeletRoot", options.kubelet_root);
    options.nvml_library = dra::ReadHostPath(reader, "nvmlLibrary", "");
    options.cdi_spec = dra::ReadHostPath(reader, "cdiSpec", "");
    for (const int64_t xid : reader.List<int64_t>("ignoredXids")) {
      if (xid < 1 || xid > kMaxXid) {
        reader.Refuse("ignoredXids",
                      std::to_string(xid) + " is not in 1.." + std::to_string(kMaxXid));
      }
      options.ignored_xids.insert(xid);
    }
    options.allow_device_plugin = reader.Optional<bool>("allowDevicePlugin").value_or(false);
    options.poll_seconds =
        reader.Optional("pollSeconds", 1, kMaxPollSeconds).value_or(options.poll_seconds);
  });
  return options;
}

}  // namespace nvidia
