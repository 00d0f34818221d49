#pragma once

#include "nvml.h"

#define NVIDIA_SIMULATOR_EXPORT extern "C" __attribute__((visibility("default")))

// The declarations of everything that the backend calls, so that a definition with other parameters does not compile.
#define DRA_NVML_DECLARE(symbol, parameters) NVIDIA_SIMULATOR_EXPORT nvml::Return symbol parameters;
DRA_NVML_FUNCTIONS(DRA_NVML_DECLARE)
#undef DRA_NVML_DECLARE

// Beyond those, what nvidia-ml-py and go-nvml look up for the same things: older versions of a function, and newer
// ones.
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlInit();
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlInit_v2();
NVIDIA_SIMULATOR_EXPORT const char* nvmlErrorString(nvml::Return result);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlSystemGetCudaDriverVersion(int* version);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlDeviceGetCount(unsigned* count);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlDeviceGetHandleByIndex(unsigned index,
                                                                nvml::Device* device);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlDeviceGetHandleByPciBusId(const char* bus_id,
                                                                   nvml::Device* device);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlDeviceGetHandleBySerial(const char* serial,
                                                                 nvml::Device* device);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlDeviceGetModuleId(nvml::Device device, unsigned* id);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlDeviceGetNumaNodeId(nvml::Device device, unsigned* node);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlDeviceGetMemoryInfo_v2(nvml::Device device,
                                                                nvml::MemoryV2* memory);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlDeviceGetAttributes(nvml::Device mig,
                                                             nvml::DeviceAttributes* attributes);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlDeviceGetGpuFabricInfo(nvml::Device device,
                                                                nvml::FabricInfo* info);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlDeviceGetComputeRunningProcesses(
    nvml::Device device, unsigned* count, nvml::ProcessInfoV1* processes);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlDeviceGetComputeRunningProcesses_v2(
    nvml::Device device, unsigned* count, nvml::ProcessInfo* processes);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlDeviceGetComputeRunningProcesses_v3(
    nvml::Device device, unsigned* count, nvml::ProcessInfo* processes);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlDeviceGetGpuInstanceProfileInfoByIdV(
    nvml::Device device, unsigned profile_id, nvml::GpuInstanceProfileInfoV2* info);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlDeviceGetGpuInstancePossiblePlacements(
    nvml::Device device, unsigned profile_id, nvml::Placement* placements, unsigned* count);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlGpuInstanceGetComputeInstanceProfileInfoV(
    nvml::GpuInstance instance, unsigned profile, unsigned engine_profile,
    nvml::ComputeInstanceProfileInfoV2* info);
NVIDIA_SIMULATOR_EXPORT nvml::Return nvmlEventSetWait(nvml::EventSet set, nvml::EventDataV1* data,
                                                      unsigned timeout_ms);
