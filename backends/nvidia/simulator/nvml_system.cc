#include <cstdlib>

#include "exports.h"
#include "library.h"

// Start, end, versions.
using nvidia_simulator::Call;
using nvidia_simulator::CopyText;
using nvidia_simulator::Guard;
using nvidia_simulator::Library;
using nvidia_simulator::OnNode;

nvml::Return nvmlInit() {
  return Guard([] { return Library::Get().Init("nvmlInit", 0); });
}

nvml::Return nvmlInit_v2() {
  return Guard([] { return Library::Get().Init("nvmlInit_v2", 0); });
}

nvml::Return nvmlInitWithFlags(unsigned flags) {
  return Guard([&] { return Library::Get().Init("nvmlInitWithFlags", flags); });
}

nvml::Return nvmlShutdown() {
  return Guard([] { return Library::Get().Shutdown(); });
}

nvml::Return nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return OnNode("nvmlSystemGetDriverVersion", [&](const Call& call) {
    return CopyText(call.state->driver.kernel_module, version,
                    length);  // the kernel module tells it
  });
}

nvml::Return nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  return OnNode("nvmlSystemGetNVMLVersion", [&](const Call& call) {
    return CopyText(call.state->driver.nvml, version, length);
  });
}

nvml::Return nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return OnNode("nvmlSystemGetCudaDriverVersion", [&](const Call& call) {
    if (version == nullptr) return nvml::kInvalidArgument;
    char* minor = nullptr;
    const long major = std::strtol(call.state->driver.cuda.c_str(), &minor, 10);
    *version = static_cast<int>(major * 1000 +
                                (*minor == '.' ? std::strtol(minor + 1, nullptr, 10) * 10 : 0));
    return nvml::kSuccess;
  });
}

nvml::Return nvmlSystemGetCudaDriverVersion(int* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}

const char* nvmlErrorString(nvml::Return result) {
  switch (result) {
    case nvml::kSuccess:
      return "Success";
    case nvml::kUninitialized:
      return "Uninitialized";
    case nvml::kInvalidArgument:
      return "Invalid Argument";
    case nvml::kNotSupported:
      return "Not Supported";
    case nvml::kNoPermission:
      return "Insufficient Permissions";
    case nvml::kAlreadyInitialized:
      return "Already Initialized";
    case nvml::kNotFound:
      return "Not Found";
    case nvml::kInsufficientSize:
      return "Insufficient Size";
    case nvml::kInsufficientPower:
      return "Insufficient External Power";
    case nvml::kDriverNotLoaded:
      return "Driver Not Loaded";
    case nvml::kTimeout:
      return "Timeout";
    case nvml::kIrqIssue:
      return "Interrupt Request Issue";
    case nvml::kLibraryNotFound:
      return "NVML Shared Library Not Found";
    case nvml::kFunctionNotFound:
      return "Function Not Found";
    case nvml::kCorruptedInforom:
      return "Corrupted infoROM";
    case nvml::kGpuIsLost:
      return "GPU is lost";
    case nvml::kResetRequired:
      return "GPU requires reset";
    case nvml::kOperatingSystem:
      return "GPU access blocked by the operating system";
    case nvml::kLibRmVersionMismatch:
      return "Driver/library version mismatch";
    case nvml::kInUse:
      return "In use by another client";
    case nvml::kMemory:
      return "Insufficient Memory";
    case nvml::kNoData:
      return "No data";
    case nvml::kVgpuEccNotSupported:
      return "ECC with vGPU is not supported";
    case nvml::kInsufficientResources:
      return "Insufficient Resources";
    case nvml::kFreqNotSupported:
      return "Requested frequency is not supported";
    case nvml::kArgumentVersionMismatch:
      return "Argument version mismatch";
    case nvml::kDeprecated:
      return "Deprecated";
    case nvml::kNotReady:
      return "System is not ready";
    case nvml::kGpuNotFound:
      return "No GPUs were found";
    case nvml::kInvalidState:
      return "Invalid state";
    case nvml::kResetTypeNotSupported:
      return "Reset type is not supported";
    case nvml::kUnknown:
      break;
  }
  return "Unknown Error";
}
