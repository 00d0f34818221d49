#include "kit.h"

#include <stdexcept>
#include <string>

// The build names the files: SIMULATOR_KIT is the directory that it puts them in.
#define SIMULATOR_EMBED(symbol, file)                                   \
  asm(".pushsection .rodata\n"                                          \
      ".balign 16\n" #symbol                                            \
      ":\n"                                                             \
      ".incbin \"" SIMULATOR_KIT "/" file "\"\n" #symbol                \
      "_end:\n"                                                         \
      ".popsection\n");                                                 \
  extern "C" __attribute__((visibility("hidden"))) const char symbol[]; \
  extern "C" __attribute__((visibility("hidden"))) const char symbol##_end[]

SIMULATOR_EMBED(simulator_kit_nvml, "libnvidia-ml.so");
SIMULATOR_EMBED(simulator_kit_smi, "nvidia-smi");
SIMULATOR_EMBED(simulator_kit_stand_in, "stand-in.so");

namespace nvidia_simulator {

std::string_view NvmlLibraryBytes() {
  return {simulator_kit_nvml, static_cast<size_t>(simulator_kit_nvml_end - simulator_kit_nvml)};
}

std::string_view NvidiaSmiBytes() {
  return {simulator_kit_smi, static_cast<size_t>(simulator_kit_smi_end - simulator_kit_smi)};
}

std::string StandInBytes(const std::string& soname) {
  std::string bytes(simulator_kit_stand_in, simulator_kit_stand_in_end);
  // The stand-in was linked with this soname: a shorter one with its NUL overwrites it in place.
  const std::string placeholder(SIMULATOR_STAND_IN_SONAME);
  const size_t at = bytes.find(placeholder);
  if (at == std::string::npos || soname.size() > placeholder.size())
    throw std::logic_error("stand-in library: no room for the soname " + soname);
  bytes.replace(at, soname.size(), soname);
  bytes[at + soname.size()] = '\0';
  return bytes;
}

}  // namespace nvidia_simulator
