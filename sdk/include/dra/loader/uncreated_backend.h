#pragma once

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace dra::loader {

// Tells "the backend's instance does not exist yet" from a refusal of the backend itself, which may have the same code.
// The mark is a payload, so it survives Annotate. Any thread.
inline constexpr char kUncreatedPayload[] = "dra/backend-not-created";

inline absl::Status MarkUncreated(absl::Status status) {
  status.SetPayload(kUncreatedPayload, absl::Cord("1"));
  return status;
}

inline bool IsUncreated(const absl::Status& status) {
  return status.GetPayload(kUncreatedPayload).has_value();
}

}  // namespace dra::loader
