#include "dra/resource/time.h"

#include "absl/strings/ascii.h"

namespace dra::resource {

std::optional<absl::Time> ParseTime(absl::string_view text) {
  constexpr absl::string_view kShape = "0000-00-00T00:00:00";
  if (text.size() <= kShape.size() || text.substr(17, 2) > "59") return std::nullopt;
  for (size_t i = 0; i < kShape.size(); ++i) {
    const bool fits = kShape[i] == '0' ? absl::ascii_isdigit(static_cast<unsigned char>(text[i]))
                                       : text[i] == kShape[i];
    if (!fits) return std::nullopt;
  }
  if (text.back() != 'Z' && !absl::ascii_isdigit(static_cast<unsigned char>(text.back())))
    return std::nullopt;
  absl::Time time;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, nullptr)) return std::nullopt;
  return time;
}

}  // namespace dra::resource
