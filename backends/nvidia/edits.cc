#include "edits.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

namespace nvidia {

using dra::BackendError;
using dra::Json;

namespace {

// The driver's own minors. Source: NVIDIA/nvidia-modprobe: nvidia-modprobe-utils.h.
constexpr unsigned kControlMinor = 255, kModesetMinor = 254;
constexpr unsigned kUvmMinor = 0, kUvmToolsMinor = 1;
constexpr unsigned kNodeMode = 0666;
constexpr unsigned kCapabilityMode = 0444;  // as the driver makes them
constexpr int kHookTimeoutSeconds = 120;    // ldconfig on a large image and a slow disk

Json NumberedNode(const std::string& path, unsigned major, unsigned minor, unsigned mode) {
  return {{"path", path},   {"type", "c"},      {"major", major},
          {"minor", minor}, {"fileMode", mode}, {"permissions", "rw"}};
}

// A character device's own node. nullopt: it is not there, and nobody knows its numbers (major nullopt).
std::optional<Json> Node(const HostFiles& files, const std::string& path,
                         std::optional<unsigned> major, unsigned minor) {
  const std::string on_host = files.DevRoot() + path;
  const std::string here = files.Open(on_host);
  struct stat status;
  int error = lstat(here.c_str(), &status) == 0 ? 0 : errno;
  if (error == ENOENT && major) {
    // Another prepare may be quicker. Open to nobody until its mode is set below, apart from the process's mask.
    (void)mknod(here.c_str(), S_IFCHR, makedev(*major, minor));
    error = lstat(here.c_str(), &status) == 0 ? 0 : errno;
  }
  const bool missing = error == ENOENT || error == ENOTDIR;
  if (error != 0 && !missing) {
    throw BackendError(DRA_UNAVAILABLE,
                       "cannot look at device node " + here + ": " + std::strerror(error));
  }
  const bool is_node = error == 0 && S_ISCHR(status.st_mode);
  const bool is_right = is_node && (!major || status.st_rdev == makedev(*major, minor));
  // One that is open to nobody was made just now, or by a process that died before it was done.
  const bool is_half_made = is_right && major && (status.st_mode & 07777) == 0;
  if (is_right && (!is_half_made || chmod(here.c_str(), kNodeMode) == 0)) {
    Json node = {{"path", path}, {"permissions", "rw"}};
    if (on_host != path) node["hostPath"] = on_host;
    return node;  // the runtime reads the numbers when the container starts
  }
  if (major) return NumberedNode(path, *major, minor, kNodeMode);
  if (missing) return std::nullopt;
  throw BackendError(DRA_UNAVAILABLE, "device node " + here + " is no character device");
}

Json RequiredNode(const HostFiles& files, const std::string& path, unsigned minor) {
  return *Node(files, path, files.Major("nvidia"), minor);  // whose major is always known
}

Json CapabilityNode(const HostFiles& files, const PresentDevice& device,
                    std::optional<unsigned> compute_instance) {
  const std::string what =
      "GPU instance " + std::to_string(device.mig->gpu_instance) +
      (compute_instance ? ", compute instance " + std::to_string(*compute_instance) : "") +
      " of GPU " + device.uuid + " (minor " + std::to_string(device.minor) + ")";
  const auto minor =
      files.CapabilityMinor(device.minor, device.mig->gpu_instance, compute_instance);
  const auto major = files.Major("nvidia-caps");
  if (!major || !minor) {
    throw BackendError(DRA_UNAVAILABLE,
                       what + " has no capability " +
                           (major ? "in /proc/driver/nvidia/capabilities or "
                                    "/proc/driver/nvidia-caps/mig-minors"
                                  : "device: /proc/devices has no nvidia-caps") +
                           " of the host: is the MIG instance still there, and hostRoot right?");
  }
  // The host needs no node for it.
  return NumberedNode("/dev/nvidia-caps/nvidia-cap" + std::to_string(*minor), *major, *minor,
                      kCapabilityMode);
}

void AddMounts(Json& mounts, const std::vector<HostFiles::Mount>& more, const Json& options) {
  for (const HostFiles::Mount& mount : more) {
    mounts.push_back({{"hostPath", mount.host_path},
                      {"containerPath", mount.container_path},
                      {"options", options}});
  }
}

// more: arguments before the links.
Json Hook(const std::string& path, const Json& more, const std::vector<HostFiles::Link>& links) {
  Json args = Json::array({"dra-nvidia-hook"});
  args.insert(args.end(), more.begin(), more.end());
  for (const HostFiles::Link& link : links) {
    args.push_back("--link");
    args.push_back(link.path);
    args.push_back(link.target);
  }
  return {{"hookName", "createContainer"},
          {"path", path},
          {"args", std::move(args)},
          {"timeout", kHookTimeoutSeconds}};
}

// Of what the loader needs in the container.
Json LoaderArguments(const HostFiles& files, const HostFiles::DriverFiles& driver) {
  Json args = Json::array();
  if (const auto ldconfig = files.Ldconfig()) {
    args.push_back("--ldconfig");
    args.push_back(*ldconfig);
  }
  for (const std::string& directory : driver.library_directories) {
    args.push_back("--library-directory");
    args.push_back(directory);
  }
  return args;
}

}  // namespace

Json DeviceEdits(const HostFiles& files, const PresentDevice& device,
                 const std::string& hook_path) {
  Json nodes = Json::array();
  nodes.push_back(RequiredNode(files, "/dev/nvidia" + std::to_string(device.minor), device.minor));
  if (device.mig) {
    nodes.push_back(CapabilityNode(files, device, std::nullopt));
    nodes.push_back(CapabilityNode(files, device, device.mig->compute_instance));
    return {{"deviceNodes", std::move(nodes)}};
  }
  const std::vector<std::string> drm = files.DrmNodes(device.pci_bus_id);
  for (const std::string& name : drm) {
    if (auto node = Node(files, "/dev/dri/" + name, std::nullopt, 0))
      nodes.push_back(*std::move(node));
  }
  Json edits = {{"deviceNodes", std::move(nodes)}};
  const auto links = files.DrmLinks(device.pci_bus_id, drm);
  if (!links.empty()) edits["hooks"] = Json::array({Hook(hook_path, Json::array(), links)});
  return edits;
}

Json ClaimEdits(const HostFiles& files, const std::string& driver_version,
                const std::string& hook_path) {
  const auto found = files.FilesOf(driver_version);
  const HostFiles::DriverFiles& driver = *found;
  Json nodes = Json::array({RequiredNode(files, "/dev/nvidiactl", kControlMinor)});
  const auto add = [&](const std::string& path, std::optional<unsigned> major, unsigned minor) {
    if (auto node = Node(files, path, major, minor)) nodes.push_back(*std::move(node));
  };
  const auto uvm = files.Major("nvidia-uvm");
  if (!uvm) {
    // CUDA would fail in the container with a text that says nothing of it.
    throw BackendError(DRA_UNAVAILABLE,
                       "the kernel module nvidia-uvm is not loaded (/proc/devices has no "
                       "nvidia-uvm), and CUDA does not start without it: load it on the node, for "
                       "example with `nvidia-modprobe -u -c 0`");
  }
  add("/dev/nvidia-uvm", uvm, kUvmMinor);
  add("/dev/nvidia-uvm-tools", uvm, kUvmToolsMinor);
  // Loaded only where something draws.
  add("/dev/nvidia-modeset",
      files.HasDriver("nvidia-modeset") ? files.Major("nvidia") : std::nullopt, kModesetMinor);

  const Json read_only = Json::array({"ro", "nosuid", "nodev", "rbind", "rprivate"});
  const Json sockets = Json::array({"rw", "nosuid", "nodev", "noexec", "rbind", "rprivate"});
  Json mounts = Json::array();
  AddMounts(mounts, driver.libraries, read_only);
  AddMounts(mounts, driver.binaries, read_only);
  AddMounts(mounts, driver.firmware, read_only);
  AddMounts(mounts, driver.other, read_only);
  AddMounts(mounts, driver.sockets, sockets);

  // Keeps the toolkit's own runtime hook, where there is one, from adding GPUs of its choice.
  return {{"env", Json::array({"NVIDIA_VISIBLE_DEVICES=void"})},
          {"deviceNodes", std::move(nodes)},
          {"mounts", std::move(mounts)},
          {"hooks", Json::array({Hook(hook_path, LoaderArguments(files, driver), driver.links)})}};
}

}  // namespace nvidia
