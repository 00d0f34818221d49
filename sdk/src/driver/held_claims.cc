#include "driver/held_claims.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dra/base/json.h"
#include "dra/base/status.h"
#include "dra/records/holds.h"
#include "dra/records/record_store.h"
#include "nlohmann/json.hpp"

namespace dra::driver {
namespace {

using ClaimsByUid = std::map<std::string, HeldClaim>;

// The entries of a directory; none if it is not there.
absl::StatusOr<std::vector<std::string>> ListOrNone(FileSystem& fs, const std::string& path) {
  absl::StatusOr<std::vector<std::string>> names = fs.List(path);
  if (absl::IsNotFound(names.status())) return std::vector<std::string>();
  return names;
}

HeldClaim FromRecord(const records::Record& record, const std::string& boot_id) {
  HeldClaim held;
  held.claim = record.claim;
  held.phase = std::string(records::PhaseName(record.phase));
  held.same_boot = boot_id.empty() || record.boot_id.empty() || record.boot_id == boot_id;
  for (const records::RecordDevice& device : record.devices)
    held.devices.emplace_back(device.pool, device.device);
  if (record.reserved_for.is_array()) {
    for (const Json& consumer : record.reserved_for) {
      if (StringOr(consumer, "resource") == "pods") held.pods.push_back(StringOr(consumer, "name"));
    }
  }
  held.last_error = record.last_error;
  return held;
}

absl::Status AddRecords(FileSystem& fs, const std::string& directory, const std::string& boot_id,
                        ClaimsByUid* claims) {
  records::RecordStore store(&fs, directory);
  const absl::StatusOr<std::vector<records::RecordStore::Item>> items = store.List();
  if (absl::IsNotFound(items.status())) return absl::OkStatus();
  DRA_RETURN_IF_ERROR(items.status());
  for (const records::RecordStore::Item& item : *items) {
    if (item.record.ok()) {
      HeldClaim held = FromRecord(*item.record, boot_id);
      if (held.claim.uid.empty()) held.claim.uid = item.claim_uid;
      (*claims)[item.claim_uid] = std::move(held);
    } else if (absl::IsDataLoss(item.record.status())) {
      HeldClaim& held = (*claims)[item.claim_uid];
      held.claim.uid = item.claim_uid;
      held.phase = "unreadable";
      held.last_error = std::string(item.record.status().message());
    } else {
      return item.record.status();
    }
  }
  return absl::OkStatus();
}

absl::Status AddHolds(FileSystem& fs, const std::string& directory, ClaimsByUid* claims) {
  DRA_ASSIGN_OR_RETURN(const std::vector<std::string> keys, ListOrNone(fs, directory));
  for (const std::string& key : keys) {
    const std::string of_key = JoinPath(directory, key);
    DRA_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListOrNone(fs, of_key));
    for (const std::string& name : names) {
      if (IsTemporaryName(name)) continue;
      const auto known = claims->find(name);
      const bool tells_more = known == claims->end() || known->second.devices.empty();
      if (!tells_more) continue;
      const absl::StatusOr<std::string> text = fs.ReadOwnFile(JoinPath(of_key, name));
      if (absl::IsNotFound(text.status())) continue;  // let go meanwhile
      DRA_RETURN_IF_ERROR(text.status());
      const absl::StatusOr<records::Hold> hold = records::DecodeHold(*text);
      HeldClaim& held = (*claims)[name];
      if (held.phase.empty()) held.phase = "held";
      if (hold.ok() && held.claim.name.empty()) held.claim = hold->claim;
      held.claim.uid = name;
      if (!hold.ok()) continue;
      for (const records::HeldDevice& device : hold->devices) {
        held.devices.emplace_back(device.pool, device.device);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<HeldClaim>> ReadHeldClaims(FileSystem& fs,
                                                      const std::string& data_directory,
                                                      const std::string& boot_id) {
  ClaimsByUid claims;
  DRA_RETURN_IF_ERROR(AddRecords(fs, JoinPath(data_directory, "claims"), boot_id, &claims));
  const std::string held = JoinPath(data_directory, "held");
  DRA_ASSIGN_OR_RETURN(const std::vector<std::string> boots, ListOrNone(fs, held));
  for (const std::string& boot : boots) {
    if (!boot_id.empty() && boot != boot_id) continue;
    DRA_RETURN_IF_ERROR(AddHolds(fs, JoinPath(held, boot), &claims));
  }
  std::vector<HeldClaim> result;
  result.reserve(claims.size());
  for (auto& [uid, claim] : claims) result.push_back(std::move(claim));
  return result;
}

std::string Describe(const HeldClaim& claim) {
  std::vector<std::string> devices;
  devices.reserve(claim.devices.size());
  for (const auto& [pool, device] : claim.devices)
    devices.push_back(absl::StrCat(pool, "/", device));
  std::string text = absl::StrCat(claim.claim.ToString(), ", ", claim.phase,
                                  claim.same_boot ? "" : " in an earlier boot", ", devices ",
                                  devices.empty() ? "unknown" : absl::StrJoin(devices, " "));
  if (!claim.pods.empty()) absl::StrAppend(&text, ", pods ", absl::StrJoin(claim.pods, " "));
  if (!claim.last_error.empty()) absl::StrAppend(&text, ", last error: ", claim.last_error);
  return text;
}

}  // namespace dra::driver
