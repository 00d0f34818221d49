#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dra/backend/backend.h"
#include "dra/backend/sysfs.h"
#include "hardware.h"
#include "nvml_library.h"

namespace nvidia {

// Looks at every GPU once. A GPU that fails is a problem of its own; only the count and the versions fail the whole
// (NvmlError), as does an answer that says that the library is lost. A GPU without a usable UUID, a vGPU guest's
// share, and GPUs that have one UUID are problems. `check` is called between GPUs and throws when the call is over.
NodeHardware LookAtNode(const NvmlLibrary& nvml, const std::function<void()>& check);

// A GPU or MIG instance as it is now, for a prepare: minors and instance ids slide, so they are asked each time.
struct PresentDevice {
  std::string uuid;        // of the GPU
  unsigned minor = 0;      // of the GPU
  std::string pci_bus_id;  // "" where unknown
  bool mig_enabled = false;
  std::optional<MigInstance> mig;
};
// identity: of GpuIdentity or MigIdentity. Throws DRA_UNAVAILABLE if no such GPU or instance is there now, naming it;
// DRA_FAILED_PRECONDITION if it is there in the other shape (MIG switched on or off since); NvmlError if NVML fails.
PresentDevice FindDevice(const NvmlLibrary& nvml, const std::string& identity);
// False if FindDevice would throw because it is not there, or in the other shape; NvmlError if that cannot be told.
bool IsPresent(const NvmlLibrary& nvml, const std::string& identity);

std::string GpuIdentity(const std::string& uuid);  // the uuid
// "<uuid>/mig/<profile id>/<start>": stays when the instance is made again in the same place.
std::string MigIdentity(const std::string& gpu_uuid, const MigInstance& mig);
std::string GpuDeviceName(const std::string& uuid);  // "gpu-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"
// "gpu-4cf8db2d-...-mig-1g10gb-me-0": at most 63 characters
std::string MigDeviceName(const std::string& gpu_uuid, const MigInstance& mig);

// The devices of the node, with the attributes and capacities of the public driver: a GPU in MIG mode is its
// instances (none, if there are none), every other one whole. A card's UUID is the exclusion key of all its shapes
// ("gpu", "mig"). A version that is none, and a text that is empty, cost that attribute alone. Pure but for sysfs.
std::vector<dra::DeviceReport> DevicesOf(const NodeHardware& node, const dra::Sysfs& sysfs);

// Describes them in the manifest.
std::vector<dra::BackendManifest::Attribute> DeviceAttributes();

// "580.105.08" -> "580.105.8", "9.0" -> "9.0.0", "1.2.3.4" -> "1.2.3+4"; nullopt if it is no version at all.
std::optional<std::string> ToSemver(const std::string& version);

}  // namespace nvidia
