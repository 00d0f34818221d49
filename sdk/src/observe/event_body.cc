#include "observe/event_body.h"

#include "dra/base/utf8.h"
#include "nlohmann/json.hpp"

namespace dra::observe {
namespace {

constexpr size_t kMaxNoteBytes = 1024;
constexpr size_t kMaxFieldBytes = 128;  // reason, action, reportingInstance

}  // namespace

std::string EventNamespace(const ObjectReference& regarding) {
  return regarding.namespace_name.empty() ? "default" : regarding.namespace_name;
}

std::string MicroTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone());
}

Json EventBody(const EventRecord& record, absl::string_view name,
               absl::string_view reporting_controller, absl::string_view reporting_instance) {
  Json regarding = {{"apiVersion", record.regarding.api_version},
                    {"kind", record.regarding.kind},
                    {"name", record.regarding.name}};
  if (!record.regarding.namespace_name.empty())
    regarding["namespace"] = record.regarding.namespace_name;
  if (!record.regarding.uid.empty()) regarding["uid"] = record.regarding.uid;
  return {
      {"apiVersion", "events.k8s.io/v1"},
      {"kind", "Event"},
      {"metadata", {{"name", std::string(name)}, {"namespace", EventNamespace(record.regarding)}}},
      {"eventTime", MicroTime(record.time)},
      {"reportingController", std::string(reporting_controller)},
      {"reportingInstance", ValidUtf8Prefix(reporting_instance, kMaxFieldBytes)},
      {"action", ValidUtf8Prefix(record.action, kMaxFieldBytes)},
      {"reason", ValidUtf8Prefix(record.reason, kMaxFieldBytes)},
      {"regarding", std::move(regarding)},
      {"note", ValidUtf8Prefix(record.note, kMaxNoteBytes)},
      {"type", record.type == EventType::kNormal ? "Normal" : "Warning"}};
}

}  // namespace dra::observe
