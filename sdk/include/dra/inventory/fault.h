#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dra/inventory/taint_effects.h"
#include "dra/loader/backend_handle.h"

namespace dra::inventory {

// Somebody's word that a fault has gone: an operator's (clear-fault), or the backend's own.
struct Evidence {
  std::string text;  // "" = none was given
  std::string by;    // who says so; "backend" for the backend
  absl::Time at = absl::InfinitePast();
  friend bool operator==(const Evidence&, const Evidence&) = default;
};

// The last fault of a device, sick or over. This is what outlives restarts and reboots: the driver keeps one durable
// note per identity, and nothing but a current report, with evidence where the fault asks for it, ends a fault.
struct Fault {
  std::string identity;
  std::string pool;  // full pool name
  std::string device;
  bool sick = false;  // false: it is over, and kept for its count of flaps
  std::string fault_class;
  std::string message;
  std::string remedy;
  std::string
      clears_with;  // evidence without which it does not end; "" = a healthy report is enough
  absl::Time since = absl::InfinitePast();  // when it became sick, or well
  int flaps = 0;                            // times it fell sick again soon after it was well
  loader::FaultSeverity severity = loader::FaultSeverity::kUnset;
  TaintEffect effect = TaintEffect::kNoSchedule;   // of its taint
  absl::Time effect_since = absl::InfinitePast();  // since when the taint has this effect
  Evidence evidence;                               // given for this fault
  friend bool operator==(const Fault&, const Fault&) = default;
};

// True if the evidence was given before the fault began, so that it says nothing of it. Requests carry whole seconds.
inline bool IsOlderThan(const Evidence& evidence, const Fault& fault) {
  return evidence.at + absl::Seconds(1) <= fault.since;
}

// A device that falls sick is tainted at once and the first time well again at once. If it falls sick again within
// kFlapWindow of being well, each time counts as a flap, and it must then be reported healthy without a break for
// Hold(flaps) before the taint goes: 10 s, 20 s, 40 s, ... 5 minutes. So a flapping device costs few slice writes.
inline constexpr absl::Duration kFlapWindow = absl::Minutes(10);
inline constexpr absl::Duration kFirstHold = absl::Seconds(10);
inline constexpr absl::Duration kLongestHold = absl::Minutes(5);
// Another fault class or severity of a device that is sick already changes the taint at most this often; but a graver one
// (a stronger effect, else a higher severity) at once. A less grave class takes the place of one that asks for evidence
// only when that was given.
inline constexpr absl::Duration kDetailHold = absl::Minutes(1);
absl::Duration Hold(int flaps);

}  // namespace dra::inventory
