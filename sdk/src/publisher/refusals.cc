#include "publisher/refusals.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace dra::publisher {
namespace {

// Takes "[text]" from the front of `rest`. A key may itself hold dots and slashes, but no bracket.
std::optional<std::string> TakeBracket(absl::string_view& rest) {
  if (rest.empty() || rest[0] != '[') return std::nullopt;
  const size_t end = rest.find(']');
  if (end == absl::string_view::npos) return std::nullopt;
  const std::string inner(rest.substr(1, end - 1));
  rest.remove_prefix(end + 1);
  return inner;
}

std::string TakeName(absl::string_view& rest) {
  absl::ConsumePrefix(&rest, ".");
  const size_t end = rest.find_first_of(".[");
  const std::string name(rest.substr(0, end));
  rest.remove_prefix(end == absl::string_view::npos ? rest.size() : end);
  return name;
}

const Json* FindPath(const Json& object, const std::vector<std::string>& path) {
  const Json* value = &object;
  for (const std::string& step : path) {
    value = Find(*value, step);
    if (value == nullptr) return nullptr;
  }
  return value;
}

const inventory::Pool* FindPool(const inventory::Snapshot& snapshot, const std::string& name) {
  for (const inventory::Pool& pool : snapshot.pools) {
    if (pool.name == name) return &pool;
  }
  return nullptr;
}

// What the inventory has there now, or nullptr.
const Json* Original(const inventory::Snapshot& snapshot, Refusal::Subject subject,
                     const std::string& pool_name, const std::string& name) {
  const inventory::Pool* pool = FindPool(snapshot, pool_name);
  if (pool == nullptr) return nullptr;
  switch (subject) {
    case Refusal::Subject::kDevice:
      for (const auto& device : pool->devices) {
        if (device->name == name) return &device->device;
      }
      return nullptr;
    case Refusal::Subject::kCounterSet:
      for (const Json& set : pool->counter_sets) {
        if (StringOr(set, "name") == name) return &set;
      }
      return nullptr;
    case Refusal::Subject::kSliceField:
      return Find(pool->slice_fields, name);
  }
  return nullptr;
}

Report MakeReport(const Refusal& refusal, const FieldPath& path, const Json& value,
                  const std::string& message) {
  inventory::Finding finding;
  finding.pool = refusal.pool;
  finding.value = ShortText(value);
  finding.problem = message;
  Report report;
  if (refusal.subject == Refusal::Subject::kDevice) {
    finding.device = refusal.name;
    finding.field = path.key.empty() ? path.member : absl::StrCat(path.member, "[", path.key, "]");
    const bool attribute = refusal.path.size() == 2;
    finding.action = refusal.path.empty() ? "device dropped"
                     : attribute          ? "attribute dropped"
                                          : "published without the field";
    report.reason = refusal.path.empty() ? "DeviceDropped"
                    : attribute          ? "AttributeDropped"
                                         : "FieldDropped";
  } else {
    const bool counters = refusal.subject == Refusal::Subject::kCounterSet;
    finding.field = counters ? absl::StrCat("sharedCounters[", refusal.name, "]") : refusal.name;
    finding.action = counters ? "counter set dropped" : "published without the field";
    report.reason = "FieldDropped";
  }
  report.finding = std::move(finding);
  return report;
}

}  // namespace

std::optional<FieldPath> ParseFieldPath(absl::string_view field) {
  if (!absl::ConsumePrefix(&field, "spec.")) return std::nullopt;
  FieldPath path;
  path.list = TakeName(field);
  if (const auto index = TakeBracket(field)) {
    size_t number = 0;
    if (absl::SimpleAtoi(*index, &number)) path.index = number;
  }
  if (!field.empty()) {
    path.member = TakeName(field);
    path.key = TakeBracket(field).value_or("");
  }
  return path;
}

void ErasePath(Json& object, const std::vector<std::string>& path) {
  Json* value = &object;
  for (size_t i = 0; i < path.size(); ++i) {
    if (!value->is_object()) return;
    const auto found = value->find(path[i]);
    if (found == value->end()) return;
    if (i + 1 == path.size()) {
      value->erase(found);
      return;
    }
    value = &*found;
  }
}

bool Refusals::Add(Refusal refusal) {
  for (const Refusal& known : refusals_) {
    if (known.subject == refusal.subject && known.pool == refusal.pool &&
        known.name == refusal.name && known.path == refusal.path &&
        known.original == refusal.original) {
      return false;
    }
  }
  refusals_.push_back(std::move(refusal));
  return true;
}

bool Refusals::Learn(const std::string& pool, const Json& spec, const std::vector<Cause>& causes,
                     const inventory::Snapshot& snapshot, const HeldDevices& held) {
  bool learned = false;
  for (const Cause& cause : causes) {
    const std::optional<FieldPath> path = ParseFieldPath(cause.field);
    if (!path.has_value()) continue;
    Refusal refusal;
    refusal.pool = pool;
    const Json* item = nullptr;
    if (path->list == "devices" || path->list == "sharedCounters") {
      refusal.subject =
          path->list == "devices" ? Refusal::Subject::kDevice : Refusal::Subject::kCounterSet;
      const Json* list = Find(spec, path->list);
      if (list == nullptr || !path->index.has_value() || *path->index >= list->size()) continue;
      item = &(*list)[*path->index];
      refusal.name = StringOr(*item, "name");
    } else {
      refusal.subject = Refusal::Subject::kSliceField;
      refusal.name = path->list;
      item = Find(spec, path->list);
    }
    const Json* original = Original(snapshot, refusal.subject, pool, refusal.name);
    if (original == nullptr || item == nullptr) continue;
    refusal.original = *original;
    Json value = *item;
    if (refusal.subject == Refusal::Subject::kDevice && !path->member.empty()) {
      std::vector<std::string> member = {path->member};
      const bool entry = path->member == "attributes" || path->member == "capacity";
      if (entry && !path->key.empty()) member.push_back(path->key);
      if (const Json* found = FindPath(*item, member)) {
        value = *found;
        // Leaving out a taint or a counter changes what a device means, so then the device goes; unless a claim has
        // it, since a held device stays published.
        const bool harmless = member.size() == 2;
        if (harmless || (held.count({pool, refusal.name}) != 0 && path->member != "name")) {
          refusal.path = std::move(member);
        }
      }
    }
    refusal.report = MakeReport(refusal, *path, value, cause.message);
    if (Add(std::move(refusal))) learned = true;
  }
  return learned;
}

std::vector<const Refusal*> Refusals::For(Refusal::Subject subject, const std::string& pool,
                                          const std::string& name, const Json& original) const {
  std::vector<const Refusal*> found;
  for (const Refusal& refusal : refusals_) {
    if (refusal.subject == subject && refusal.pool == pool && refusal.name == name &&
        refusal.original == original) {
      found.push_back(&refusal);
    }
  }
  return found;
}

void Refusals::Prune(const inventory::Snapshot& snapshot) {
  std::erase_if(refusals_, [&](const Refusal& refusal) {
    const Json* now = Original(snapshot, refusal.subject, refusal.pool, refusal.name);
    return now == nullptr || *now != refusal.original;
  });
}

}  // namespace dra::publisher
