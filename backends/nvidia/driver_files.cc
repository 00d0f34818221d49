#include <sys/stat.h>
#include <sys/utsname.h>

#include <algorithm>
#include <set>
#include <utility>

#include "dra/backend/error.h"
#include "driver_search.h"
#include "elf_file.h"
#include "host_files.h"
#include "rooted_tree.h"

namespace nvidia {
namespace {

// Source of the names in this file: NVIDIA/nvidia-container-toolkit: pkg/nvcdi, internal/discover.
constexpr const char* kBinaryDirectories[] = {"/",         "/opt/bin", "/usr/bin",
                                              "/usr/sbin", "/bin",     "/sbin"};
constexpr const char* kBinaries[] = {"nvidia-smi",
                                     "nvidia-debugdump",
                                     "nvidia-persistenced",
                                     "nvidia-cuda-mps-control",
                                     "nvidia-cuda-mps-server",
                                     "nvidia-imex",
                                     "nvidia-imex-ctl"};
constexpr const char* kSockets[] = {"/run/nvidia-persistenced/socket",
                                    "/run/nvidia-fabricmanager/socket"};
constexpr const char* kDataDirectories[] = {"/etc", "/usr/share"};
constexpr const char* kData[] = {
    "glvnd/egl_vendor.d/10_nvidia.json",
    "vulkan/icd.d/nvidia_icd.json",
#if defined(__aarch64__)  // as some RPM packages name it
    "vulkan/icd.d/nvidia_icd.aarch64.json",
#else
    "vulkan/icd.d/nvidia_icd.x86_64.json",
#endif
    "vulkan/icd.d/nvidia_layers.json",
    "vulkan/implicit_layer.d/nvidia_layers.json",
    "X11/xorg.conf.d/10-nvidia.conf",
    "X11/xorg.conf.d/nvidia-drm-outputclass.conf",
    "nvidia/nvoptix.bin",
    "OpenCL/vendors/nvidia.icd",
};
// EGL's platforms (gbm, wayland, xcb): "15_nvidia_gbm.json", in one of the data directories.
constexpr char kEglPlatforms[] = "egl/egl_external_platform.d";
// Where X servers look for modules, in a library directory and by themselves.
constexpr const char* kXorgDirectories[] = {"/usr/lib/xorg", "/usr/lib64/xorg"};
// Names without a version under which programs are linked or look: target beside it.
constexpr const char* kPlainLinks[][2] = {
    {"libcuda.so", "libcuda.so.1"},
    {"libnvidia-opticalflow.so", "libnvidia-opticalflow.so.1"},
    {"libGLX_indirect.so.0", "libGLX_nvidia.so.0"},
};

std::string Joined(const std::string& directory, const std::string& name) {
  return (directory == "/" ? "" : directory) + "/" + name;
}

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Libraries of the driver that do not carry its version.
bool HasOtherVersion(const std::string& name) {
  if (name.rfind("libnvidia-nvvm70.so.", 0) == 0) return true;
  // "libnvidia-egl-gbm.so.1.1.2", and not its soname "libnvidia-egl-gbm.so.1".
  const size_t version = name.find(".so.");
  return name.rfind("libnvidia-egl-", 0) == 0 && version != std::string::npos &&
         name.find('.', version + 4) != std::string::npos;
}

// Collects what is there, each container path once.
class Collector {
 public:
  // firmware_path: the directory that the kernel searches first, "" if it is told none.
  Collector(const Options& options, const std::string& driver_version,
            const std::string& firmware_path, Sightings* seen)
      : options_(options),
        version_(driver_version),
        firmware_path_(firmware_path),
        root_(options.HostPath(options.driver_root), seen),
        host_(options.HostPath("/"), seen) {}

  HostFiles::DriverFiles Collect() {
    for (const char* directory : kLibraryDirectories) AddLibraries(directory);
    // Debian's own package keeps the libraries elsewhere and links to them one by one.
    for (const char* directory : kLibraryDirectories) {
      const auto nvml = root_.ResolveType(std::string(directory) + "/libnvidia-ml.so.1", S_IFREG);
      if (nvml) AddLibraries(nvml->substr(0, nvml->rfind('/')));
    }
    AddLinks();
    AddGbm();
    AddXorg();
    for (const char* name : kBinaries) {
      AddFirst(root_, options_.driver_root, kBinaryDirectories, name, S_IFREG, files_.binaries);
    }
    AddFirmware();
    for (const char* path : kSockets) {
      // The daemon runs in the driver's container or on the host.
      if (!Add(root_, options_.driver_root, path, S_IFSOCK, files_.sockets))
        Add(host_, "/", path, S_IFSOCK, files_.sockets);
    }
    for (const char* name : kData) {
      AddFirst(root_, options_.driver_root, kDataDirectories, name, S_IFREG, files_.other);
    }
    for (const char* base : kDataDirectories) {
      const std::string directory = std::string(base) + "/" + kEglPlatforms;
      for (const std::string& name : root_.List(directory)) {
        if (name.find("_nvidia_") != std::string::npos && EndsWith(name, ".json"))
          Add(root_, options_.driver_root, directory + "/" + name, S_IFREG, files_.other);
      }
    }
    return std::move(files_);
  }

