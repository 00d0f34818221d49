// What is published of the hardware: names, identities, attributes, capacities.

#include <algorithm>
#include <cctype>
#include <regex>
#include <utility>

#include "discovery.h"

namespace nvidia {
namespace {

using dra::Json;

constexpr size_t kMaxNameBytes = 63;       // a DNS label
constexpr size_t kMaxAttributeBytes = 64;  // a string attribute

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// "1g.10gb+me" -> "1g10gb-me": what a DNS label can hold.
std::string ProfileInName(const std::string& profile) {
  std::string result;
  for (const char c : Lower(profile)) {
    if (c == '.') continue;
    result += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  }
  return result;
}

// As Kubernetes writes binary quantities: the largest unit that leaves a whole number.
std::string BinaryQuantity(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"", "Ki", "Mi", "Gi", "Ti"};
  size_t unit = 0;
  while (unit + 1 < std::size(kUnits) && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + kUnits[unit];
}

void AddString(Json& attributes, const char* name, const std::string& value) {
  if (value.empty()) return;
  attributes[name] = {{"string", value.substr(0, kMaxAttributeBytes)}};
}

void AddVersion(Json& attributes, const char* name, const std::string& value) {
  if (const auto version = ToSemver(value)) attributes[name] = {{"version", *version}};
}

// Of the card, for all its shapes.
Json CardAttributes(const NodeHardware& node, const Gpu& gpu) {
  Json attributes = Json::object();
  AddString(attributes, "productName", gpu.product_name);
  AddString(attributes, "brand", gpu.brand);
  AddString(attributes, "architecture", gpu.architecture);
  AddString(attributes, "addressingMode", gpu.addressing_mode.value_or(""));
  AddVersion(attributes, "cudaComputeCapability", gpu.cuda_compute_capability);
  AddVersion(attributes, "driverVersion", node.driver_version);
  AddVersion(attributes, "cudaDriverVersion", node.cuda_driver_version);
  return attributes;
}

Json WholeGpu(const NodeHardware& node, const Gpu& gpu) {
  Json attributes = CardAttributes(node, gpu);
  attributes["type"] = {{"string", "gpu"}};
  AddString(attributes, "uuid", gpu.uuid);
  Json capacity = Json::object();
  if (gpu.memory_bytes) capacity["memory"] = {{"value", BinaryQuantity(*gpu.memory_bytes)}};
  return {{"name", GpuDeviceName(gpu.uuid)},
          {"attributes", std::move(attributes)},
          {"capacity", std::move(capacity)}};
}

Json MigDevice(const NodeHardware& node, const Gpu& gpu, const MigInstance& mig) {
  Json attributes = CardAttributes(node, gpu);
  attributes["type"] = {{"string", "mig"}};
  AddString(attributes, "uuid", mig.uuid);
  AddString(attributes, "parentUUID", gpu.uuid);
  AddString(attributes, "profile", mig.profile);
  Json capacity = Json::object();
  for (const auto& [name, value] : mig.capacity) {
    capacity[name] = {{"value", std::to_string(value)}};
  }
  capacity["memory"] = {{"value", BinaryQuantity(static_cast<uint64_t>(mig.memory_bytes))}};
  // Names the slices themselves, so that a selector can ask for a place.
  for (unsigned i = 0; i < mig.placement_size; ++i) {
    capacity["memorySlice" + std::to_string(mig.placement_start + i)] = {{"value", "1"}};
  }
  return {{"name", MigDeviceName(gpu.uuid, mig)},
          {"attributes", std::move(attributes)},
          {"capacity", std::move(capacity)}};
}

}  // namespace

std::string GpuIdentity(const std::string& uuid) { return uuid; }

std::string MigIdentity(const std::string& gpu_uuid, const MigInstance& mig) {
  return gpu_uuid + "/mig/" + std::to_string(mig.profile_id) + "/" +
         std::to_string(mig.placement_start);
}

std::string GpuDeviceName(const std::string& uuid) { return Lower(uuid); }

std::string MigDeviceName(const std::string& gpu_uuid, const MigInstance& mig) {
  const std::string before = GpuDeviceName(gpu_uuid) + "-mig-";
  const std::string after = "-" + std::to_string(mig.placement_start);
  std::string profile = ProfileInName(mig.profile);
  // No two instances start at one place, so that a name that is cut is still its own.
  profile.resize(std::min(profile.size(), kMaxNameBytes - before.size() - after.size()));
  return before + profile + after;
}

std::vector<dra::DeviceReport> DevicesOf(const NodeHardware& node, const dra::Sysfs& sysfs) {
  std::vector<dra::DeviceReport> devices;
  const auto add = [&](const Gpu& gpu, Json device, std::string identity, const char* shape) {
    if (gpu.pci_bus_id) {
      if (const auto address = dra::ParsePciAddress(*gpu.pci_bus_id)) {
        sysfs.AddStandardAttributes(*address, device);
      }
    }
    devices.push_back({.device = std::move(device),
                       .identity = std::move(identity),
                       .exclusion_keys = {{gpu.uuid, shape}}});
  };
  for (const Gpu& gpu : node.gpus) {
    if (!gpu.mig_enabled) {
      add(gpu, WholeGpu(node, gpu), GpuIdentity(gpu.uuid), "gpu");
      continue;
    }
    for (const MigInstance& mig : gpu.mig_instances) {
      add(gpu, MigDevice(node, gpu, mig), MigIdentity(gpu.uuid, mig), "mig");
    }
  }
  return devices;
}

std::vector<dra::BackendManifest::Attribute> DeviceAttributes() {
  return {
      {"type", "string", "\"gpu\": a whole GPU; \"mig\": a MIG instance"},
      {"uuid", "string", "NVML's UUID of the GPU (GPU-...) or MIG instance (MIG-...)"},
      {"parentUUID", "string", "of a MIG instance: the UUID of its GPU"},
      {"profile", "string", "of a MIG instance: its profile, such as \"1g.10gb\""},
      {"productName", "string", "the GPU's name, such as \"NVIDIA H100 80GB HBM3\""},
      {"brand", "string", "the GPU's brand, such as \"Nvidia\", \"Tesla\" or \"GeForce\""},
      {"architecture", "string", "such as \"Hopper\"; \"Unknown\" if this driver does not know it"},
      {"cudaComputeCapability", "version", "such as 9.0.0"},
      {"driverVersion", "version", "of the NVIDIA kernel driver, such as 580.126.20"},
      {"cudaDriverVersion", "version", "the newest CUDA that the driver serves, such as 13.0.0"},
      {"addressingMode", "string", "\"None\", \"HMM\" or \"ATS\""},
  };
}

std::optional<std::string> ToSemver(const std::string& version) {
  static const std::regex kVersion(
      "([0-9]{1,9})(?:\\.([0-9]{1,9}))?(?:\\.([0-9]{1,9}))?(?:\\.([0-9]{1,9}))?");
  std::smatch parts;
  if (!std::regex_match(version, parts, kVersion)) return std::nullopt;
  // SemVer knows no leading zeros, and no fourth number: as build metadata that one does not count in comparisons.
  const auto number = [&](size_t i) {
    return parts[i].matched ? std::to_string(std::stoull(parts[i].str())) : std::string("0");
  };
  std::string result = number(1) + "." + number(2) + "." + number(3);
  if (parts[4].matched) result += "+" + parts[4].str();
  return result;
}

}  // namespace nvidia
