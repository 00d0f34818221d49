#include "kubelet/registration_keeper.h"

#include <algorithm>

namespace dra::kubelet {
namespace {

constexpr absl::Duration kMaxSilenceWait = absl::Minutes(5);
constexpr absl::Duration kMaxRefusalWait = absl::Minutes(2);
constexpr int kRefusalPart = 30;  // a second of the usual half minute

}  // namespace

RegistrationKeeper::RegistrationKeeper(absl::Duration patience) : patience_(patience) { Reset(); }

void RegistrationKeeper::Reset() {
  silence_wait_ = patience_;
  refusal_wait_ = patience_ / kRefusalPart;
  warned_ = false;
}

void RegistrationKeeper::Announced(MonotonicTime now, absl::Time wall_now) {
  announced_ = now;
  announced_wall_ = wall_now;
}

bool RegistrationKeeper::NewRegistration(const RegistrationFacts& facts) {
  if (facts.registrations == registrations_) return false;
  registrations_ = facts.registrations;
  Reset();
  return true;
}

bool RegistrationKeeper::ShouldWarn(const RegistrationFacts& facts, MonotonicTime now) {
  if (warned_ || facts.registered || facts.last_get_info >= announced_wall_) return false;
  if (absl::FromChrono(now - announced_) < patience_) return false;
  warned_ = true;
  return true;
}

bool RegistrationKeeper::ShouldReannounce(const RegistrationFacts& facts, MonotonicTime now) {
  if (facts.registered) return false;
  absl::Duration& wait = facts.refused ? refusal_wait_ : silence_wait_;
  if (absl::FromChrono(now - announced_) < wait) return false;
  wait = std::min(wait * 2, facts.refused ? kMaxRefusalWait : kMaxSilenceWait);
  return true;
}

}  // namespace dra::kubelet
