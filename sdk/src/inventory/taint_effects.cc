#include "dra/inventory/taint_effects.h"

namespace dra::inventory {

const char* TaintEffectName(TaintEffect effect) {
  switch (effect) {
    case TaintEffect::kNone:
      return "None";
    case TaintEffect::kNoExecute:
      return "NoExecute";
    case TaintEffect::kNoSchedule:
      break;
  }
  return "NoSchedule";
}

std::optional<TaintEffect> TaintEffectOf(absl::string_view name) {
  for (const TaintEffect effect :
       {TaintEffect::kNone, TaintEffect::kNoSchedule, TaintEffect::kNoExecute}) {
    if (name == TaintEffectName(effect)) return effect;
  }
  return std::nullopt;
}

const char* SeverityName(loader::FaultSeverity severity) {
  switch (severity) {
    case loader::FaultSeverity::kMinor:
      return "minor";
    case loader::FaultSeverity::kMajor:
      return "major";
    case loader::FaultSeverity::kCritical:
      return "critical";
    case loader::FaultSeverity::kUnset:
      break;
  }
  return "unset";
}

loader::FaultSeverity SeverityOf(absl::string_view name) {
  for (const loader::FaultSeverity severity :
       {loader::FaultSeverity::kMinor, loader::FaultSeverity::kMajor,
        loader::FaultSeverity::kCritical}) {
    if (name == SeverityName(severity)) return severity;
  }
  return loader::FaultSeverity::kUnset;
}

TaintEffect TaintEffects::Of(const std::string& fault_class, loader::FaultSeverity severity) const {
  const auto own = by_class.find(fault_class);
  return own != by_class.end() ? own->second : by_severity.at(severity);
}

}  // namespace dra::inventory
