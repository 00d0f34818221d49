#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "dra/inventory/inventory.h"
#include "nlohmann/json.hpp"
#include "publisher/selection.h"

namespace dra::publisher {

// A field path of a refused ResourceSlice, as far as it tells what to leave out:
// "spec.devices[3].attributes[model].string" is {"devices", 3, "attributes", "model"}.
struct FieldPath {
  std::string list;  // member of spec
  std::optional<size_t> index;
  std::string member;  // of the item, "" if the item itself
  std::string key;     // in brackets behind the member, "" if none
};
// nullopt for a path outside spec.
std::optional<FieldPath> ParseFieldPath(absl::string_view field);

// One thing that an API server (or our own check in its place) would not take.
struct Refusal {
  enum class Subject { kDevice, kCounterSet, kSliceField };
  Subject subject = Subject::kDevice;
  std::string pool;
  std::string name;               // of the device, counter set or field
  std::vector<std::string> path;  // of a device: the member to leave out; empty: all of it
  Json original;                  // what the inventory had: another content is tried again
  Report report;
};

// What was refused and is left out until the inventory has something else in its place. Not thread-safe.
class Refusals {
 public:
  struct Cause {
    std::string field;
    std::string message;
  };

  // Reads the causes for one refused slice of `pool`, whose spec was `spec`. True if at least one more thing is left
  // out now; false if the causes name nothing that could be.
  bool Learn(const std::string& pool, const Json& spec, const std::vector<Cause>& causes,
             const inventory::Snapshot& snapshot, const HeldDevices& held);

  // The refusals of this subject that are still valid for this content. The pointers live until the next Learn or
  // Prune.
  std::vector<const Refusal*> For(Refusal::Subject subject, const std::string& pool,
                                  const std::string& name, const Json& original) const;

  // Forgets what the inventory has no more, or has changed.
  void Prune(const inventory::Snapshot& snapshot);

 private:
  bool Add(Refusal refusal);

  std::vector<Refusal> refusals_;
};

// Removes object[path[0]][path[1]]..., if it is there.
void ErasePath(Json& object, const std::vector<std::string>& path);

}  // namespace dra::publisher
