#include "inventory/fault_state.h"

#include <algorithm>
#include <utility>

namespace dra::inventory {
namespace {

absl::Duration Since(MonotonicTime then, const Moment& now) {
  return absl::FromChrono(now.monotonic - then);
}

int Rank(loader::FaultSeverity severity) {
  return static_cast<int>(severity == loader::FaultSeverity::kUnset ? loader::FaultSeverity::kMajor
                                                                    : severity);
}

}  // namespace

absl::Duration Hold(int flaps) {
  if (flaps <= 0) return absl::ZeroDuration();
  // 2^10 times the first is beyond the longest; a shift of more could overflow.
  const int doublings = std::min(flaps - 1, 10);
  return std::min(kFirstHold * (1 << doublings), kLongestHold);
}

bool FaultState::Restore(const Fault& fault, const TaintEffects& effects, const Moment& now) {
  fault_ = fault;
  if (fault_.effect_since == absl::InfinitePast()) fault_.effect_since = fault_.since;
  reported_sick_ = false;
  well_since_.reset();
  detail_time_.reset();
  // The wall clock is all that there is between two boots. A clock that went backwards counts as "just now": the
  // careful side.
  const absl::Duration ago = std::max(now.wall - fault.since, absl::ZeroDuration());
  ended_.reset();
  if (!fault.sick && ago < kFlapWindow) ended_ = now.monotonic - absl::ToChronoNanoseconds(ago);
  // The operator may have configured another effect since.
  const TaintEffect effect = effects.Of(fault.fault_class, fault.severity);
  if (!fault.sick || fault.effect == effect) return false;
  fault_.effect = effect;
  fault_.effect_since = now.wall;
  return true;
}

bool FaultState::Report(const loader::DeviceHealth& health, const TaintEffects& effects,
                        const Moment& now) {
  reported_sick_ = health.state == loader::HealthState::kUnhealthy;
  switch (health.state) {
    case loader::HealthState::kUnhealthy:
      return fault_.sick ? StaySick(health, effects, now) : FallSick(health, effects, now);
    case loader::HealthState::kHealthy:
      return fault_.sick && SeemWell(health, now);
    case loader::HealthState::kUnknown:
      break;
  }
  // No evidence that a fault has gone, and a break in the time that it seemed well.
  well_since_.reset();
  return false;
}

bool FaultState::FallSick(const loader::DeviceHealth& health, const TaintEffects& effects,
                          const Moment& now) {
  const bool again = ended_.has_value() && Since(*ended_, now) < kFlapWindow;
  fault_.flaps = again ? fault_.flaps + 1 : 0;
  fault_.sick = true;
  fault_.since = fault_.effect_since = now.wall;
  fault_.clears_with = health.clears_with;
  fault_.evidence = Evidence();
  TakeGrade(health, effects.Of(health.fault_class, health.severity), now);
  TakeTexts(health);
  well_since_.reset();
  return true;
}

bool FaultState::StaySick(const loader::DeviceHealth& health, const TaintEffects& effects,
                          const Moment& now) {
  if (well_since_.has_value()) ++fault_.flaps;
  well_since_.reset();
  const TaintEffect effect = effects.Of(health.fault_class, health.severity);
  const std::pair grade = {effect, Rank(health.severity)};
  const std::pair standing = {fault_.effect, Rank(fault_.severity)};
  const bool other_class = fault_.fault_class != health.fault_class;
  if (other_class && grade < standing && !fault_.clears_with.empty()) {
    // That a lesser fault is reported does not show that the graver one has gone.
    if (fault_.evidence.text.empty()) return false;
    // But it was said that it has: the lesser one is what is left, a fault of its own.
    fault_.since = now.wall;
    fault_.evidence = Evidence();
    fault_.clears_with = health.clears_with;
    TakeGrade(health, effect, now);
    TakeTexts(health);
    return true;
  }
  TakeTexts(health);
  bool changed = false;
  if (fault_.clears_with.empty() && !health.clears_with.empty()) {
    fault_.clears_with = health.clears_with;
    changed = true;
  }
  // Evidence was for what was seen until then.
  if (!fault_.evidence.text.empty() && other_class) {
    fault_.evidence = Evidence();
    changed = true;
  }
  const bool other = other_class || fault_.severity != health.severity ||
                     (!health.clears_with.empty() && fault_.clears_with != health.clears_with);
  const bool graver = standing < grade;
  if (other && (graver || !detail_time_.has_value() || Since(*detail_time_, now) >= kDetailHold)) {
    // What once asked for evidence goes on asking: another fault beside it does not show that it has gone.
    if (!health.clears_with.empty()) fault_.clears_with = health.clears_with;
    TakeGrade(health, effect, now);
    changed = true;
  }
  return changed;
}

bool FaultState::SeemWell(const loader::DeviceHealth& health, const Moment& now) {
  if (!well_since_.has_value()) well_since_ = now.monotonic;
  if (!fault_.clears_with.empty() && fault_.evidence.text.empty()) {
    if (health.clears_with != fault_.clears_with) return false;
    fault_.evidence = {health.clears_with, "backend", now.wall};
  }
  if (Since(*well_since_, now) < Hold(fault_.flaps)) return false;
  End(now);
  return true;
}

void FaultState::Clear(Evidence evidence, const Moment& now) {
  fault_.evidence = std::move(evidence);
  fault_.flaps = 0;
  if (!reported_sick_) End(now);
}

void FaultState::End(const Moment& now) {
  fault_.sick = false;
  fault_.since = now.wall;
  ended_ = now.monotonic;
  well_since_.reset();
}

void FaultState::TakeGrade(const loader::DeviceHealth& health, TaintEffect effect,
                           const Moment& now) {
  fault_.fault_class = health.fault_class;
  fault_.severity = health.severity;
  if (fault_.effect != effect) fault_.effect_since = now.wall;
  fault_.effect = effect;
  detail_time_ = now.monotonic;
}

void FaultState::TakeTexts(const loader::DeviceHealth& health) {
  fault_.message = health.message;
  fault_.remedy = health.remedy;
}

}  // namespace dra::inventory
