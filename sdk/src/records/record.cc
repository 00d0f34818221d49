#include "dra/records/record.h"

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"

namespace dra::records {
namespace {

// The file is one JSON object, and the payload lies in it as whole lines, so that the checksum can be taken (and
// checked by hand) over stored bytes: a checksum over re-serialised values breaks with every library update (CKP-01).
constexpr absl::string_view kHead = "{\"format\":\"dra-record/";
constexpr absl::string_view kHash = "\",\"sha256\":\"";
constexpr absl::string_view kOpen = "\",\"record\":\n";
constexpr absl::string_view kTail = "}\n";

constexpr std::array<absl::string_view, kPhases> kPhaseNames = {
    "preparing", "prepared", "unpreparing", "dirty", "quarantined"};

constexpr std::array<absl::string_view, 13> kRecordMembers = {
    "phase", "bootId",  "claim",       "reservedFor", "allocationDigest", "devices", "edits",
    "undo",  "backend", "sharedFiles", "since",       "lastError",        "lost"};
constexpr std::array<absl::string_view, 7> kDeviceMembers = {
    "result", "identity", "exclusionKeys", "consumesCounters", "configs", "edits", "status"};

template <size_t N>
Json UnknownMembers(const Json& object, const std::array<absl::string_view, N>& known) {
  Json unknown = Json::object();
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), absl::string_view(name)) == known.end()) {
      unknown[name] = value;
    }
  }
  return unknown;
}

Json MemberOr(const Json& object, absl::string_view key, Json fallback) {
  const Json* value = Find(object, key);
  return value == nullptr ? std::move(fallback) : *value;
}

void PutUnlessNull(Json& object, const char* key, const Json& value) {
  if (!value.is_null()) object[key] = value;
}

Json EncodeDevice(const RecordDevice& device) {
  Json json = device.unknown.is_object() ? device.unknown : Json::object();
  json["result"] = device.result;
  json["identity"] = device.identity;
  Json keys = Json::array();
  for (const KeyShape& key : device.exclusion_keys) {
    keys.push_back({{"key", key.key}, {"shape", key.shape}});
  }
  json["exclusionKeys"] = std::move(keys);
  PutUnlessNull(json, "consumesCounters", device.consumes_counters);
  PutUnlessNull(json, "configs", device.configs);
  PutUnlessNull(json, "edits", device.edits);
  PutUnlessNull(json, "status", device.status);
  return json;
}

absl::StatusOr<RecordDevice> DecodeDevice(const Json& json, size_t index) {
  RecordDevice device;
  device.result = MemberOr(json, "result", Json());
  device.pool = StringOr(device.result, "pool");
  device.device = StringOr(device.result, "device");
  if (device.pool.empty() || device.device.empty()) {
    return absl::DataLossError(absl::StrCat("devices[", index, "].result names no pool or device"));
  }
  device.request = StringOr(device.result, "request");
  const std::string share = StringOr(device.result, "shareID");
  if (!share.empty()) device.share_id = share;
  device.admin_access = BoolOr(device.result, "adminAccess");
  device.identity = StringOr(json, "identity");
  if (const Json* keys = Find(json, "exclusionKeys"); keys != nullptr && keys->is_array()) {
    for (const Json& key : *keys) {
      device.exclusion_keys.push_back({StringOr(key, "key"), StringOr(key, "shape")});
      if (device.exclusion_keys.back().key.empty()) {
        return absl::DataLossError(
            absl::StrCat("devices[", index, "].exclusionKeys has an entry without a key"));
      }
    }
  }
  device.consumes_counters = MemberOr(json, "consumesCounters", Json());
  device.configs = MemberOr(json, "configs", Json());
  device.edits = MemberOr(json, "edits", Json());
  device.status = MemberOr(json, "status", Json());
  device.unknown = UnknownMembers(json, kDeviceMembers);
  return device;
}

absl::StatusOr<Record> FromPayload(const Json& json, absl::string_view uid) {
  Record record;
  const std::string phase = StringOr(json, "phase");
  const std::optional<Phase> parsed = ParsePhase(phase);
  if (!parsed.has_value() || *parsed == Phase::kQuarantined) {
    return absl::DataLossError(absl::StrCat("unknown phase \"", phase, "\""));
  }
  record.phase = *parsed;
  record.boot_id = StringOr(json, "bootId");
  const Json claim = MemberOr(json, "claim", Json::object());
  record.claim = {StringOr(claim, "namespace"), StringOr(claim, "name"), StringOr(claim, "uid")};
  if (uid != record.claim.uid) {
    return absl::DataLossError(absl::StrCat("it is the record of claim uid \"", record.claim.uid,
                                            "\", not of \"", uid, "\""));
  }
  record.reserved_for = MemberOr(json, "reservedFor", Json::array());
  record.allocation_digest = StringOr(json, "allocationDigest");
  if (const Json* devices = Find(json, "devices"); devices != nullptr) {
    if (!devices->is_array()) return absl::DataLossError("\"devices\" is not an array");
    for (size_t i = 0; i < devices->size(); ++i) {
      DRA_ASSIGN_OR_RETURN(RecordDevice device, DecodeDevice((*devices)[i], i));
      record.devices.push_back(std::move(device));
    }
  }
  record.claim_edits = MemberOr(json, "edits", Json());
  if (const Json* undo = Find(json, "undo"); undo != nullptr) {
    if (!undo->is_string() || !absl::Base64Unescape(undo->get<std::string>(), &record.undo)) {
      return absl::DataLossError("\"undo\" is not base64");
    }
    record.has_undo = true;
  }
  record.backend = StringOr(json, "backend");
  if (const Json* files = Find(json, "sharedFiles"); files != nullptr && files->is_array()) {
    for (const Json& file : *files) {
      if (file.is_string()) record.shared_files.push_back(file.get<std::string>());
    }
  }
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, StringOr(json, "since"), &record.since, &error)) {
    record.since = absl::UnixEpoch();
  }
  record.last_error = StringOr(json, "lastError");
  record.lost = BoolOr(json, "lost");
  record.unknown = UnknownMembers(json, kRecordMembers);
  return record;
}

}  // namespace

