#include "dra/resource/quantity.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "dra/base/status.h"
#include "nlohmann/json.hpp"

namespace dra::resource {
namespace {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

constexpr Int128 kNano = 1000000000;
constexpr Int128 kNanoPerMilli = 1000000;
constexpr Int128 kMaxNano = Int128{std::numeric_limits<int64_t>::max()} * kNano;
constexpr Int128 kMaxInt128 = static_cast<Int128>(~Uint128{0} >> 1);
// Far more digits than any value between 1n and 2^63 needs; bounds the work on hostile text.
constexpr size_t kMaxTextBytes = 128;

struct Suffix {
  Quantity::Format format = Quantity::Format::kDecimalSi;
  int power_of_ten = 0;
  int power_of_1024 = 0;
};

constexpr absl::string_view kDecimalSuffixes =
    "num kMGTPE";                                        // 10^-9 ... 10^18, ' ' stands for none
constexpr absl::string_view kBinarySuffixes = "KMGTPE";  // 1024^1 ... 1024^6

absl::Status Bad(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("quantity \"", text.substr(0, kMaxTextBytes), "\": ", why));
}

absl::StatusOr<Suffix> ParseSuffix(absl::string_view text, absl::string_view suffix) {
  Suffix result;
  if (suffix.empty()) return result;
  if (suffix.size() == 1 && suffix[0] != ' ') {
    if (const size_t at = kDecimalSuffixes.find(suffix[0]); at != absl::string_view::npos) {
      result.power_of_ten = static_cast<int>(at) * 3 - 9;
      return result;
    }
  }
  if (suffix.size() == 2 && suffix[1] == 'i') {
    if (const size_t at = kBinarySuffixes.find(suffix[0]); at != absl::string_view::npos) {
      result.format = Quantity::Format::kBinarySi;
      result.power_of_1024 = static_cast<int>(at) + 1;
      return result;
    }
  }
  if (suffix[0] == 'e' || suffix[0] == 'E') {
    absl::string_view digits = suffix.substr(1);
    const bool negative = !digits.empty() && digits[0] == '-';
    if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
    if (digits.empty() || !std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit)) {
      return Bad(text, "the exponent must be an integer");
    }
    // Beyond any digit the text can hold the exact exponent no longer matters: the cap or 1n is the result.
    constexpr int kFar = 4 * static_cast<int>(kMaxTextBytes);
    int exponent = 0;
    if (!absl::SimpleAtoi(digits, &exponent)) exponent = kFar;
    exponent = std::min(exponent, kFar);
    result.format = Quantity::Format::kDecimalExponent;
    result.power_of_ten = negative ? -exponent : exponent;
    return result;
  }
  return Bad(text,
             "unknown suffix; known are n u m k M G T P E, Ki Mi Gi Ti Pi Ei and e<exponent>");
}

// Multiplies a decimal number (most significant digit first) by 1024.
void TimesKibi(std::vector<int>& digits) {
  int carry = 0;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    const int value = *digit * 1024 + carry;
    *digit = value % 10;
    carry = value / 10;
  }
  for (; carry > 0; carry /= 10) digits.insert(digits.begin(), carry % 10);
}

// `digits` x 10^power in nano units, rounded up, capped.
Int128 ToNano(const std::vector<int>& digits, int power) {
  const int nano_power = power + 9;
  const int count = static_cast<int>(digits.size());
  const int whole = count + nano_power;  // how many digits stand before the nano point
  Int128 value = 0;
  for (int i = 0; i < whole; ++i) {
    value = value * 10 + (i < count ? digits[static_cast<size_t>(i)] : 0);
    if (value > kMaxNano) return kMaxNano;
    if (i >= count && value == 0) return 0;
  }
  const auto rest = digits.begin() + std::clamp(whole, 0, count);
  if (std::any_of(rest, digits.end(), [](int digit) { return digit != 0; })) ++value;
  return std::min(value, kMaxNano);
}

Int128 SaturatingAdd(Int128 a, Int128 b) {
  Int128 sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a > 0 ? kMaxInt128 : -kMaxInt128;
}

std::string Digits(Int128 value) {
  const bool negative = value < 0;
  Uint128 rest = negative ? Uint128{0} - static_cast<Uint128>(value) : static_cast<Uint128>(value);
  std::string text;
  do {
    text.push_back(static_cast<char>('0' + static_cast<int>(rest % 10)));
    rest /= 10;
  } while (rest > 0);
  if (negative) text.push_back('-');
  std::reverse(text.begin(), text.end());
  return text;
}

}  // namespace

