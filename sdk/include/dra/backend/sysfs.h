#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "dra/backend/error.h"
#include "dra/backend/pci.h"
#include "nlohmann/json.hpp"

namespace dra {

using Json = nlohmann::json;

// Reads kernel attributes below one root, so that tests and containers use another tree. Every
// datum is optional: a file that is not there, or empty, is nullopt. Any thread.
class Sysfs {
 public:
  explicit Sysfs(std::string root = "/sys") : root_(std::move(root)) {}

  // Absolute path of "bus/pci/devices".
  std::string Path(const std::string& relative) const { return root_ + "/" + relative; }
  bool Exists(const std::string& relative) const {
    std::error_code error;
    return std::filesystem::exists(Path(relative), error);
  }

  // The file's text without white space at both ends; nullopt if it is not there, unreadable or
  // empty.
  std::optional<std::string> Read(const std::string& relative) const {
    std::ifstream file(Path(relative));
    if (!file) return std::nullopt;
    std::string text(kMaxBytes, '\0');
    file.read(text.data(), kMaxBytes);
    text.resize(static_cast<size_t>(file.gcount()));
    const size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string::npos) return std::nullopt;
    return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
  }
  // The same, but a thing that a device cannot do without: throws DRA_NOT_FOUND with the path.
  std::string Require(const std::string& relative) const {
    std::optional<std::string> text = Read(relative);
    if (!text) throw BackendError(DRA_NOT_FOUND, Path(relative) + " is missing or empty");
    return *std::move(text);
  }
  // A decimal or 0x number; nullopt if absent or not a number.
  std::optional<int64_t> ReadInteger(const std::string& relative) const {
    const std::optional<std::string> text = Read(relative);
    if (!text) return std::nullopt;
    const bool hex = text->rfind("0x", 0) == 0 || text->rfind("0X", 0) == 0;
    try {
      size_t used = 0;
      const int64_t value = std::stoll(*text, &used, hex ? 16 : 10);
      if (used != text->size()) return std::nullopt;
      return value;
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  // Names in a directory, sorted. "Not there" is empty; a directory that cannot be read throws
  // DRA_UNAVAILABLE, since "could not look" is not "nothing there".
  std::vector<std::string> List(const std::string& relative) const {
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator it(Path(relative), error), end;
    if (error == std::errc::no_such_file_or_directory) return names;
    for (; !error && it != end; it.increment(error))
      names.push_back(it->path().filename().string());
    if (error)
      throw BackendError(DRA_UNAVAILABLE, "cannot list " + Path(relative) + ": " + error.message());
    std::sort(names.begin(), names.end());
    return names;
  }

  // The last component a link points at ("driver" -> "mlx5_core"); nullopt if it is no link.
  std::optional<std::string> LinkName(const std::string& relative) const {
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(Path(relative), error);
    if (error || target.filename().empty()) return std::nullopt;
    return target.filename().string();
  }

  // resource.kubernetes.io/pcieRoot of a device, as Kubernetes computes it: one readlink of
  // bus/pci/devices/<address>, which must lead to devices/pci.../<address>; the value is the
  // component below devices/ ("pci0000:00"). nullopt where the path is another (VMD, Hyper-V):
  // leave the attribute out.
  std::optional<std::string> PcieRoot(const PciAddress& address) const {
    namespace fs = std::filesystem;
    const std::string name = address.ToString();
    const fs::path link = Path("bus/pci/devices/" + name);
    std::error_code error;
    fs::path target = fs::read_symlink(link, error);
    if (error) return std::nullopt;
    if (target.is_relative()) target = link.parent_path() / target;
    // lexically: no further link is followed
    const fs::path below =
        target.lexically_normal().lexically_relative(fs::path(Path("devices")).lexically_normal());
    if (below.empty() || below.filename() != name) return std::nullopt;
    const std::string root = below.begin()->string();
    if (root.rfind("pci", 0) != 0) return std::nullopt;
    return root;
  }

  // NUMA node of a device; nullopt if the kernel says -1 (no affinity) or nothing: leave the
  // attribute out.
  std::optional<int64_t> NumaNode(const PciAddress& address) const {
    const std::optional<int64_t> node =
        ReadInteger("bus/pci/devices/" + address.ToString() + "/numa_node");
    return node && *node >= 0 ? node : std::nullopt;
  }

  // Adds resource.kubernetes.io/pciBusID, pcieRoot and numaNode to a Device's attributes, each
  // where it is known.
  void AddStandardAttributes(const PciAddress& address, Json& device) const {
    Json& attributes = device["attributes"];
    if (!attributes.is_object()) attributes = Json::object();
    attributes["resource.kubernetes.io/pciBusID"] = {{"string", address.ToString()}};
    if (const auto root = PcieRoot(address)) {
      attributes["resource.kubernetes.io/pcieRoot"] = {{"string", *root}};
    }
    if (const auto node = NumaNode(address)) {
      attributes["resource.kubernetes.io/numaNode"] = {{"int", *node}};
    }
  }

 private:
  static constexpr std::streamsize kMaxBytes = 65536;
  std::string root_;
};

// The first of `directories` that has `name` as a regular file (links followed): a directory of
// that name does not shadow the library that is looked for. nullopt if none has it.
inline std::optional<std::string> FindRegularFile(const std::vector<std::string>& directories,
                                                  const std::string& name) {
  for (const std::string& directory : directories) {
    const std::string path = directory + "/" + name;
    std::error_code error;
    if (std::filesystem::is_regular_file(path, error)) return path;
  }
  return std::nullopt;
}

}  // namespace dra
