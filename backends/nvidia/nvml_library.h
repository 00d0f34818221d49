#pragma once

#include <memory>
#include <string>

#include "dra/backend/error.h"
#include "nvml.h"

namespace nvidia {

// What a function of NVML answered other than success. code() is DRA_FAILED_PRECONDITION where somebody must act, else
// DRA_UNAVAILABLE.
class NvmlError : public dra::BackendError {
 public:
  // text: names the function, what it was asked of and the answer.
  NvmlError(nvml::Return result, const std::string& text);
  nvml::Return result() const { return result_; }

 private:
  nvml::Return result_;
};

// True for an answer that says the library, not the GPU, can no longer be used: the driver was unloaded or replaced
// underneath. Only opening it anew helps.
bool IsLibraryLost(nvml::Return result);

// True for an answer that says that this GPU or this library does not have it: the datum is left out. Every other failure
// is the GPU's own, so that a passing one does not take an attribute away.
bool IsAbsent(nvml::Return result);

// An open and initialised NVML (no GPU attached by the init). Every function is looked up by itself; one that the
// library lacks answers kFunctionNotFound. Any thread; a library that hangs hangs its caller.
class NvmlLibrary {
 public:
  // path: of libnvidia-ml.so.1 as this process sees it. Throws: DRA_NOT_FOUND (no such file), DRA_UNAVAILABLE (cannot
  // be loaded, driver not loaded), DRA_FAILED_PRECONDITION (kernel module and library of different versions: reboot
  // or reload the driver), each with what to do. Another file under the same name is refused (DRA_UNAVAILABLE) while
  // the former one is open: the loader would give the former one again. So let go of that one first.
  static std::shared_ptr<NvmlLibrary> Open(const std::string& path);
  // One that lacks every function, for a test to put its own in.
  static std::shared_ptr<NvmlLibrary> ForTest();
  ~NvmlLibrary();  // nvmlShutdown, dlclose
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  const std::string& path() const { return path_; }  // links resolved
  // Whether the file behind the path that was opened is another one by now, or gone.
  bool Replaced() const;
  // The library's own words for a code.
  std::string Describe(nvml::Return result) const;

  // One member of each function's name: library->nvmlDeviceGetUUID(device, text, size).
#define DRA_NVML_MEMBER(symbol, parameters) nvml::Return(*symbol) parameters = nullptr;
  DRA_NVML_FUNCTIONS(DRA_NVML_MEMBER)
#undef DRA_NVML_MEMBER

  // Throws NvmlError unless success. what: "GPU-4cf8..." or "GPU index 3"; "" of the node.
  void Check(nvml::Return result, const char* function, const std::string& what) const;

 private:
  NvmlLibrary();
  void Load();
  void Initialise();

  std::string opened_;  // as given
  std::string path_;
  uint64_t device_ = 0, inode_ = 0;
  void* handle_ = nullptr;
  const char* (*error_string_)(nvml::Return) = nullptr;
  bool initialised_ = false;
};

}  // namespace nvidia
