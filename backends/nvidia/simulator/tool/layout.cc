#include "layout.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "files.h"

namespace nvidia_simulator {
namespace {

constexpr char kRecord[] = "/.nvidia-simulator.json";
constexpr char kStateName[] = "libnvidia-simulator.so.";

}  // namespace

std::string Layout::Driver(const std::string& path) const {
  return driver_root.empty() ? path : driver_root + "/" + path;
}

std::string Layout::DevRoot() const { return Driver("dev"); }

std::string Layout::StateFile(const std::string& driver_version) const {
  return root + "/" + Driver(library_directory) + "/" + kStateName + driver_version;
}

std::optional<std::string> Layout::FindStateFile() const {
  std::error_code error;
  const std::string directory = root + "/" + Driver(library_directory);
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().filename().string().rfind(kStateName, 0) == 0) return entry.path();
  }
  return std::nullopt;
}

std::string Layout::RequireStateFile() const {
  const std::optional<std::string> file = FindStateFile();
  if (file) return *file;
  throw std::runtime_error("there is no " + StateFile("*") +
                           ": it was removed, or `create` did not end; `create` makes it anew");
}

std::string DefaultLibraryDirectory() {
#if defined(__aarch64__)
  return "usr/lib/aarch64-linux-gnu";
#else
  return "usr/lib/x86_64-linux-gnu";
#endif
}

Layout ReadLayout(const std::string& root) {
  const std::optional<std::string> text = ReadFile(root + kRecord);
  if (!text)
    throw std::runtime_error(root + " is no simulated host: it has no " + (kRecord + 1) +
                             "; `dra-nvidia-simulator create MODEL.yaml " + root + "` makes one");
  try {
    const Json json = Json::parse(*text);
    Layout layout;
    layout.root = root;
    layout.driver_root = json.at("driverRoot");
    layout.library_directory = json.at("libraryDirectory");
    layout.node = json.at("node");
    layout.nvml_library = json.at("nvmlLibrary");
    layout.nodes = json.at("nodes");
    layout.installed = json.at("installed");
    layout.boots = json.at("boots");
    layout.majors = json.at("majors").get<std::map<std::string, unsigned>>();
    layout.paths = json.at("paths").get<std::vector<std::string>>();
    return layout;
  } catch (const Json::exception& error) {
    throw std::runtime_error(root + kRecord + ": " + error.what() + "; `create` makes it anew");
  }
}

void WriteLayout(const Layout& layout) {
  Json json;
  json["driverRoot"] = layout.driver_root;
  json["libraryDirectory"] = layout.library_directory;
  json["node"] = layout.node;
  json["nvmlLibrary"] = layout.nvml_library;
  json["nodes"] = layout.nodes;
  json["installed"] = layout.installed;
  json["boots"] = layout.boots;
  json["majors"] = layout.majors;
  json["paths"] = layout.paths;
  WriteFile(layout.root + kRecord, json.dump(1) + "\n", 0644);
}

LayoutLock::LayoutLock(const std::string& root) {
  // The directory itself: no file of its own is left behind.
  fd_ = open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0) throw std::runtime_error("cannot open " + root + ": " + std::strerror(errno));
  while (flock(fd_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const std::string problem = std::strerror(errno);
    close(fd_);
    throw std::runtime_error("cannot lock " + root + ": " + problem);
  }
}

LayoutLock::~LayoutLock() { close(fd_); }

}  // namespace nvidia_simulator
