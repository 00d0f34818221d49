#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "dra/records/record.h"
#include "nlohmann/json.hpp"

namespace dra::records {

// One device of a hold.
struct HeldDevice {
  std::string pool;
  std::string device;
  std::optional<std::string> share_id;
  bool admin_access = false;  // uses the device beside its owner: neither refuses nor is refused
  std::string shape;          // in which form it takes the key's hardware
  std::map<std::string, std::string> consumed_capacity;  // of a share: name -> Quantity
  std::map<std::string, std::string> counters;  // of a counter set's key: counter -> Quantity
};

// What one claim holds of one exclusion key. The file held/<boot id>/<key hash>/<claim uid>: design 3.3.
struct Hold {
  std::string key;
  RecordClaim claim;
  std::vector<HeldDevice> devices;
};

// The keys of a device that has none of its own, and of a counter set.
std::string DeviceKey(absl::string_view pool, absl::string_view device);
std::string CounterSetKey(absl::string_view pool, absl::string_view counter_set);

// The key of a device of which only the name is known: the claim's record is damaged, and its CDI file tells names but
// no pools. Who holds it keeps devices of that name in every pool from others.
std::string AnyPoolKey(absl::string_view device);

// The holds of a record: one for each exclusion key and each counter set its devices use, sorted by key. Pure.
std::vector<Hold> HoldsOf(const Record& record);
// Their keys, for ClaimLocks.
std::vector<std::string> KeysOf(const std::vector<Hold>& holds);

std::string EncodeHold(const Hold& hold);
// Errors: DataLoss. Lenient with members it does not know.
absl::StatusOr<Hold> DecodeHold(absl::string_view text);

}  // namespace dra::records
