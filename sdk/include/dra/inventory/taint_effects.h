#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "dra/loader/backend_handle.h"

namespace dra::inventory {

// What the taint of a fault does (resource.k8s.io/v1 DeviceTaintEffect): it informs; it keeps new work away; it also
// evicts the pods that use the device. Ascending.
enum class TaintEffect { kNone, kNoSchedule, kNoExecute };

// "None", "NoSchedule", "NoExecute"; nullopt for any other name.
const char* TaintEffectName(TaintEffect effect);
std::optional<TaintEffect> TaintEffectOf(absl::string_view name);

// "unset", "minor", "major", "critical"; unset for any other name.
const char* SeverityName(loader::FaultSeverity severity);
loader::FaultSeverity SeverityOf(absl::string_view name);

// Which effect a fault's taint has: that of its class where one is given, else that of its severity. NoExecute deletes
// pods, so it is never a default.
struct TaintEffects {
  // Every severity is there.
  std::map<loader::FaultSeverity, TaintEffect> by_severity = {
      {loader::FaultSeverity::kUnset, TaintEffect::kNoSchedule},
      {loader::FaultSeverity::kMinor, TaintEffect::kNone},
      {loader::FaultSeverity::kMajor, TaintEffect::kNoSchedule},
      {loader::FaultSeverity::kCritical, TaintEffect::kNoSchedule}};
  std::map<std::string, TaintEffect> by_class;

  TaintEffect Of(const std::string& fault_class, loader::FaultSeverity severity) const;
};

}  // namespace dra::inventory