 private:
  // The file under its own name in the directory that it is found in; links before and behind are the tree's own.
  bool Add(const RootedTree& tree, const std::string& tree_path, const std::string& path,
           unsigned type, std::vector<HostFiles::Mount>& mounts) {
    const size_t slash = path.rfind('/');
    const auto file = tree.ResolveType(path, type);
    const auto directory = tree.Resolve(path.substr(0, slash));
    if (!file || !directory) return false;
    const std::string in_container = (*directory == "/" ? "" : *directory) + path.substr(slash);
    if (paths_.insert(in_container).second)
      mounts.push_back({Below(tree_path, *file), in_container});
    return true;
  }

  template <size_t kSize>
  void AddFirst(const RootedTree& tree, const std::string& tree_path,
                const char* const (&directories)[kSize], const std::string& name, unsigned type,
                std::vector<HostFiles::Mount>& mounts) {
    for (const char* directory : directories) {
      if (Add(tree, tree_path, std::string(directory) + "/" + name, type, mounts)) return;
    }
  }

  void AddLibraries(const std::string& name) {
    const auto directory = root_.ResolveType(name, S_IFDIR);
    if (!directory || !directories_.insert(*directory).second) return;
    if (AddLibrariesIn(*directory)) files_.library_directories.push_back(*directory);
    // VDPAU's loader looks there by itself.
    const auto vdpau = root_.ResolveType(*directory + "/vdpau", S_IFDIR);
    if (vdpau && directories_.insert(*vdpau).second) AddLibrariesIn(*vdpau);
  }

  // Whether there was one.
  bool AddLibrariesIn(const std::string& directory) {
    const size_t before = files_.libraries.size();
    for (const std::string& name : root_.List(directory)) {
      if (name.rfind("lib", 0) != 0) continue;
      if (!EndsWith(name, ".so." + version_) && !HasOtherVersion(name)) continue;
      Add(root_, options_.driver_root, directory + "/" + name, S_IFREG, files_.libraries);
    }
    return files_.libraries.size() > before;
  }

  void AddLink(const std::string& path, const std::string& target) {
    if (paths_.insert(path).second) files_.links.push_back({path, target});
  }

  // After all libraries: where one is mounted, no link is made.
  void AddLinks() {
    for (const HostFiles::Mount& library : files_.libraries) {
      const size_t base = library.container_path.rfind('/') + 1;
      // A file of another format (a driver's data beside its libraries) is mounted and has no other name.
      const auto soname = SonameOf(options_.HostPath(library.host_path));
      if (soname)
        AddLink(library.container_path.substr(0, base) + *soname,
                library.container_path.substr(base));
    }
    for (const std::string& directory : files_.library_directories) {
      const std::string base = Joined(directory, "");
      for (const auto& [name, target] : kPlainLinks) {
        if (paths_.count(base + target) != 0) AddLink(base + name, target);
      }
    }
  }

  // GBM looks for its backend beside its own library, which is the image's: the same place as on the host.
  void AddGbm() {
    std::string allocator;
    for (const std::string& directory : files_.library_directories) {
      const std::string library = Joined(directory, "libnvidia-allocator.so.1");
      if (allocator.empty() && paths_.count(library) != 0) allocator = library;
    }
    if (allocator.empty()) return;
    for (const char* base : kLibraryDirectories) {
      const auto directory = root_.ResolveType(std::string(base) + "/gbm", S_IFDIR);
      const std::string backend = directory.value_or("") + "/nvidia-drm_gbm.so";
      if (directory && root_.ResolveType(backend, S_IFREG)) AddLink(backend, allocator);
    }
  }

