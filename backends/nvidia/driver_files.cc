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
    "egl/egl_external_platform.d/15_nvidia_gbm.json",
    "egl/egl_external_platform.d/10_nvidia_wayland.json",
    "vulkan/icd.d/nvidia_icd.json",
    "vulkan/implicit_layer.d/nvidia_layers.json",
    "nvidia/nvoptix.bin",
    "OpenCL/vendors/nvidia.icd",
};
// Names without a version under which programs are linked or look: target beside it.
constexpr const char* kPlainLinks[][2] = {
    {"libcuda.so", "libcuda.so.1"},
    {"libnvidia-opticalflow.so", "libnvidia-opticalflow.so.1"},
    {"libGLX_indirect.so.0", "libGLX_nvidia.so.0"},
};

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Collects what is there, each container path once.
class Collector {
 public:
  Collector(const Options& options, const std::string& driver_version)
      : options_(options),
        version_(driver_version),
        root_(options.HostPath(options.driver_root)),
        host_(options.HostPath("/")) {}

  HostFiles::DriverFiles Collect() {
    for (const char* directory : kLibraryDirectories) AddLibraries(directory);
    // Debian's own package keeps the libraries elsewhere and links to them one by one.
    for (const char* directory : kLibraryDirectories) {
      const auto nvml = root_.ResolveType(std::string(directory) + "/libnvidia-ml.so.1", S_IFREG);
      if (nvml) AddLibraries(nvml->substr(0, nvml->rfind('/')));
    }
    AddLinks();
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
      if (!EndsWith(name, ".so." + version_) && name.rfind("libnvidia-nvvm70.so.", 0) != 0)
        continue;
      Add(root_, options_.driver_root, directory + "/" + name, S_IFREG, files_.libraries);
    }
    return files_.libraries.size() > before;
  }

  // After all libraries: where one is mounted, no link is made.
  void AddLinks() {
    const auto add = [&](const std::string& path, const std::string& target) {
      if (paths_.insert(path).second) files_.links.push_back({path, target});
    };
    for (const HostFiles::Mount& library : files_.libraries) {
      const size_t base = library.container_path.rfind('/') + 1;
      // A file of another format (a driver's data beside its libraries) is mounted and has no other name.
      const auto soname = SonameOf(options_.HostPath(library.host_path));
      if (soname)
        add(library.container_path.substr(0, base) + *soname, library.container_path.substr(base));
    }
    for (const std::string& directory : files_.library_directories) {
      const std::string base = directory == "/" ? "/" : directory + "/";
      for (const auto& [name, target] : kPlainLinks) {
        if (paths_.count(base + target) != 0) add(base + name, target);
      }
    }
  }

  // The GPU's own firmware, from the first directory of the kernel's search that has it.
  void AddFirmware() {
    utsname kernel = {};
    uname(&kernel);
    std::vector<std::string> directories;
    const auto configured = RootedTree(options_.HostPath(options_.kernel_root))
                                .ReadText("/sys/module/firmware_class/parameters/path");
    if (configured) {
      const std::string path = configured->substr(0, configured->find_first_of(" \r\n"));
      if (!path.empty() && path.front() == '/') directories.push_back(path);
    }
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
  const std::string version_;
  const RootedTree root_, host_;
  HostFiles::DriverFiles files_;
  std::set<std::string> paths_;        // in the container
  std::set<std::string> directories_;  // that libraries were looked for in
};

}  // namespace

HostFiles::DriverFiles HostFiles::FilesOf(const std::string& driver_version) const {
  DriverFiles files;
  // It becomes part of paths.
  if (!driver_version.empty() && driver_version.find('/') == std::string::npos)
    files = Collector(options_, driver_version).Collect();
  // libnvidia-nvvm70 stays when a driver goes.
  for (const Mount& library : files.libraries) {
    if (EndsWith(library.container_path, ".so." + driver_version)) return files;
  }
  const std::optional<std::string> nvml = NvmlLibrary();
  throw dra::BackendError(DRA_UNAVAILABLE,
                          "driver " + driver_version + " runs, but " + options_.driver_root +
                              " of the host has no libraries of that version (lib*.so." +
                              driver_version + "; " +
                              (nvml ? "NVML is " + *nvml : "no libnvidia-ml.so.1 either") +
                              "): finish the driver's upgrade, or set driverRoot");
}

}  // namespace nvidia
