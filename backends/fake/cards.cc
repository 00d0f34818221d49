#include "cards.h"

#include <charconv>
#include <cstdio>

namespace fake {
namespace {

uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

uint64_t Fnv1a(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

std::string CardUuid(const std::string& kind, const std::string& node_name, const std::string& card,
                     int64_t replaced) {
  const uint64_t seed = Fnv1a(node_name + "/" + card + "/" + std::to_string(replaced));
  // The version and variant bits of a random RFC 4122 UUID.
  const uint64_t high = (Mix(seed) & ~0xf000ULL) | 0x4000ULL;
  const uint64_t low = (Mix(seed + 1) & ~(3ULL << 62)) | (2ULL << 62);
  char text[64];
  std::snprintf(text, sizeof(text), "-%08llx-%04llx-%04llx-%04llx-%012llx",
                static_cast<unsigned long long>(high >> 32),
                static_cast<unsigned long long>((high >> 16) & 0xffff),
                static_cast<unsigned long long>(high & 0xffff),
                static_cast<unsigned long long>(low >> 48),
                static_cast<unsigned long long>(low & 0xffffffffffffULL));
  return kind + text;
}

std::optional<int64_t> SlotOf(const std::string& prefix, const std::string& name, int64_t end) {
  if (name.rfind(prefix, 0) != 0) return std::nullopt;
  const std::string text = name.substr(prefix.size());
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < 0 || value >= end ||
      std::to_string(value) != text) {
    return std::nullopt;
  }
  return value;
}

}  // namespace fake
