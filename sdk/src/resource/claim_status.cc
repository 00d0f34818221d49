#include "dra/resource/claim_status.h"

#include <arpa/inet.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "dra/resource/limits.h"
#include "dra/resource/names.h"
#include "dra/resource/time.h"
#include "resource/field_reader.h"

namespace dra::resource {
namespace {

using DeviceKey = std::tuple<std::string, std::string, std::string, std::string>;

DeviceKey KeyOf(const Json& object) {
  return {StringOr(object, "driver"), StringOr(object, "pool"), StringOr(object, "device"),
          StringOr(object, "shareID")};
}

std::set<DeviceKey> AllocatedDevices(const Json& allocation) {
  std::set<DeviceKey> keys;
  const Json* devices = Member(allocation, "devices");
  const Json* results = devices == nullptr ? nullptr : Member(*devices, "results");
  if (results == nullptr || !results->is_array()) return keys;
  for (const Json& result : *results) keys.insert(KeyOf(result));
  return keys;
}

// "address/prefix" as it stands in canonical form: the server refuses other spellings.
bool IsCanonicalInterfaceAddress(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return false;
  const std::string address = text.substr(0, slash);
  const std::string prefix = text.substr(slash + 1);
  int bits = 0;
  if (!absl::SimpleAtoi(prefix, &bits) || absl::StrCat(bits) != prefix || bits < 0) return false;
  unsigned char bytes[16];
  char shown[INET6_ADDRSTRLEN];
  for (const int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, address.c_str(), bytes) != 1) continue;
    return bits <= (family == AF_INET ? 32 : 128) &&
           inet_ntop(family, bytes, shown, sizeof(shown)) != nullptr && address == shown;
  }
  return false;
}

bool IsReason(const std::string& text) {
  const auto is_word = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  return absl::ascii_isalpha(static_cast<unsigned char>(text.front())) && is_word(text.back()) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_word(c) || c == ',' || c == ':'; });
}

void CheckCondition(FieldReader& reader, const Json& condition, const std::string& path) {
  if (!reader.IsObject(condition, path)) return;
  if (const std::string* type = reader.Name(condition, path, "type", CheckLabelName);
      type != nullptr && type->size() > kMaxConditionTypeBytes) {
    reader.TooLong(Child(path, "type"), *type, kMaxConditionTypeBytes);
  }
  const std::string status = StringOr(condition, "status");
  if (status.empty()) {
    reader.Required(Child(path, "status"), "");
  } else if (status != "True" && status != "False" && status != "Unknown") {
    reader.NotSupported(Child(path, "status"), status, {"False", "True", "Unknown"});
  }
  if (reader.Int(condition, path, "observedGeneration").value_or(0) < 0) {
    reader.Invalid(Child(path, "observedGeneration"), *Find(condition, "observedGeneration"),
                   "must be greater than or equal to zero");
  }
  const std::string* time_text = reader.String(condition, path, "lastTransitionTime");
  if (time_text == nullptr || time_text->empty()) {
    reader.Required(Child(path, "lastTransitionTime"), "");
  } else if (!ParseTime(*time_text).has_value()) {
    reader.Invalid(Child(path, "lastTransitionTime"), *time_text, "must be an RFC 3339 time");
  }
  const std::string reason = StringOr(condition, "reason");
  if (reason.empty()) {
    reader.Required(Child(path, "reason"), "");
  } else if (reason.size() > kMaxConditionReasonBytes) {
    reader.TooLong(Child(path, "reason"), reason, kMaxConditionReasonBytes);
  } else if (!IsReason(reason)) {
    reader.Invalid(Child(path, "reason"), reason,
                   "must start with a letter, end with a letter, digit or '_', and have only "
                   "these, ',' and ':'");
  }
  const std::string* message = reader.String(condition, path, "message");
  if (message != nullptr && message->size() > kMaxConditionMessageBytes) {
    reader.TooLong(Child(path, "message"), *message, kMaxConditionMessageBytes);
  }
}

