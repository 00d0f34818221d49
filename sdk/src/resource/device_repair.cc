#include "dra/resource/device_repair.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/base/utf8.h"
#include "dra/resource/limits.h"
#include "dra/resource/names.h"
#include "dra/resource/slice.h"
#include "resource/attribute_repair.h"
#include "resource/device_rules.h"

namespace dra::resource {
namespace {

constexpr size_t kMaxShownBytes = 128;
constexpr char kAttributeDropped[] = "attribute dropped";
constexpr char kCapacityDropped[] = "capacity dropped";
constexpr char kDeviceDropped[] = "device dropped";

std::string Shown(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : DumpJson(value);
  return std::string(CutUtf8(text, kMaxShownBytes));
}

class Repairer {
 public:
  Repairer(absl::string_view driver_name, Json device)
      : own_domain_(absl::StrCat(driver_name, "/")), device_(std::move(device)) {}

  RepairedDevice Run() && {
    if (!device_.is_object()) {
      Report("", device_, absl::StrCat("must be an object, is ", device_.type_name()),
             kDeviceDropped);
      return {std::nullopt, std::move(problems_)};
    }
    RepairMap("attributes", kAttributeDropped);
    RepairMap("capacity", kCapacityDropped);
    RepairAttributes();
    const bool capacities_hold = RepairCapacities();
    LimitAttributes();
    const bool rest_holds = CheckRest();
    if (!capacities_hold || !rest_holds) return {std::nullopt, std::move(problems_)};
    return {std::move(device_), std::move(problems_)};
  }

 private:
  void Report(std::string field, const Json& value, std::string problem, std::string action) {
    problems_.push_back({std::move(field), Shown(value), std::move(problem), std::move(action)});
  }

  // Names of a map: bad and double names away, and the own domain of attributes. Capacities keep it: the allocator and
  // nodeAllocatableResources look them up as they are written, so a claim that asks for "<driver>/cpu" needs that name.
  void RepairMap(const std::string& member, const std::string& dropped) {
    const Json* map = Member(device_, member);
    if (map == nullptr) return;
    if (!map->is_object()) {
      Report(member, *map, absl::StrCat("must be an object, is ", map->type_name()),
             absl::StrCat(member, " dropped"));
      device_.erase(member);
      return;
    }
    Json repaired = Json::object();
    for (const auto& [name, value] : map->items()) {
      const std::string field = Key(member, name);
      std::string published = name;
      if (absl::StartsWith(name, own_domain_)) {
        const std::string bare = name.substr(own_domain_.size());
        if (map->contains(bare)) {
          Report(field, value, absl::StrCat("the same name as \"", bare, "\", which is published"),
                 dropped);
          continue;
        }
        if (member == "attributes") published = bare;  // the same name in its other spelling
      }
      if (const absl::Status status = CheckQualifiedName(published); !status.ok()) {
        Report(field, value, std::string(status.message()), dropped);
        continue;
      }
      repaired[published] = value;
    }
    device_[member] = std::move(repaired);
  }

  void RepairAttributes() {
    if (Member(device_, "attributes") == nullptr) return;
    Json repaired = Json::object();
    for (const auto& [name, value] : device_["attributes"].items()) {
      AttributeRepair repair = RepairAttribute(name, value);
      if (!repair.problem.empty()) {
        Report(Key("attributes", name), value, repair.problem,
               repair.attribute.has_value()
                   ? absl::StrCat("repaired to ", DumpJson(*repair.attribute))
                   : kAttributeDropped);
      }
      if (repair.attribute.has_value()) repaired[name] = std::move(*repair.attribute);
    }
    device_["attributes"] = std::move(repaired);
  }

  // False if the device must not be published without what was dropped.
  bool RepairCapacities() {
    if (Member(device_, "capacity") == nullptr) return true;
    const bool shared = BoolOr(device_, "allowMultipleAllocations");
    bool holds = true;
    Json repaired = Json::object();
    for (auto& [name, value] : device_["capacity"].items()) {
      const std::string field = Key("capacity", name);
      Json entry = value;
      std::string fault = CapacityFault(entry, shared);
      if (!fault.empty() && Member(entry, "requestPolicy") != nullptr) {
        const Json policy = entry["requestPolicy"];
        entry.erase("requestPolicy");
        if (CapacityFault(entry, shared).empty()) {
          Report(Child(field, "requestPolicy"), policy, std::move(fault), "requestPolicy dropped");
          fault.clear();
        }
      }
      if (fault.empty()) {
        repaired[name] = std::move(entry);
      } else {
        Report(field, value, std::move(fault), shared ? kDeviceDropped : kCapacityDropped);
        holds &= !shared;
      }
    }
    device_["capacity"] = std::move(repaired);
    return holds;
  }

  static std::string CapacityFault(const Json& entry, bool shared) {
    FieldReader reader;
    CheckCapacity(reader, entry, "", shared);
    return JoinFieldErrors(reader.Take());
  }

  void LimitAttributes() {
    const Json* capacity = Member(device_, "capacity");
    const size_t capacities = capacity == nullptr ? 0 : capacity->size();
    if (Member(device_, "attributes") == nullptr) return;
    Json& attributes = device_["attributes"];
    size_t values = 0;
    for (const Json& attribute : attributes) values += AttributeValueCount(attribute);
    while (!attributes.empty() && (attributes.size() + capacities > kMaxAttributesAndCapacities ||
                                   values > kMaxAttributeValues)) {
      const auto last = std::prev(attributes.end());
      Report(
          Key("attributes", last.key()), *last,
          absl::StrCat("a device has at most ", kMaxAttributesAndCapacities,
                       " attributes and capacities and ", kMaxAttributeValues, " attribute values"),
          kAttributeDropped);
      values -= AttributeValueCount(*last);
      attributes.erase(last);
    }
  }

  bool CheckRest() {
    bool holds = true;
    Json checked = device_;
    // Attributes of a newer type were let through on purpose; all others are valid by now.
    checked.erase("attributes");
    for (const FieldError& error : ValidateDevice(checked, "")) {
      Report(error.field, error.value, error.Detail(), kDeviceDropped);
      holds = false;
    }
    return holds;
  }

  const std::string own_domain_;
  Json device_;
  std::vector<Problem> problems_;
};

}  // namespace

RepairedDevice RepairDevice(absl::string_view driver_name, Json device) {
  return Repairer(driver_name, std::move(device)).Run();
}

absl::string_view CutUtf8(absl::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
  return text.substr(0, limit);
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8CharacterLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace dra::resource
