#include "state_file.h"

#include <dirent.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <system_error>

namespace nvidia_simulator {
namespace {

constexpr char kStateName[] = "libnvidia-simulator.so.", kLibraryName[] = "libnvidia-ml.so.";

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// Beside the library: of its own version, else the one that sorts last.
std::string SearchBeside(const std::filesystem::path& library) {
  const std::string name = library.filename();
  std::string found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(library.parent_path(), error)) {
    const std::string candidate = entry.path().filename();
    if (candidate.rfind(kStateName, 0) != 0) continue;
    const std::string version = candidate.substr(sizeof kStateName - 1);
    if (name == kLibraryName + version) return entry.path();
    if (entry.path() > found) found = entry.path();
  }
  return found;
}

}  // namespace

std::string StateFile::Search() {
  const char* set = std::getenv("NVIDIA_SIMULATOR_STATE");
  if (set != nullptr && *set != '\0') return set;
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&StateFile::Search), &self) == 0) return "";
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(self.dli_fname, error);
  const std::string beside_real = error ? "" : SearchBeside(real);
  return beside_real.empty() ? SearchBeside(std::filesystem::absolute(self.dli_fname, error))
                             : beside_real;
}

bool StateFile::Exists() const {
  struct stat now {};
  return stat(path_.c_str(), &now) == 0;
}

std::shared_ptr<const State> StateFile::Read() {
  struct stat now {};
  if (stat(path_.c_str(), &now) != 0 || SameFile(now, read_)) return state_;
  read_ = now;  // if it changes while it is read, the next look sees that
  try {
    state_ = std::make_shared<const State>(ReadState(path_));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nvidia simulator: %s\n", error.what());
  }
  return state_;
}

}  // namespace nvidia_simulator
