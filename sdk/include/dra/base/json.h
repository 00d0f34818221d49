#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace dra {

// The one JSON value type of the SDK. Headers include this file; a .cc that touches values includes nlohmann/json.hpp.
using Json = nlohmann::json;

// Parses one JSON document. Errors: InvalidArgument with `what` and the byte position. Duplicate keys: the last wins,
// as for every Kubernetes reader; the strict reader for backends is dra/backend/json_reader.h.
absl::StatusOr<Json> ParseJson(absl::string_view text, absl::string_view what);
// The same, and the document must be an object.
absl::StatusOr<Json> ParseJsonObject(absl::string_view text, absl::string_view what);

// Compact text; bytes that are not UTF-8 become U+FFFD instead of an exception.
std::string DumpJson(const Json& value);
// The same with an indent of two, for files a person reads.
std::string DumpJsonPretty(const Json& value);

// object[key] if `object` is an object that has it, else nullptr.
const Json* Find(const Json& object, absl::string_view key);
// The string at object[key], or `fallback` if absent or of another type.
std::string StringOr(const Json& object, absl::string_view key, absl::string_view fallback = "");
// The boolean at object[key], or false.
bool BoolOr(const Json& object, absl::string_view key, bool fallback = false);
// The integer at object[key], or `fallback`.
int64_t IntOr(const Json& object, absl::string_view key, int64_t fallback = 0);

}  // namespace dra
