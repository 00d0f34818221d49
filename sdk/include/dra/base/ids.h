#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/file_system.h"

namespace dra {

// SHA-256 of the bytes.
std::array<uint8_t, 32> Sha256(absl::string_view bytes);
// Lower-case hexadecimal SHA-256 of the bytes, 64 characters.
std::string Sha256Hex(absl::string_view bytes);
// URL-safe base64 without padding of the first `bytes_used` bytes of the SHA-256 of `bytes`.
std::string Sha256Base64Url(absl::string_view bytes, size_t bytes_used);

// `bytes` random bytes as lower-case hexadecimal.
std::string RandomHex(size_t bytes);
// A random RFC 4122 UUID, lower case, 36 characters.
std::string NewUuid();
// True for a lower-case or upper-case RFC 4122 text of 36 characters.
bool IsUuid(absl::string_view text);

// True if `uid` may name a file: 1 to 128 characters of [A-Za-z0-9._-], not starting with '.'.
// Claim UIDs come from the kubelet and the API server; nothing else is let near a path.
bool IsSafeFileId(absl::string_view uid);

// The kernel's boot id (36 characters), read from <proc_root>/sys/kernel/random/boot_id. It differs after each reboot.
absl::StatusOr<std::string> ReadBootId(FileSystem& fs, absl::string_view proc_root = "/proc");

}  // namespace dra
