#include "observe/metric_help.h"

namespace dra::observe {
namespace {

struct Help {
  absl::string_view metric;
  absl::string_view text;
};

constexpr Help kHelp[] = {
    {"dra_api_requests_total", "Requests to the API server."},
    {"dra_build_info", "Always 1."},
    {"dra_claim_operation_seconds", "From the claim's call to its answer."},
    {"dra_claim_operations_total",
     "Answered prepares and unprepares, one for each claim of a call."},
    {"dra_claims", "Claims with a record, by phase."},
    {"dra_claims_released_total", "Claims that were unprepared without a call of the kubelet."},
    {"dra_devices", "Devices of the inventory by health: healthy, unhealthy, unknown."},
    {"dra_devices_dropped",
     "Devices of the inventory that are not published: withheld, refused, or in need of a field "
     "that the API server drops."},
    {"dra_devices_published",
     "Devices in the stored slices, as of the last time they were as wanted."},
    {"dra_discoveries_total", "Discoveries of the backend's devices."},
    {"dra_discovery_seconds", "How long the backend took to discover."},
    {"dra_drained", "1 while the driver is drained at an operator's request."},
    {"dra_events_dropped_total",
     "Kubernetes Events that were not written: refused by the API server, or the oldest of a full "
     "queue while it was away."},
    {"dra_health_notes_total", "Notes of devices' faults written."},
    {"dra_inventory_findings", "What is repaired, dropped or could not be looked at now."},
    {"dra_kubelet_call_seconds", "How long the kubelet waited for the answer."},
    {"dra_kubelet_calls_total",
     "The kubelet's NodePrepareResources and NodeUnprepareResources calls."},
    {"dra_operator_requests_total", "Clear-fault requests: done, refused."},
    {"dra_orphaned_claims",
     "Claims that are gone for the API server and keep their devices, because one may be in use or "
     "the release failed."},
    {"dra_records_quarantined_total", "Records that could not be read and were moved aside."},
    {"dra_retired_drivers",
     "Drivers that ran on this node, are no longer configured, and are not gone yet."},
    {"dra_slice_writes_total", "Calls that create, update or delete a ResourceSlice."},
    {"dra_slices", "The driver's slices that are stored."},
    {"dra_unhealthy_devices",
     "Unhealthy devices of the inventory by severity: unset, minor, major, critical."},
};

}  // namespace

std::string MetricHelp(absl::string_view metric) {
  for (const Help& help : kHelp) {
    if (help.metric == metric) return std::string(help.text);
  }
  return "See docs/metrics.md.";
}

}  // namespace dra::observe
