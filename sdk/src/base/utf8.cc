#include "dra/base/utf8.h"

#include <algorithm>

namespace dra {

size_t Utf8CharacterLength(absl::string_view text) {
  const auto byte = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : (first >= 0xE0 ? 3 : 2);
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond U+10FFFF.
  const unsigned char second = byte(1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) {
    return 0;
  }
  return length;
}

std::string ValidUtf8Prefix(absl::string_view text, size_t max_bytes) {
  std::string prefix;
  while (!text.empty()) {
    const size_t length = Utf8CharacterLength(text);
    const size_t step = std::max<size_t>(length, 1);
    if (prefix.size() + step > max_bytes) break;
    if (length == 0) {
      prefix.push_back('?');
    } else {
      prefix.append(text.data(), length);
    }
    text.remove_prefix(step);
  }
  return prefix;
}

}  // namespace dra