void CheckConditions(FieldReader& reader, const Json& status, const std::string& path) {
  const Json* conditions = reader.Array(status, path, "conditions");
  if (conditions == nullptr) return;
  const std::string list_path = Child(path, "conditions");
  if (conditions->size() > kMaxDeviceConditions)
    reader.TooMany(list_path, conditions->size(), kMaxDeviceConditions);
  std::set<std::string> types;
  for (size_t i = 0; i < conditions->size(); ++i) {
    const Json& condition = (*conditions)[i];
    CheckCondition(reader, condition, Index(list_path, i));
    const std::string type = StringOr(condition, "type");
    if (!type.empty() && !types.insert(type).second)
      reader.Duplicate(Child(Index(list_path, i), "type"), type);
  }
}

void CheckNetworkData(FieldReader& reader, const Json& network, const std::string& path) {
  const std::string* interface = reader.String(network, path, "interfaceName");
  if (interface != nullptr && interface->size() > kMaxInterfaceNameBytes) {
    reader.TooLong(Child(path, "interfaceName"), *interface, kMaxInterfaceNameBytes);
  }
  const std::string* address = reader.String(network, path, "hardwareAddress");
  if (address != nullptr && address->size() > kMaxHardwareAddressBytes) {
    reader.TooLong(Child(path, "hardwareAddress"), *address, kMaxHardwareAddressBytes);
  }
  const Json* ips = reader.Array(network, path, "ips");
  if (ips == nullptr) return;
  const std::string list_path = Child(path, "ips");
  if (ips->size() > kMaxNetworkIps) reader.TooMany(list_path, ips->size(), kMaxNetworkIps);
  std::set<std::string> seen;
  for (size_t i = 0; i < ips->size(); ++i) {
    const std::string* ip = reader.AsString((*ips)[i], Index(list_path, i));
    if (ip == nullptr) continue;
    if (!IsCanonicalInterfaceAddress(*ip)) {
      reader.Invalid(Index(list_path, i), *ip,
                     "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)");
    }
    if (!seen.insert(*ip).second) reader.Duplicate(Index(list_path, i), *ip);
  }
}

}  // namespace

std::vector<FieldError> ValidateDeviceStatuses(const Json& statuses, const Json& allocation) {
  FieldReader reader;
  constexpr char kPath[] = "status.devices";
  if (statuses.is_null()) return {};
  if (!statuses.is_array()) {
    reader.Invalid(kPath, statuses, "must be an array");
    return reader.Take();
  }
  const std::set<DeviceKey> allocated = AllocatedDevices(allocation);
  std::set<DeviceKey> seen;
  for (size_t i = 0; i < statuses.size(); ++i) {
    const Json& status = statuses[i];
    const std::string path = Index(kPath, i);
    if (!reader.IsObject(status, path)) continue;
    reader.Name(status, path, "driver", CheckDriverNameAsServer);
    reader.Name(status, path, "pool", CheckPoolName);
    reader.Name(status, path, "device", CheckDnsLabel);
    const std::string* share = reader.String(status, path, "shareID");
    if (share != nullptr) reader.CheckName(*share, Child(path, "shareID"), CheckShareId(*share));
    const DeviceKey key = KeyOf(status);
    const Json shown = absl::StrCat(std::get<0>(key), "/", std::get<1>(key), "/", std::get<2>(key),
                                    std::get<3>(key).empty() ? "" : "/", std::get<3>(key));
    if (!seen.insert(key).second) reader.Duplicate(path, shown);
    if (!allocated.contains(key))
      reader.Invalid(path, shown, "must be an allocated device in the claim");
    CheckConditions(reader, status, path);
    const Json* data = reader.Object(status, path, "data");
    if (data != nullptr && DumpJson(*data).size() > kMaxDeviceStatusDataBytes) {
      reader.TooLong(Child(path, "data"), nullptr, kMaxDeviceStatusDataBytes);
    }
    if (const Json* network = reader.Object(status, path, "networkData")) {
      CheckNetworkData(reader, *network, Child(path, "networkData"));
    }
  }
  return reader.Take();
}

}  // namespace dra::resource