  // An X server's modules. nvidia_drv.so carries no version: it is taken where the GLX module of the running version
  // is there as well.
  void AddXorg() {
    std::vector<std::string> directories;
    for (const std::string& directory : files_.library_directories) {
      directories.push_back(Joined(directory, "nvidia/xorg"));
      directories.push_back(Joined(directory, "xorg/modules/drivers"));
      directories.push_back(Joined(directory, "xorg/modules/extensions"));
    }
    for (const char* base : kXorgDirectories) {
      directories.push_back(std::string(base) + "/modules/drivers");
      directories.push_back(std::string(base) + "/modules/extensions");
    }
    const auto add = [&](const std::string& name) -> std::string {
      for (const std::string& directory : directories) {
        if (Add(root_, options_.driver_root, Joined(directory, name), S_IFREG, files_.other))
          return files_.other.back().container_path;
      }
      return "";
    };
    const std::string name = "libglxserver_nvidia.so." + version_;
    const std::string glx = add(name);
    if (glx.empty()) return;
    AddLink(glx.substr(0, glx.size() - version_.size() - 1), name);
    add("nvidia_drv.so");
  }

  // The GPU's own firmware, from the first directory of the kernel's search that has it.
  void AddFirmware() {
    utsname kernel = {};
    uname(&kernel);
    std::vector<std::string> directories;
    if (!firmware_path_.empty()) directories.push_back(firmware_path_);
    for (const char* base : {"/lib/firmware/updates", "/lib/firmware"}) {
      directories.push_back(std::string(base) + "/" + kernel.release);
      directories.push_back(base);
    }
    for (const std::string& base : directories) {
      const std::string directory = base + "/nvidia/" + version_;
      for (const std::string& name : root_.List(directory)) {
        if (name.rfind("gsp", 0) == 0 && EndsWith(name, ".bin"))
          Add(root_, options_.driver_root, directory + "/" + name, S_IFREG, files_.firmware);
      }
      if (!files_.firmware.empty()) return;
    }
  }

  const Options& options_;
  const std::string version_, firmware_path_;
  const RootedTree root_, host_;
  HostFiles::DriverFiles files_;
  std::set<std::string> paths_;        // in the container
  std::set<std::string> directories_;  // that libraries were looked for in
};

// Files in /sys tell no time of change: this one is read each time.
std::string FirmwarePath(const Options& options) {
  std::string path = RootedTree(options.HostPath(options.kernel_root))
                         .ReadText("/sys/module/firmware_class/parameters/path")
                         .value_or("");
  path.resize(std::min(path.size(), path.find_first_of(" \r\n")));
  return path.rfind('/', 0) == 0 ? path : "";
}

}  // namespace

struct HostFiles::Search {
  std::string driver_version, firmware_path;
  DriverFiles found;
  Sightings seen;
};

std::shared_ptr<const HostFiles::DriverFiles> HostFiles::FilesOf(
    const std::string& driver_version) const {
  const std::string firmware_path = FirmwarePath(options_);
  std::shared_ptr<const Search> last;
  {
    const std::lock_guard lock(mutex_);
    last = last_;
  }
  if (!last || last->driver_version != driver_version || last->firmware_path != firmware_path ||
      !last->seen.Unchanged()) {
    last = SearchFor(driver_version, firmware_path);
  }
  return {last, &last->found};
}

std::shared_ptr<const HostFiles::Search> HostFiles::SearchFor(
    const std::string& driver_version, const std::string& firmware_path) const {
  ++searches_;
  auto search = std::make_shared<Search>();
  search->driver_version = driver_version;
  search->firmware_path = firmware_path;
  // It becomes part of paths.
  if (!driver_version.empty() && driver_version.find('/') == std::string::npos) {
    search->found = Collector(options_, driver_version, firmware_path, &search->seen).Collect();
  }
  // Libraries with a version of their own may stay when a driver goes.
  const auto& libraries = search->found.libraries;
  if (std::none_of(libraries.begin(), libraries.end(), [&](const Mount& library) {
        return EndsWith(library.container_path, ".so." + driver_version);
      })) {
    const std::optional<std::string> nvml = NvmlLibrary();
    throw dra::BackendError(DRA_UNAVAILABLE,
                            "driver " + driver_version + " runs, but " + options_.driver_root +
                                " of the host has no libraries of that version (lib*.so." +
                                driver_version + "; " +
                                (nvml ? "NVML is " + *nvml : "no libnvidia-ml.so.1 either") +
                                "): finish the driver's upgrade, or set driverRoot");
  }
  if (search->seen.Settled(quiet_)) {
    const std::lock_guard lock(mutex_);
    last_ = search;
  }
  return search;
}

}  // namespace nvidia
