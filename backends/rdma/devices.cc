#include "devices.h"

#include <algorithm>
#include <map>
#include <utility>

#include "nic_attributes.h"

namespace rdma {
namespace {

using dra::Json;

// kubernetes/api:resource/v1: attributes and capacities together; counter sets that one device consumes.
constexpr size_t kMaxAttributesAndCapacities = 32;
constexpr size_t kMaxConsumedSets = 2;
constexpr char kCounter[] = "functions";

std::string CounterSetName(const std::string& pf_address) { return PciNicName(pf_address, 0); }

Json Consumption(const std::string& pf_address, int64_t functions) {
  return {{"counterSet", CounterSetName(pf_address)},
          {"counters", {{kCounter, {{"value", std::to_string(functions)}}}}}};
}

// A virtual function is one of its physical function's, which is all of them. The further ports of an old card of two
// ports on one function count for nothing: they would exclude each other; the exclusion keys hold all the same.
void AddCounters(const Nic& nic, Json& device) {
  Json consumed = Json::array();
  if (!nic.pf_address.empty()) consumed.push_back(Consumption(nic.pf_address, 1));
  if (nic.physical_function && nic.virtual_functions > 0 && nic.port == 0) {
    consumed.push_back(Consumption(nic.pci_address, nic.virtual_functions));
  }
  if (!consumed.empty() && consumed.size() <= kMaxConsumedSets)
    device["consumesCounters"] = std::move(consumed);
}

std::vector<std::pair<std::string, std::string>> ExclusionKeys(const Nic& nic) {
  std::vector<std::pair<std::string, std::string>> keys;
  const auto add = [&](const std::string& key, const char* shape) {
    for (const auto& [other, first] : keys) {
      if (other == key) return;
    }
    keys.emplace_back(key, shape);
  };
  if (!nic.pci_address.empty()) {
    add(nic.pci_address, nic.physical_function ? "pf" : "function");
    if (!nic.pf_address.empty()) add(nic.pf_address, "part");
    return keys;
  }
  add(nic.identity, "interface");
  const bool is_bond =
      nic.netdev && (nic.netdev->link.kind == "bond" || nic.netdev->link.kind == "team");
  for (const std::string& member : nic.members) add(member, is_bond ? "bond" : "part");
  // Whoever has the physical function has what lies on its virtual ones too.
  for (const std::string& pf : nic.member_pfs) add(pf, "part");
  return keys;
}

std::string Megabits(int64_t mbps) { return std::to_string(mbps) + "M"; }

void AddShares(const Nic& nic, int64_t shares, Json& device) {
  device["allowMultipleAllocations"] = true;
  device["capacity"]["shares"] = {
      {"value", std::to_string(shares)},
      {"requestPolicy", {{"default", "1"}, {"validValues", Json::array({"1"})}}}};
  const std::optional<int64_t> rate = RateMbpsOf(nic);
  if (!rate || *rate < 2) return;
  device["capacity"]["bandwidth"] = {
      {"value", Megabits(*rate)},
      {"requestPolicy",
       {{"default", Megabits(std::max<int64_t>(1, *rate / shares))},
        {"validRange", {{"min", "1M"}, {"step", "1M"}, {"max", Megabits(*rate)}}}}}};
}

}  // namespace

dra::DeviceReport DeviceOf(const Nic& nic, const dra::Sysfs& sys, const Options& options,
                           const dra::DiscoverRequest& request, const PciNames* names) {
  Json device = {{"name", nic.name}, {"attributes", Json::object()}};
  const ShareRule* share = ShareRuleOf(nic, options);
  if (share != nullptr && request.multiple_allocations == dra::ServerField::kKept) {
    AddShares(nic, share->shares, device);
  }
  if (request.counters == dra::ServerField::kKept) AddCounters(nic, device);
  const size_t capacities = device.contains("capacity") ? device["capacity"].size() : 0;
  AddAttributes(nic, sys, options.attribute_domain, names, kMaxAttributesAndCapacities - capacities,
                device);
  return {
      .device = std::move(device), .identity = nic.identity, .exclusion_keys = ExclusionKeys(nic)};
}

std::vector<Json> CounterSetsOf(const std::vector<Nic>& offered,
                                const dra::DiscoverRequest& request) {
  if (request.counters != dra::ServerField::kKept) return {};
  std::map<std::string, int64_t> virtual_functions, physical;
  for (const Nic& nic : offered) {
    if (!nic.pf_address.empty()) ++virtual_functions[nic.pf_address];
    if (nic.physical_function && nic.virtual_functions > 0 && nic.port == 0) {
      physical[nic.pci_address] = nic.virtual_functions;
    }
  }
  // The kernel's number and what was seen differ while functions come and go.
  for (const auto& [address, count] : physical) {
    virtual_functions[address] = std::max(virtual_functions[address], count);
  }
  std::vector<Json> sets;
  for (const auto& [address, count] : virtual_functions) {
    sets.push_back({{"name", CounterSetName(address)},
                    {"counters", {{kCounter, {{"value", std::to_string(count)}}}}}});
  }
  return sets;
}

}  // namespace rdma