Quantity Quantity::FromInt(int64_t value) {
  return Quantity(Int128{value} * kNano, Format::kDecimalSi);
}

absl::StatusOr<Quantity> Quantity::Parse(absl::string_view text) {
  if (text.empty()) return Bad(text, "must not be empty");
  if (text.size() > kMaxTextBytes)
    return Bad(text, absl::StrCat("must be at most ", kMaxTextBytes, " bytes"));
  absl::string_view rest = text;
  const bool negative = rest[0] == '-';
  if (rest[0] == '-' || rest[0] == '+') rest.remove_prefix(1);

  std::vector<int> digits;
  int fraction_digits = 0;
  bool point = false;
  for (; !rest.empty(); rest.remove_prefix(1)) {
    const char c = rest[0];
    if (absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      digits.push_back(c - '0');
      if (point) ++fraction_digits;
    } else if (c == '.' && !point) {
      point = true;
    } else {
      break;
    }
  }
  if (digits.empty()) return Bad(text, "must start with a number");
  DRA_ASSIGN_OR_RETURN(const Suffix suffix, ParseSuffix(text, rest));
  for (int i = 0; i < suffix.power_of_1024; ++i) TimesKibi(digits);

  const Int128 nano = ToNano(digits, suffix.power_of_ten - fraction_digits);
  // Less than one cannot be shown with a binary suffix.
  const Format format = suffix.format == Format::kBinarySi && nano > 0 && nano < kNano
                            ? Format::kDecimalSi
                            : suffix.format;
  return Quantity(negative ? -nano : nano, format);
}

absl::StatusOr<Quantity> Quantity::FromJson(const Json& value) {
  if (value.is_string()) {
    // Spaces around it, and no other white space, are what the server's decoder takes off.
    absl::string_view text = value.get_ref<const std::string&>();
    while (absl::ConsumePrefix(&text, " ") || absl::ConsumeSuffix(&text, " ")) {
    }
    return Parse(text);
  }
  if (value.is_number()) return Parse(value.dump());
  return absl::InvalidArgumentError(
      absl::StrCat("quantity must be a string, is ", value.type_name()));
}

std::string Quantity::ToString() const {
  if (nano_ == 0) return "0";
  const Int128 limit = 1024 * kNano;
  if (format_ == Format::kBinarySi && IsInteger() && (nano_ >= limit || nano_ <= -limit)) {
    Int128 value = nano_ / kNano;
    size_t power = 0;
    for (; power < kBinarySuffixes.size() && value % 1024 == 0; ++power) value /= 1024;
    return power == 0 ? Digits(value)
                      : absl::StrCat(Digits(value), kBinarySuffixes.substr(power - 1, 1), "i");
  }
  Int128 value = nano_;
  int exponent = -9;
  // DecimalSI knows nothing above E; sums may reach there and then keep their zeros.
  for (; value % 1000 == 0 && (exponent < 18 || format_ == Format::kDecimalExponent); exponent += 3)
    value /= 1000;
  if (exponent == 0) return Digits(value);
  if (format_ == Format::kDecimalExponent) return absl::StrCat(Digits(value), "e", exponent);
  return absl::StrCat(Digits(value),
                      kDecimalSuffixes.substr(static_cast<size_t>(exponent / 3 + 3), 1));
}

int64_t Quantity::Value() const {
  const Int128 value = RoundedUp().nano_ / kNano;
  constexpr Int128 kMin = std::numeric_limits<int64_t>::min();
  constexpr Int128 kMax = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::clamp(value, kMin, kMax));
}

bool Quantity::IsInteger() const { return nano_ % kNano == 0; }
bool Quantity::IsWholeMilli() const { return nano_ % kNanoPerMilli == 0; }
bool Quantity::IsMultipleOf(const Quantity& step) const {
  return step.nano_ != 0 && nano_ % step.nano_ == 0;
}

Quantity Quantity::RoundedUp() const {
  const Int128 remainder = nano_ % kNano;
  if (remainder == 0) return *this;
  return Quantity(SaturatingAdd(nano_ - remainder, nano_ > 0 ? kNano : -kNano), format_);
}

Quantity operator+(const Quantity& a, const Quantity& b) {
  return Quantity(SaturatingAdd(a.nano_, b.nano_), a.format_);
}

Quantity operator-(const Quantity& a, const Quantity& b) {
  return Quantity(SaturatingAdd(a.nano_, -b.nano_), a.format_);
}

}  // namespace dra::resource
