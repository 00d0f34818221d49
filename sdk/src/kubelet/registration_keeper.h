#pragma once

#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "kubelet/registration_service.h"

namespace dra::kubelet {

// Decides when to show the registration socket anew: kubelets 1.34 and 1.35 never retry a registration that failed
// (kubernetes/kubernetes#133725), and any kubelet may have missed the file. Pure; one thread at a time.
class RegistrationKeeper {
 public:
  explicit RegistrationKeeper(absl::Duration patience);

  // The socket is visible from now on.
  void Announced(MonotonicTime now, absl::Time wall_now);
  // True once for each time that the kubelet accepted; the waits start small again.
  bool NewRegistration(const RegistrationFacts& facts);
  // True once in a row of failures: the patience is over and the kubelet has not even asked.
  bool ShouldWarn(const RegistrationFacts& facts, MonotonicTime now);
  // After a refusal: patience / 30, then double each time up to 2 minutes, which leaves a kubelet that retries by itself
  // its chance. After silence: the patience, then double up to 5 minutes. The next wait is prepared when this is true.
  bool ShouldReannounce(const RegistrationFacts& facts, MonotonicTime now);

 private:
  void Reset();

  const absl::Duration patience_;
  absl::Duration silence_wait_;
  absl::Duration refusal_wait_;
  MonotonicTime announced_;
  absl::Time announced_wall_ = absl::InfinitePast();
  uint64_t registrations_ = 0;
  bool warned_ = false;
};

}  // namespace dra::kubelet
