#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/backend/abi.h"
#include "dra/base/json.h"

namespace dra::loader {

// What the host takes from a backend at most.
inline constexpr size_t kMaxJsonBytes = 1 << 20;      // one device, one edits object
inline constexpr size_t kMaxManifestBytes = 4 << 20;  // with JSON schemas
inline constexpr size_t kMaxTextBytes = 4096;         // identities, messages
inline constexpr size_t kMaxUndoBytes = 256 << 10;
inline constexpr size_t kMaxNoteBytes = 64 << 10;
inline constexpr size_t kMaxSharedFileBytes = 16 << 20;
inline constexpr size_t kMaxJsonDepth = 64;
inline constexpr size_t kMaxItems = 16384;  // devices, errors, health reports of one call

// The bytes as they are. Errors: InvalidArgument naming `what` for a NULL pointer with a size or more than `max_bytes`.
absl::StatusOr<absl::string_view> CheckedView(dra_str bytes, size_t max_bytes,
                                              absl::string_view what);
absl::StatusOr<std::string> CheckedBytes(dra_str bytes, size_t max_bytes, absl::string_view what);
// The same, and they must be UTF-8 without NUL.
absl::StatusOr<std::string> CheckedText(dra_str text, size_t max_bytes, absl::string_view what);
// Text that only people read: bad bytes become '?', what is too long is cut.
std::string ShownText(dra_str text, size_t max_bytes = kMaxTextBytes);

// A JSON document, nested at most kMaxJsonDepth levels. Empty text gives null.
absl::StatusOr<Json> CheckedJson(dra_str text, absl::string_view what,
                                 size_t max_bytes = kMaxJsonBytes);
// The same, which must be an object (or null where empty).
absl::StatusOr<Json> CheckedObject(dra_str text, absl::string_view what,
                                   size_t max_bytes = kMaxJsonBytes);

// True for UTF-8 without NUL, overlong forms and surrogates.
bool IsCleanUtf8(absl::string_view text);
// A DNS label of at most 63 bytes, as device names and backend names must be.
bool IsDnsLabel(absl::string_view text);

// The status for a hook's code and error; codes out of range become Unknown. `err` was owned by the host.
absl::Status ToStatus(dra_code code, const dra_error& err, absl::string_view hook);
// Fills a backend's error struct from a status; returns the code.
dra_code FromStatus(const absl::Status& status, dra_error* err);

inline dra_str View(const std::string& text) { return {text.data(), text.size()}; }

}  // namespace dra::loader