absl::string_view PhaseName(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

std::optional<Phase> ParsePhase(absl::string_view name) {
  const auto* found = std::find(kPhaseNames.begin(), kPhaseNames.end(), name);
  if (found == kPhaseNames.end()) return std::nullopt;
  return static_cast<Phase>(found - kPhaseNames.begin());
}

std::string RecordClaim::ToString() const {
  if (name.empty()) return absl::StrCat("uid ", uid);
  return absl::StrCat(namespace_name, "/", name, " (uid ", uid, ")");
}

std::string EncodeRecord(const Record& record) {
  Json json = record.unknown.is_object() ? record.unknown : Json::object();
  json["phase"] = std::string(PhaseName(record.phase));
  json["bootId"] = record.boot_id;
  json["claim"] = {{"namespace", record.claim.namespace_name},
                   {"name", record.claim.name},
                   {"uid", record.claim.uid}};
  json["reservedFor"] = record.reserved_for.is_null() ? Json::array() : record.reserved_for;
  json["allocationDigest"] = record.allocation_digest;
  Json devices = Json::array();
  for (const RecordDevice& device : record.devices) devices.push_back(EncodeDevice(device));
  json["devices"] = std::move(devices);
  PutUnlessNull(json, "edits", record.claim_edits);
  if (record.has_undo) json["undo"] = absl::Base64Escape(record.undo);
  json["backend"] = record.backend;
  if (!record.shared_files.empty()) json["sharedFiles"] = record.shared_files;
  json["since"] = absl::FormatTime(absl::RFC3339_full, record.since, absl::UTCTimeZone());
  if (!record.last_error.empty()) json["lastError"] = record.last_error;
  if (record.lost) json["lost"] = true;
  const std::string payload = absl::StrCat(DumpJson(json), "\n");
  return absl::StrCat(kHead, kFormatMajor, ".", std::max(kFormatMinor, record.format_minor), kHash,
                      Sha256Hex(payload), kOpen, payload, kTail);
}

absl::StatusOr<Record> DecodeRecord(absl::string_view text, absl::string_view uid) {
  if (text.empty()) return absl::DataLossError("the file is empty");
  const size_t first_line = text.find('\n');
  if (!absl::StartsWith(text, kHead) || first_line == absl::string_view::npos) {
    return absl::DataLossError("the first line is not that of a record");
  }
  const absl::string_view head = text.substr(kHead.size(), first_line + 1 - kHead.size());
  const size_t version_end = head.find(kHash);
  const size_t dot = head.find('.');
  int major = 0;
  int minor = 0;
  if (version_end == absl::string_view::npos || dot >= version_end ||
      !absl::SimpleAtoi(head.substr(0, dot), &major) ||
      !absl::SimpleAtoi(head.substr(dot + 1, version_end - dot - 1), &minor)) {
    return absl::DataLossError("the first line has no format version");
  }
  if (major != kFormatMajor) {
    return absl::DataLossError(absl::StrCat("format ", major, ".", minor,
                                            " is not readable by this version, which knows ",
                                            kFormatMajor, ".x"));
  }
  const absl::string_view rest = head.substr(version_end + kHash.size());
  constexpr size_t kHexDigits = 64;
  if (rest.size() != kHexDigits + kOpen.size() || rest.substr(kHexDigits) != kOpen) {
    return absl::DataLossError("the first line has no checksum");
  }
  absl::string_view payload = text.substr(first_line + 1);
  if (!absl::EndsWith(payload, absl::StrCat("\n", kTail))) {
    return absl::DataLossError(absl::StrCat("the file is cut short at ", text.size(), " bytes"));
  }
  payload.remove_suffix(kTail.size());
  const std::string computed = Sha256Hex(payload);
  const absl::string_view stored = rest.substr(0, kHexDigits);
  if (stored != computed) {
    return absl::DataLossError(absl::StrCat("checksum mismatch: the first line says ", stored,
                                            ", the ", payload.size(), " bytes of \"record\" have ",
                                            computed));
  }
  const absl::StatusOr<Json> json = ParseJsonObject(payload, "record");
  if (!json.ok()) return absl::DataLossError(json.status().message());
  DRA_ASSIGN_OR_RETURN(Record record, FromPayload(*json, uid));
  record.format_minor = minor;
  return record;
}

RecordClaim GuessClaim(absl::string_view text, absl::string_view uid) {
  RecordClaim claim;
  claim.uid = std::string(uid);
  const size_t first_line = text.find('\n');
  if (first_line == absl::string_view::npos) return claim;
  absl::string_view payload = text.substr(first_line + 1);
  absl::ConsumeSuffix(&payload, kTail);
  const absl::StatusOr<Json> json = ParseJsonObject(payload, "record");
  if (!json.ok()) return claim;
  const Json* stored = Find(*json, "claim");
  if (stored == nullptr || StringOr(*stored, "uid") != uid) return claim;
  claim.namespace_name = StringOr(*stored, "namespace");
  claim.name = StringOr(*stored, "name");
  return claim;
}

}  // namespace dra::records
