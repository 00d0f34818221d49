#pragma once

#include <optional>

#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/inventory/fault.h"
#include "dra/loader/backend_handle.h"

namespace dra::inventory {

struct Moment {
  absl::Time wall;          // for what people read
  MonotonicTime monotonic;  // for every wait: a jump of the wall clock ends no fault
};

// The fault of one device as reports come in. One thread at a time.
class FaultState {
 public:
  // As an earlier process left it. True if the taint has another effect now, so that the note must be written again.
  bool Restore(const Fault& fault, const TaintEffects& effects, const Moment& now);

  // Takes the current report. True if the fault changed so that its note must be written again; flaps and texts alone
  // are not written, which bounds the writes of a device that flaps for ever.
  bool Report(const loader::DeviceHealth& health, const TaintEffects& effects, const Moment& now);
  // Takes evidence that the fault has gone. It ends the fault unless the last report says that the device is sick.
  void Clear(Evidence evidence, const Moment& now);

  const Fault& fault() const { return fault_; }
  bool sick() const { return fault_.sick; }
  // Reported healthy, and sick only for want of the evidence that the fault asks for.
  bool needs_evidence() const {
    return fault_.sick && well_since_.has_value() && !fault_.clears_with.empty() &&
           fault_.evidence.text.empty();
  }

 private:
  bool FallSick(const loader::DeviceHealth& health, const TaintEffects& effects, const Moment& now);
  bool StaySick(const loader::DeviceHealth& health, const TaintEffects& effects, const Moment& now);
  bool SeemWell(const loader::DeviceHealth& health, const Moment& now);
  void End(const Moment& now);
  void TakeGrade(const loader::DeviceHealth& health, TaintEffect effect, const Moment& now);
  void TakeTexts(const loader::DeviceHealth& health);

  Fault fault_;
  bool reported_sick_ = false;                // the last report said so
  std::optional<MonotonicTime> well_since_;   // sick, but reported healthy without a break
  std::optional<MonotonicTime> ended_;        // when the last fault ended
  std::optional<MonotonicTime> detail_time_;  // when fault class, severity or evidence last changed
};

}  // namespace dra::inventory
