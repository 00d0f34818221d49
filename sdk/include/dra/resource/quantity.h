#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/json.h"

namespace dra::resource {

// A Kubernetes Quantity: an exact number in units of 10^-9.
//
// Finer values are rounded away from zero and parsed values are capped at +-(2^63-1), as Kubernetes documents. Sums may
// go beyond the cap and stop at the ends of 128 bits. Comparison is numerical, the notation plays no part.
// Value type. Source: kubernetes/apimachinery:pkg/api/resource/quantity.go.
class Quantity {
 public:
  // How a quantity was written; its canonical text stays in the same family.
  enum class Format { kDecimalSi, kBinarySi, kDecimalExponent };

  Quantity() = default;
  static Quantity FromInt(int64_t value);
  // "<sign><number><suffix>" with suffix n u m "" k M G T P E, Ki Mi Gi Ti Pi Ei, or e<int>/E<int>.
  // Errors: InvalidArgument with the text and what is wrong with it.
  static absl::StatusOr<Quantity> Parse(absl::string_view text);
  // A JSON string, or a JSON number as the server accepts it on input.
  static absl::StatusOr<Quantity> FromJson(const Json& value);

  // The canonical text, as the API server writes it back: "1024Mi" -> "1Gi", "0.5" -> "500m".
  std::string ToString() const;
  // Rounded away from zero to an integer, capped to int64.
  int64_t Value() const;
  bool IsInteger() const;
  // True if it is a whole number of 10^-3.
  bool IsWholeMilli() const;
  int Sign() const { return nano_ < 0 ? -1 : (nano_ > 0 ? 1 : 0); }
  // True if this is a whole multiple of `step`; false for a step of zero.
  bool IsMultipleOf(const Quantity& step) const;
  // This, rounded away from zero to an integer.
  Quantity RoundedUp() const;

  // The format of the left side is kept.
  friend Quantity operator+(const Quantity& a, const Quantity& b);
  friend Quantity operator-(const Quantity& a, const Quantity& b);
  friend bool operator==(const Quantity& a, const Quantity& b) { return a.nano_ == b.nano_; }
  friend std::strong_ordering operator<=>(const Quantity& a, const Quantity& b) {
    return a.nano_ < b.nano_   ? std::strong_ordering::less
           : a.nano_ > b.nano_ ? std::strong_ordering::greater
                               : std::strong_ordering::equal;
  }

 private:
  __extension__ using Int128 = __int128;
  Quantity(Int128 nano, Format format) : nano_(nano), format_(format) {}

  Int128 nano_ = 0;
  Format format_ = Format::kDecimalSi;
};

}  // namespace dra::resource
