#pragma once

#include <string>
#include <string_view>

namespace nvidia_simulator {

// The programs and libraries of the simulated driver, which this program carries in itself.
std::string_view NvmlLibraryBytes();  // libnvidia-ml.so.1
std::string_view NvidiaSmiBytes();    // nvidia-smi
// A shared object that does nothing, with the given soname (at most 80 characters).
std::string StandInBytes(const std::string& soname);

}  // namespace nvidia_simulator
