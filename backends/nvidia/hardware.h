#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nvidia {

// What NVML says of the node, in plain values: handles and minors slide, these are looked up anew for each use.

struct MigInstance {
  std::string uuid;                                  // "MIG-..."
  std::string profile;                               // "1g.10gb+me"
  unsigned profile_id = 0;                           // of the GPU instance
  unsigned gpu_instance = 0, compute_instance = 0;   // ids
  unsigned placement_start = 0, placement_size = 0;  // memory slices
  std::map<std::string, int64_t>
      capacity;  // multiprocessors, copyEngines, decoders, encoders, jpegEngines, ofaEngines
  int64_t memory_bytes = 0;
};

struct Gpu {
  std::string uuid;    // "GPU-...", the identity
  unsigned index = 0;  // NVML's, slides
  unsigned minor = 0;  // /dev/nvidia<minor>, slides
  std::string product_name, brand, architecture;
  std::optional<std::string> serial;
  std::string cuda_compute_capability;         // "9.0"
  std::optional<std::string> addressing_mode;  // "None", "HMM", "ATS"
  std::optional<std::string>
      pci_bus_id;  // "0000:65:00.0"; nullopt where the domain has more than 16 bits
  std::optional<uint64_t> memory_bytes;  // nullopt where the GPU has none of its own
  bool mig_capable = false, mig_enabled = false;
  std::vector<MigInstance> mig_instances;
};

// A GPU that could not be looked at. It costs only itself.
struct GpuProblem {
  std::string subject;              // "GPU-..." where known, else "GPU index 3"
  std::optional<std::string> uuid;  // where known
  int32_t code = 0;                 // nvml::Return
  std::string message;              // names the function
};

struct NodeHardware {
  std::string driver_version;       // "580.126.20", as NVML writes it
  std::string cuda_driver_version;  // "13.0"
  std::string nvml_version;
  std::vector<Gpu> gpus;  // by NVML index
  std::vector<GpuProblem> problems;
};

}  // namespace nvidia
