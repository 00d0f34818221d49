// Quantities and semantic versions.
#include "dra/resource/quantity.h"
#include "dra/resource/semver.h"
#include "test/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text = dra::fuzz::Text(data, size);
  const auto quantity = dra::resource::Quantity::Parse(text);
  if (quantity.ok()) {
    const std::string canonical = quantity->ToString();
    const auto again = dra::resource::Quantity::Parse(canonical);
    dra::fuzz::Require(again.ok(), "a canonical quantity can be read");
    dra::fuzz::Require(*again == *quantity, "a canonical quantity has the same value");
    dra::fuzz::Require(again->ToString() == canonical, "the canonical text is a fixed point");
    (void)(*quantity + *again - *again);
    (void)quantity->RoundedUp().Value();
    (void)quantity->IsMultipleOf(*again);
  }
  const auto version = dra::resource::SemVer::Parse(text);
  if (version.ok()) {
    dra::fuzz::Require(version->ToString() == text, "a semantic version is written as it was read");
    dra::fuzz::Require(dra::resource::IsSemVer(text), "what parses is a semantic version");
    dra::fuzz::Require(dra::resource::Compare(*version, *version) == std::strong_ordering::equal,
                       "a version equals itself");
  }
  const auto repaired = dra::resource::RepairVersion(text);
  if (repaired.has_value()) {
    dra::fuzz::Require(dra::resource::IsSemVer(*repaired) && repaired->size() <= 64,
                       "a repaired version is valid");
    dra::fuzz::Require(dra::resource::RepairVersion(*repaired) == repaired,
                       "repairing twice changes nothing");
  }
  return 0;
}
