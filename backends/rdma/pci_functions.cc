#include "pci_functions.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "text.h"

namespace rdma {
namespace {

constexpr int64_t kNetworkBaseClass = 0x02;
constexpr char kDevices[] = "bus/pci/devices/";

bool IsPciAddress(const std::string& text) { return dra::ParsePciAddress(text).has_value(); }

}  // namespace

Place PlaceOf(const dra::Sysfs& sys, const std::string& link, size_t skip) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(sys.Path(link), error);
  if (error) return {};
  std::vector<std::string> parts;
  for (const auto& part : target) parts.push_back(part.string());
  parts.resize(parts.size() - std::min(skip, parts.size()));
  Place place;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (IsPciAddress(*part)) {
      place.function = *part;
      return place;
    }
    place.child = *part + (place.child.empty() ? "" : "/" + place.child);
  }
  return {};
}

std::vector<std::string> PciFunctions::Addresses() const {
  std::vector<std::string> addresses;
  for (std::string& name : sys_.List("bus/pci/devices")) {
    if (IsPciAddress(name)) addresses.push_back(std::move(name));
  }
  return addresses;
}

bool PciFunctions::IsNetworkClass(const std::string& address) const {
  const auto code = sys_.ReadInteger(kDevices + address + "/class");
  return code && *code >> 16 == kNetworkBaseClass;
}

std::optional<PciFunction> PciFunctions::Read(const std::string& address) {
  const std::string path = kDevices + address;
  const auto text = [&](const char* name) {
    return Lower(sys_.Read(path + "/" + name).value_or(""));
  };
  PciFunction function;
  function.address = address;
  function.network_class = IsNetworkClass(address);
  function.vendor = text("vendor");
  function.device = text("device");
  function.subsystem_vendor = text("subsystem_vendor");
  function.subsystem_device = text("subsystem_device");
  function.driver = sys_.LinkName(path + "/driver").value_or("");
  function.physical_function = sys_.ReadInteger(path + "/sriov_totalvfs").value_or(0) > 0;
  if (function.physical_function) {
    function.virtual_functions = sys_.ReadInteger(path + "/sriov_numvfs").value_or(0);
  }
  function.pf_address = sys_.LinkName(path + "/physfn").value_or("");
  if (!function.pf_address.empty()) function.vf_index = VfIndex(function.pf_address, address);
  // What went away meanwhile left half of its answers.
  if (function.vendor.empty() || !sys_.Exists(path + "/vendor")) return std::nullopt;
  return function;
}

int64_t PciFunctions::VfIndex(const std::string& pf_address, const std::string& address) {
  const auto [known, is_new] = vf_indexes_.try_emplace(pf_address);
  if (is_new) {
    constexpr char kPrefix[] = "virtfn";
    constexpr size_t kPrefixSize = sizeof(kPrefix) - 1;
    for (const std::string& name : sys_.List(kDevices + pf_address)) {
      if (name.rfind(kPrefix, 0) != 0 ||
          name.find_first_not_of("0123456789", kPrefixSize) != std::string::npos ||
          name.size() == kPrefixSize || name.size() > kPrefixSize + 9) {
        continue;
      }
      if (const auto target = sys_.LinkName(kDevices + pf_address + "/" + name)) {
        known->second[*target] = std::stoll(name.substr(kPrefixSize));
      }
    }
  }
  const auto found = known->second.find(address);
  return found == known->second.end() ? -1 : found->second;
}

}  // namespace rdma
