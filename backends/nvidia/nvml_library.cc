#include "nvml_library.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace nvidia {
namespace {

// Stands for a function that the library lacks.
template <typename Function>
struct Missing;
template <typename... Parameters>
struct Missing<nvml::Return (*)(Parameters...)> {
  static nvml::Return Call(Parameters...) { return nvml::kFunctionNotFound; }
};

// Older names with the same parameters and layouts, for drivers that lack the newest.
std::vector<const char*> SymbolsOf(const char* symbol) {
  static const std::map<std::string, const char*> kOlder = {
      {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"},
      {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"},
      {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
      {"nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetHandleByPciBusId"},
      // Fills less of nvml::EventData: the instances stay as the caller set them.
      {"nvmlEventSetWait_v2", "nvmlEventSetWait"},
  };
  std::vector<const char*> symbols = {symbol};
  if (const auto older = kOlder.find(symbol); older != kOlder.end())
    symbols.push_back(older->second);
  return symbols;
}

struct FileId {
  uint64_t device = 0, inode = 0;
  friend bool operator==(const FileId&, const FileId&) = default;
};

std::optional<FileId> FileIdOf(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileId{status.st_dev, status.st_ino};
}

// The loader knows libraries by name and keeps one for the process: as long as it is loaded, the same name gives the
// same library, whatever the file is by now. What it holds, so that this is noticed.
class LoadedFiles {
 public:
  // False if another file of that name is loaded.
  bool Add(const std::string& path, const FileId& file) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [at, is_new] = entries_.try_emplace(path, Entry{file});
    Entry& entry = at->second;
    if (!is_new && entry.users == 0 && !IsLoaded(path)) entry.file = file;
    if (!(entry.file == file)) return false;
    ++entry.users;
    return true;
  }
  void Remove(const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    --entries_[path].users;
  }

 private:
  struct Entry {
    FileId file;
    int users = 0;
  };
  static bool IsLoaded(const std::string& path) {
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == nullptr) return false;
    dlclose(handle);
    return true;
  }

  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

LoadedFiles& Loaded() {
  static LoadedFiles* const files = new LoadedFiles;  // outlives every library
  return *files;
}

bool IsElf(const std::string& path) {
  char magic[4] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(magic, sizeof(magic)) && std::memcmp(magic,
                                                        "\x7f"
                                                        "ELF",
                                                        sizeof(magic)) == 0;
}

dra_code CodeOf(nvml::Return result) {
  switch (result) {
    case nvml::kLibRmVersionMismatch:
    case nvml::kResetRequired:
      return DRA_FAILED_PRECONDITION;
    case nvml::kNoPermission:
      return DRA_PERMISSION_DENIED;
    default:
      return DRA_UNAVAILABLE;
  }
}

}  // namespace

NvmlError::NvmlError(nvml::Return result, const std::string& text)
    : dra::BackendError(CodeOf(result), text), result_(result) {}

bool IsAbsent(nvml::Return result) {
  return result == nvml::kNotSupported || result == nvml::kFunctionNotFound ||
         result == nvml::kArgumentVersionMismatch || result == nvml::kNoPermission;
}

bool IsLibraryLost(nvml::Return result) {
  return result == nvml::kUninitialized || result == nvml::kDriverNotLoaded ||
         result == nvml::kLibRmVersionMismatch;
}

NvmlLibrary::NvmlLibrary() {
#define DRA_NVML_MISSING(symbol, parameters) symbol = &Missing<decltype(symbol)>::Call;
  DRA_NVML_FUNCTIONS(DRA_NVML_MISSING)
#undef DRA_NVML_MISSING
}

std::shared_ptr<NvmlLibrary> NvmlLibrary::ForTest() {
  return std::shared_ptr<NvmlLibrary>(new NvmlLibrary);
}

std::shared_ptr<NvmlLibrary> NvmlLibrary::Open(const std::string& path) {
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(path, error);
  if (error) {
    const bool absent = error == std::errc::no_such_file_or_directory;
    throw dra::BackendError(absent ? DRA_NOT_FOUND : DRA_UNAVAILABLE,
                            "NVML library " + path + ": " + error.message() +
                                "; install the NVIDIA driver on this node, or set where it is");
  }
  if (!std::filesystem::is_regular_file(resolved, error) || !IsElf(resolved.string())) {
    throw dra::BackendError(DRA_UNAVAILABLE,
                            "NVML library " + resolved.string() +
                                " is no shared library (no ELF file); install the NVIDIA driver "
                                "anew, or set where its library is");
  }
  std::shared_ptr<NvmlLibrary> library(new NvmlLibrary);
  library->opened_ = path;
  library->path_ = resolved.string();
  library->Load();
  library->Initialise();
  return library;
}

void NvmlLibrary::Load() {
  const std::optional<FileId> file = FileIdOf(path_);
  if (!file) {
    throw dra::BackendError(DRA_NOT_FOUND, "NVML library " + path_ + ": " + std::strerror(errno));
  }
  device_ = file->device;
  inode_ = file->inode;
  if (!Loaded().Add(path_, *file)) {
    throw dra::BackendError(
        DRA_UNAVAILABLE, "NVML library " + path_ +
                             " was replaced, and the former one is still loaded in this process; "
                             "if that stays so, restart the driver's pod");
  }
  // All symbols now: one that is missing in the library's own dependencies is an error here, not the end of the process
  // at the first call.
  handle_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    const char* const why = dlerror();
    Loaded().Remove(path_);
    throw dra::BackendError(DRA_UNAVAILABLE, "NVML library " + path_ + " cannot be loaded: " +
                                                 (why == nullptr ? "no cause given" : why));
  }
#define DRA_NVML_LOOK_UP(symbol, parameters)            \
  for (const char* const name : SymbolsOf(#symbol)) {   \
    void* const found = dlsym(handle_, name);           \
    if (found == nullptr) continue;                     \
    symbol = reinterpret_cast<decltype(symbol)>(found); \
    break;                                              \
  }
  DRA_NVML_FUNCTIONS(DRA_NVML_LOOK_UP)
#undef DRA_NVML_LOOK_UP
  error_string_ = reinterpret_cast<decltype(error_string_)>(dlsym(handle_, "nvmlErrorString"));
}

void NvmlLibrary::Initialise() {
  // NO_GPUS: a GPU that is lost fails its own calls, not the init. Drivers before it was there: everything or nothing.
  const char* function = "nvmlInitWithFlags";
  nvml::Return result = nvmlInitWithFlags(nvml::kInitNoGpus);
  if (result == nvml::kFunctionNotFound) {
    const auto init = reinterpret_cast<nvml::Return (*)()>(dlsym(handle_, "nvmlInit_v2"));
    if (init == nullptr) {
      throw dra::BackendError(DRA_UNAVAILABLE,
                              path_ +
                                  " has neither nvmlInitWithFlags nor nvmlInit_v2: it is not "
                                  "NVIDIA's management library, or a very old one");
    }
    function = "nvmlInit_v2";
    result = init();
  }
  if (result == nvml::kSuccess) {
    initialised_ = true;
    return;
  }
  std::string text = std::string(function) + " of " + path_ + ": " + Describe(result);
  if (result == nvml::kDriverNotLoaded) {
    text += "; load the kernel module: modprobe nvidia, or see why it does not load in dmesg";
  } else if (result == nvml::kLibRmVersionMismatch) {
    text +=
        "; the loaded kernel module is of another driver version than the library: reload the "
        "module or reboot the node";
  } else if (result == nvml::kNoPermission) {
    text += "; the driver's pod needs to open /dev/nvidiactl: run it privileged";
  }
  throw NvmlError(result, text);
}

NvmlLibrary::~NvmlLibrary() {
  if (initialised_) nvmlShutdown();
  if (handle_ == nullptr) return;
  dlclose(handle_);
  Loaded().Remove(path_);
}

bool NvmlLibrary::Replaced() const {
  if (handle_ == nullptr) return false;
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(opened_, error);
  if (error || resolved != path_) return true;
  const std::optional<FileId> file = FileIdOf(path_);
  return !file || !(*file == FileId{device_, inode_});
}

std::string NvmlLibrary::Describe(nvml::Return result) const {
  const char* const words = error_string_ == nullptr ? nullptr : error_string_(result);
  const std::string number = std::to_string(static_cast<int32_t>(result));
  return words == nullptr || words[0] == '\0' ? "NVML error " + number
                                              : std::string(words) + " (" + number + ")";
}

void NvmlLibrary::Check(nvml::Return result, const char* function, const std::string& what) const {
  if (result == nvml::kSuccess) return;
  throw NvmlError(result, std::string(function) + (what.empty() ? "" : " of " + what) + ": " +
                              Describe(result));
}

}  // namespace nvidia
