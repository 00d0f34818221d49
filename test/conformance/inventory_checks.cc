// Checks of what a backend says of itself and of its devices.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/resource/device_repair.h"
#include "dra/resource/slice.h"
#include "test/conformance/subject.h"

namespace dra::conformance {
namespace {

// Numbers that the kernel or a driver gives anew at each start: selecting by them picks another device tomorrow.
constexpr absl::string_view kVolatileNames[] = {"index", "minor", "ifindex", "number"};

// Everything of one discovery, in an order of its own.
Json Digest(const loader::DiscoverResult& result) {
  std::map<std::string, Json> sorted;
  for (const loader::DiscoverItem& item : result.items) {
    if (!item.device) {
      sorted[absl::StrCat("error ", item.error_subject)] = item.error.ToString();
      continue;
    }
    Json keys = Json::array();
    for (const loader::ExclusionKey& key : item.device->exclusion_keys)
      keys.push_back({key.key, key.shape});
    sorted[absl::StrCat("device ", item.device->pool, "/", NameOf(*item.device))] = {
        item.device->device, item.device->identity, keys};
  }
  for (const loader::CounterSet& set : result.counter_sets) {
    sorted[absl::StrCat("counters ", set.pool, "/", StringOr(set.counter_set, "name"))] =
        set.counter_set;
  }
  return sorted;
}

// The gated fields that a device leans on.
std::vector<std::string> GatedFields(const Json& device) {
  std::vector<std::string> fields;
  for (const char* field :
       {"consumesCounters", "allowMultipleAllocations", "taints", "bindingConditions",
        "bindingFailureConditions", "bindsToNode", "nodeAllocatableResources"}) {
    if (Find(device, field) != nullptr) fields.push_back(field);
  }
  const Json* attributes = Find(device, "attributes");
  if (attributes == nullptr || !attributes->is_object()) return fields;
  for (const auto& [name, value] : attributes->items()) {
    for (const char* list : {"ints", "bools", "strings", "versions"}) {
      if (Find(value, list) != nullptr)
        fields.push_back(absl::StrCat("attributes[", name, "].", list));
    }
  }
  return fields;
}

void CheckAttributes(const Subject& subject, Findings& findings) {
  std::map<std::string, loader::Manifest::Attribute> declared;
  for (const loader::Manifest::Attribute& attribute : subject.manifest.attributes) {
    declared[attribute.name] = attribute;
  }
  std::set<std::string> seen;  // each name once, however many devices have it
  for (const loader::DiscoveredDevice& device : subject.devices) {
    const Json* attributes = Find(device.device, "attributes");
    if (attributes == nullptr || !attributes->is_object()) continue;
    for (const auto& [name, value] : attributes->items()) {
      if (!seen.insert(name).second || absl::StartsWith(name, "resource.kubernetes.io/")) continue;
      const auto known = declared.find(name);
      const size_t slash = name.rfind('/');
      const std::string short_name = slash == std::string::npos ? name : name.substr(slash + 1);
      const bool volatile_name = std::find(std::begin(kVolatileNames), std::end(kVolatileNames),
                                           short_name) != std::end(kVolatileNames);
      if (volatile_name || (known != declared.end() && known->second.is_volatile)) {
        findings.Warn(
            absl::StrCat("volatile attribute: ", name, " (first on ", NameOf(device),
                         "): claims that select by it get another device after a change"));
      }
      if (known == declared.end()) {
        findings.Warn(
            absl::StrCat("attribute ", name, " of ", NameOf(device), " is not in the manifest"));
      } else if (Find(value, known->second.type) == nullptr) {
        findings.Fail(absl::StrCat("attribute ", name, " of ", NameOf(device), " is not of type \"",
                                   known->second.type, "\", as the manifest says"));
      }
    }
  }
}

}  // namespace

void CheckManifest(Subject& subject, Findings& findings) {
  findings.Run("the manifest is sane", [&] {
    const auto manifest = subject.backend->GetManifest();
    if (!findings.Expect(manifest.status(), "describe")) return;
    subject.manifest = **manifest;
    const std::string expected = absl::StrCat("dra-backend-", (*manifest)->name, ".so");
    if (!absl::EndsWith(subject.options->library, absl::StrCat("/", expected))) {
      findings.Warn(absl::StrCat("the manifest's name is ", (*manifest)->name,
                                 ": call the library ", expected));
    }
    for (const loader::Manifest::ConfigKind& kind : (*manifest)->config_kinds) {
      if (!absl::StrContains(kind.api_version, "/")) {
        findings.Fail(absl::StrCat("config kind ", kind.kind, ": apiVersion \"", kind.api_version,
                                   "\" has no group: use \"group/version\""));
      }
      if (!kind.schema.is_object()) {
        findings.Warn(absl::StrCat("config kind ", kind.kind,
                                   " has no JSON schema: it cannot be checked at admission"));
      }
    }
  });
}

void CheckInventory(Subject& subject, Findings& findings) {
  using loader::FieldSupport;
  absl::StatusOr<loader::DiscoverResult> first = absl::UnavailableError("not asked");
  findings.Run("discover answers", [&] {
    first = DiscoverWith(*subject.backend, FieldSupport::kKept);
    if (!findings.Expect(first.status(), "discover")) return;
    for (loader::DiscoverItem& item : first->items) {
      if (item.device) {
        subject.devices.push_back(*item.device);
        continue;
      }
      // INTERNAL is what the host makes of junk, and what a backend gives for a fault of its own.
      const std::string text =
          absl::StrCat(item.error_subject, " could not be looked at: ", item.error.ToString());
      if (absl::IsInternal(item.error)) {
        findings.Fail(text);
      } else {
        findings.Warn(text);
      }
    }
    if (subject.devices.empty())
      findings.Warn("there are no devices: the checks of claims have nothing to try");
  });
  if (!first.ok()) return;
  findings.Run("discover twice is equal", [&] {
    const absl::StatusOr<loader::DiscoverResult> second =
        DiscoverWith(*subject.backend, FieldSupport::kKept);
    if (!findings.Expect(second.status(), "second discover")) return;
    const Json difference = Json::diff(Digest(*first), Digest(*second));
    if (!difference.empty())
      findings.Fail(absl::StrCat("it changed: ", DumpJson(difference).substr(0, 400)));
  });
  findings.Run("device names and identities are unique", [&] {
    std::set<std::pair<std::string, std::string>> names;
    std::map<std::string, std::string> identities;
    for (const loader::DiscoveredDevice& device : subject.devices) {
      const std::string name = NameOf(device);
      if (!names.insert({device.pool, name}).second)
        findings.Fail(absl::StrCat("two devices are called ", name));
      if (device.identity.empty()) findings.Fail(absl::StrCat("device ", name, " has no identity"));
      const auto [other, fresh] = identities.insert({device.identity, name});
      if (!fresh)
        findings.Fail(
            absl::StrCat(name, " and ", other->second, " have one identity, ", device.identity));
    }
  });
  findings.Run("the API server would take every device", [&] {
    std::map<std::string, std::vector<const Json*>> pools;
    std::map<std::string, std::vector<const Json*>> counters;
    for (const loader::DiscoveredDevice& device : subject.devices) {
      pools[device.pool].push_back(&device.device);
      const resource::RepairedDevice repaired =
          resource::RepairDevice(subject.options->driver_name, device.device);
      for (const resource::Problem& problem : repaired.problems) {
        findings.Fail(absl::StrCat("device ", NameOf(device), " ", problem.field, " = ",
                                   problem.value, ": ", problem.problem,
                                   "; it would be: ", problem.action));
      }
    }
    for (const loader::CounterSet& set : first->counter_sets)
      counters[set.pool].push_back(&set.counter_set);
    for (const auto& [pool, devices] : pools) {
      for (const resource::FieldError& error : resource::ValidatePool(devices, counters[pool])) {
        findings.Fail(absl::StrCat("pool \"", pool, "\": ", error.ToString()));
      }
    }
  });
  findings.Run("attributes are declared and lasting", [&] { CheckAttributes(subject, findings); });
  for (const FieldSupport support : {FieldSupport::kUnknown, FieldSupport::kDropped}) {
    const char* word = support == FieldSupport::kUnknown ? "not known to keep" : "known to drop";
    findings.Run(absl::StrCat("nothing leans on fields that the server is ", word), [&] {
      const absl::StatusOr<loader::DiscoverResult> result = DiscoverWith(*subject.backend, support);
      if (!findings.Expect(result.status(), "discover")) return;
      for (const loader::DiscoverItem& item : result->items) {
        if (!item.device) continue;
        for (const std::string& field : GatedFields(item.device->device)) {
          findings.Fail(absl::StrCat("device ", NameOf(*item.device), " leans on ", field));
        }
      }
      if (!result->counter_sets.empty()) findings.Fail("there are counter sets");
    });
  }
}

void CheckHealthAndBusy(Subject& subject, Findings& findings) {
  findings.Run("health names devices that are there", [&] {
    const auto health = subject.backend->Health(Subject::LongCall());
    if (absl::IsUnimplemented(health.status()))
      return findings.Skip("the backend reports no health");
    if (!findings.Expect(health.status(), "health")) return;
    std::set<std::pair<std::string, std::string>> names;
    for (const loader::DiscoveredDevice& device : subject.devices)
      names.insert({device.pool, NameOf(device)});
    for (const loader::DeviceHealth& device : *health) {
      if (names.count({device.pool, device.device}) == 0) {
        findings.Fail(
            absl::StrCat("health of \"", device.device, "\", which discover does not emit"));
      }
      if (device.state == loader::HealthState::kUnhealthy && device.message.empty()) {
        findings.Warn(absl::StrCat(device.device, " is unhealthy without a message"));
      }
    }
  });
  findings.Run("busy answers for each device", [&] {
    for (const loader::DiscoveredDevice& device : subject.devices) {
      const auto busy = subject.backend->IsBusy(device.pool, NameOf(device), device.identity,
                                                Subject::LongCall());
      if (absl::IsUnimplemented(busy.status())) return findings.Skip("the backend does not know");
      if (!findings.Expect(busy.status(), absl::StrCat("busy of ", NameOf(device)))) return;
    }
  });
}

}  // namespace dra::conformance
