#include <stdexcept>
#include <string>

#include "entries.h"
#include "files.h"
#include "kit.h"

namespace nvidia_simulator {
namespace {

// Names and sonames of a data center driver's user libraries: nvidia-container-toolkit's documentation of what it
// mounts, and NVIDIA's driver README, "Installed components". "" as soname: the version itself ends it.
struct Library {
  const char* name;    // "<name>.so.<version>"
  const char* soname;  // the part behind "<name>.so."
};
constexpr Library kLibraries[] = {
    {"libcuda", "1"},
    {"libcudadebugger", "1"},
    {"libnvidia-allocator", "1"},
    {"libnvidia-cfg", "1"},
    {"libnvidia-encode", "1"},
    {"libnvidia-glcore", ""},
    {"libnvidia-gpucomp", ""},
    {"libnvidia-nvvm", "4"},
    {"libnvidia-opencl", "1"},
    {"libnvidia-opticalflow", "1"},
    {"libnvidia-ptxjitcompiler", "1"},
    {"libnvcuvid", "1"},
    {"libnvoptix", "1"},
    {"libEGL_nvidia", "0"},
    {"libGLX_nvidia", "0"},
    {"vdpau/libvdpau_nvidia", "1"},
};
constexpr const char* kPrograms[] = {"nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
                                     "nvidia-debugdump", "nvidia-persistenced"};
constexpr const char* kFirmware[] = {"gsp_ga10x.bin", "gsp_tu10x.bin"};

std::string NvmlBytes(const Layout& layout) {
  if (layout.nvml_library.empty()) return std::string(NvmlLibraryBytes());
  const std::optional<std::string> bytes = ReadFile(layout.nvml_library);
  if (!bytes) throw std::runtime_error("there is no library " + layout.nvml_library);
  return *bytes;
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Entry TextFile(const std::string& text, mode_t mode) {
  Entry entry;
  entry.text = text;
  entry.mode = mode;
  return entry;
}

Entry Link(const std::string& target) {
  Entry entry;
  entry.kind = Entry::Kind::kLink;
  entry.text = target;
  return entry;
}

void AddDriverFiles(const Layout& layout, const State& state, Entries& entries) {
  if (!layout.installed) return;
  const std::string& version = state.driver.version;
  const auto at = [&](const std::string& path) -> Entry& { return entries[layout.Driver(path)]; };
  const std::string libraries = layout.library_directory + "/";
  at(libraries + "libnvidia-ml.so." + version) = TextFile(NvmlBytes(layout), 0755);
  at(libraries + "libnvidia-ml.so.1") = Link("libnvidia-ml.so." + version);
  for (const Library& library : kLibraries) {
    const std::string file = std::string(library.name) + ".so." + version;
    const bool own_soname = *library.soname != '\0';
    const std::string soname =
        own_soname ? std::string(library.name) + ".so." + library.soname : file;
    at(libraries + file) = TextFile(StandInBytes(BaseName(soname)), 0755);
    if (own_soname) at(libraries + soname) = Link(BaseName(file));
  }
  at(libraries + "libcuda.so") = Link("libcuda.so.1");
  // The one library whose file has no version in its name.
  at(libraries + "libnvidia-nvvm70.so.4") = TextFile(StandInBytes("libnvidia-nvvm70.so.4"), 0755);

  at("usr/bin/nvidia-smi") = TextFile(std::string(NvidiaSmiBytes()), 0755);
  for (const char* program : kPrograms) {
    at(std::string("usr/bin/") + program) =
        TextFile("#!/bin/sh\necho \"" + std::string(program) +
                     ": stand-in of dra-nvidia-simulator, does nothing\" >&2\nexit 1\n",
                 0755);
  }
  for (const char* firmware : kFirmware)
    at("lib/firmware/nvidia/" + version + "/" + firmware) = TextFile("stand-in for firmware\n");
  Entry& socket = at("run/nvidia-persistenced/socket");
  socket.kind = Entry::Kind::kSocket;
  socket.mode = 0666;

  at("etc/OpenCL/vendors/nvidia.icd") = TextFile("libnvidia-opencl.so.1\n");
  at("usr/share/glvnd/egl_vendor.d/10_nvidia.json") = TextFile(
      "{\"file_format_version\": \"1.0.0\", \"ICD\": {\"library_path\": "
      "\"libEGL_nvidia.so.0\"}}\n");
  at("usr/share/vulkan/icd.d/nvidia_icd.json") = TextFile(
      "{\"file_format_version\": \"1.0.0\", \"ICD\": {\"library_path\": "
      "\"libGLX_nvidia.so.0\", \"api_version\": \"1.3\"}}\n");
  at("usr/share/nvidia/nvoptix.bin") = TextFile("stand-in for nvoptix.bin\n");
}

}  // namespace nvidia_simulator
