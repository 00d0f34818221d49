#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "dra/base/clock.h"
#include "dra/base/logger.h"
#include "dra/kube/api_client.h"
#include "dra/observe/metrics.h"

namespace dra::observe {

// What an Event is about.
struct ObjectReference {
  std::string api_version;  // "v1", "resource.k8s.io/v1"
  std::string kind;         // "Node", "ResourceClaim"
  std::string namespace_name;
  std::string name;
  std::string uid;
};

enum class EventType { kNormal, kWarning };

// Writes events.k8s.io/v1 Events. Never blocks: a bounded queue and one thread; equal events within ten minutes are
// counted in one series instead of being written again; when the API server is away the oldest are dropped and counted
// (metric dra_events_dropped_total). Any thread.
class EventRecorder {
 public:
  // api may be null (no cluster): events are only logged. All outlive this.
  EventRecorder(kube::ApiClient* api, Clock* clock, Metrics* metrics, Logger logger,
                std::string reporting_controller, std::string reporting_instance);
  // Writes what is queued for at most one second, then stops.
  ~EventRecorder();

  // `reason` is UpperCamel ("DeviceDropped"), `action` too ("Publish"); `note` at most 1024 bytes, cut if longer.
  void Record(EventType type, const ObjectReference& regarding, absl::string_view reason,
              absl::string_view action, absl::string_view note);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dra::observe
