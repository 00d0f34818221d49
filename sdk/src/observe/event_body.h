#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dra/base/json.h"
#include "dra/observe/events.h"

namespace dra::observe {

// One event as it is queued.
struct EventRecord {
  EventType type = EventType::kNormal;
  ObjectReference regarding;
  std::string reason;
  std::string action;
  std::string note;
  absl::Time time;
};

// Events about cluster-scoped objects live in "default".
std::string EventNamespace(const ObjectReference& regarding);

// An events.k8s.io/v1 Event. `count` > 1 adds a series.
// Source: kubernetes/api:events/v1/types.go (note at most 1 kB, eventTime with microseconds, reportingInstance at most
// 128 bytes).
Json EventBody(const EventRecord& record, absl::string_view name,
               absl::string_view reporting_controller, absl::string_view reporting_instance);

// MicroTime: RFC 3339 UTC with six digits.
std::string MicroTime(absl::Time time);

}  // namespace dra::observe
