#include "observe/event_body.h"

#include "nlohmann/json.hpp"

namespace dra::observe {
namespace {

constexpr size_t kMaxNoteBytes = 1024;
constexpr size_t kMaxFieldBytes = 128;  // reason, action, reportingInstance

// Length of the UTF-8 character at the start of `text`, 0 if there is none.
size_t CharacterLength(absl::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t length = first < 0x80                     ? 1
                        : first >= 0xC2 && first <= 0xDF ? 2
                        : first >= 0xE0 && first <= 0xEF ? 3
                        : first >= 0xF0 && first <= 0xF4 ? 4
                                                         : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string CutUtf8(absl::string_view text, size_t max_bytes) {
  std::string cut;
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (cut.size() + std::max<size_t>(length, 1) > max_bytes) break;
    if (length == 0) {
      cut.push_back('?');
      text.remove_prefix(1);
    } else {
      cut.append(text.data(), length);
      text.remove_prefix(length);
    }
  }
  return cut;
}

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
      {"reportingInstance", CutUtf8(reporting_instance, kMaxFieldBytes)},
      {"action", CutUtf8(record.action, kMaxFieldBytes)},
      {"reason", CutUtf8(record.reason, kMaxFieldBytes)},
      {"regarding", std::move(regarding)},
      {"note", CutUtf8(record.note, kMaxNoteBytes)},
      {"type", record.type == EventType::kNormal ? "Normal" : "Warning"}};
}

}  // namespace dra::observe
