#include "kubelet/text.h"

#include <algorithm>

namespace dra::kubelet {
namespace {

constexpr size_t kMaxErrorBytes = 4096;

// Length of the valid UTF-8 character at `text[at]`, 0 if there is none.
size_t CharacterLength(absl::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : (first >= 0xE0 ? 3 : 2);
  if (first < 0xC2 || first > 0xF4 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, above U+10FFFF.
  const unsigned char second = byte(1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) {
    return 0;
  }
  return length;
}

}  // namespace

std::string WireText(absl::string_view text, size_t max_bytes) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = CharacterLength(text, at);
    if (out.size() + std::max<size_t>(length, 1) > max_bytes) break;
    if (length == 0) {
      out.push_back('?');
    } else {
      out.append(text.data() + at, length);
    }
    at += std::max<size_t>(length, 1);
  }
  return out;
}

std::string WireError(const absl::Status& status) {
  if (status.ok()) return "";
  const absl::string_view message = status.message();
  if (message.empty()) return absl::StatusCodeToString(status.code());
  return WireText(message, kMaxErrorBytes);
}

}  // namespace dra::kubelet
