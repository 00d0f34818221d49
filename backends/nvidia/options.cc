#include "options.h"

#include <algorithm>
#include <string>

#include "dra/backend/json_reader.h"

namespace nvidia {
namespace {

constexpr int64_t kMaxXid = 65535;
constexpr int64_t kMaxPollSeconds = 3600;

// "/a/b/": "/a/b". Refuses what is no absolute path, and "..": a root must not be left by its own name.
std::string ReadPath(dra::JsonReader& reader, const std::string& key, const std::string& fallback) {
  const std::string path = reader.Optional<std::string>(key).value_or("");
  if (path.empty()) return fallback;
  if (path.front() != '/') reader.Refuse(key, "\"" + path + "\" is not an absolute path");
  if (path.find('\0') != std::string::npos) reader.Refuse(key, "has a NUL byte");
  std::string clean;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (part == "..") reader.Refuse(key, "\"" + path + "\" must not contain \"..\"");
    if (!part.empty() && part != ".") clean += "/" + part;
    begin = end + 1;
  }
  return clean.empty() ? "/" : clean;
}

}  // namespace

std::string PathBelow(const std::string& root, const std::string& path) {
  return root == "/" ? path : root + path;
}

std::string Options::HostPath(const std::string& path) const {
  if (host_root.empty() || host_root == "/") return path;
  if (path == "/") return host_root;
  return host_root + (path.empty() || path.front() == '/' ? "" : "/") + path;
}

Options ReadOptions(const dra::Json& config) {
  Options options;
  dra::JsonReader::Read(config, "config", [&](dra::JsonReader& reader) {
    options.host_root = ReadPath(reader, "hostRoot", "/");
    options.driver_root = ReadPath(reader, "driverRoot", "/");
    options.dev_root = ReadPath(reader, "devRoot", "");
    options.kernel_root = ReadPath(reader, "kernelRoot", options.kernel_root);
    options.kubelet_root = ReadPath(reader, "kubeletRoot", options.kubelet_root);
    options.nvml_library = ReadPath(reader, "nvmlLibrary", "");
    options.cdi_spec = ReadPath(reader, "cdiSpec", "");
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
