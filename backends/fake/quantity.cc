#include "quantity.h"

#include <cctype>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>

namespace fake {
namespace {

constexpr size_t kMaxDigits = 18;  // fit into 64 bits
constexpr int kMaxExponent = 100;

struct Scale {
  int binary = 0;   // powers of 1024
  int decimal = 0;  // powers of 10
};

std::optional<Scale> ReadSuffix(const std::string& suffix) {
  static const std::string kBinary = "KMGTPE";
  static const std::string kDecimal = "kMGTPE";
  static const std::string kSmall = "mun";
  if (suffix.empty()) return Scale{};
  if (suffix.size() == 2 && suffix[1] == 'i') {
    const size_t power = kBinary.find(suffix[0]);
    if (power == std::string::npos) return std::nullopt;
    return Scale{static_cast<int>(power) + 1, 0};
  }
  if (suffix.size() == 1) {
    if (const size_t power = kDecimal.find(suffix[0]); power != std::string::npos)
      return Scale{0, 3 * (static_cast<int>(power) + 1)};
    if (const size_t power = kSmall.find(suffix[0]); power != std::string::npos)
      return Scale{0, -3 * (static_cast<int>(power) + 1)};
    return std::nullopt;
  }
  if (suffix[0] != 'e' && suffix[0] != 'E') return std::nullopt;
  const char* begin = suffix.data() + (suffix[1] == '+' ? 2 : 1);
  const char* end = suffix.data() + suffix.size();
  int exponent = 0;
  const auto [stop, error] = std::from_chars(begin, end, exponent);
  if (error != std::errc() || stop != end || exponent < -kMaxExponent || exponent > kMaxExponent)
    return std::nullopt;
  return Scale{0, exponent};
}

}  // namespace

std::string PlainNumber(const std::string& quantity) {
  uint64_t value = 0;
  size_t digits = 0;
  int after_point = -1;  // -1: no point yet
  size_t i = 0;
  for (; i < quantity.size(); ++i) {
    const char c = quantity[i];
    if (c == '.' && after_point < 0) {
      after_point = 0;
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      value = value * 10 + static_cast<uint64_t>(c - '0');
      if (after_point >= 0) ++after_point;
      if (++digits > kMaxDigits) return quantity;
    } else {
      break;
    }
  }
  const std::optional<Scale> scale = ReadSuffix(quantity.substr(i));
  if (digits == 0 || !scale) return quantity;
  for (int power = 0; power < scale->binary; ++power) {
    if (value > std::numeric_limits<uint64_t>::max() / 1024) return quantity;
    value *= 1024;
  }
  if (value == 0) return "0";
  std::string text = std::to_string(value);
  const int exponent = scale->decimal - (after_point > 0 ? after_point : 0);
  if (exponent >= 0) return text + std::string(static_cast<size_t>(exponent), '0');
  const size_t places = static_cast<size_t>(-exponent);
  if (text.size() <= places) text.insert(0, places + 1 - text.size(), '0');
  std::string fraction = text.substr(text.size() - places);
  text.resize(text.size() - places);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return fraction.empty() ? text : text + "." + fraction;
}

}  // namespace fake
