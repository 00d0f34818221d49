#include "kube/watch_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "dra/base/json.h"
#include "kube/response.h"
#include "nlohmann/json.hpp"

namespace dra::kube {

absl::Status WatchStream::Feed(absl::string_view bytes) {
  rest_.append(bytes.data(), bytes.size());
  size_t start = 0;
  while (true) {
    const size_t end = rest_.find('\n', std::max(start, searched_));
    if (end == std::string::npos) break;
    const absl::Status handled = OnLine(absl::string_view(rest_).substr(start, end - start));
    if (!handled.ok()) return handled;
    start = end + 1;
  }
  rest_.erase(0, start);
  searched_ = rest_.size();
  if (rest_.size() > max_line_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a watch event is over ", max_line_bytes_, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status WatchStream::OnLine(absl::string_view line) {
  line = absl::StripAsciiWhitespace(line);
  if (line.empty()) return absl::OkStatus();
  absl::StatusOr<Json> parsed = ParseJsonObject(line, "watch event");
  if (!parsed.ok()) return absl::DataLossError(parsed.status().message());
  const auto object = parsed->find("object");
  if (object == parsed->end() || !object->is_object())
    return absl::DataLossError("watch event has no object");
  const std::string type = StringOr(*parsed, "type");
  WatchEvent event;
  if (type == "ADDED") {
    event.type = WatchEvent::Type::kAdded;
  } else if (type == "MODIFIED") {
    event.type = WatchEvent::Type::kModified;
  } else if (type == "DELETED") {
    event.type = WatchEvent::Type::kDeleted;
  } else if (type == "BOOKMARK") {
    event.type = WatchEvent::Type::kBookmark;
  } else if (type == "ERROR") {
    ApiError error = ErrorOfStatusObject(*object);
    // Some servers leave the code out and say only why.
    if (error.reason == "Expired" || error.reason == "Gone") error.http_code = 410;
    if (error.http_code / 100 < 4) error.http_code = 500;
    return MakeApiStatus(error, "watch event");
  } else {
    return absl::DataLossError(
        absl::StrCat("watch event has the unknown type '", type.substr(0, 63), "'"));
  }
  if (const std::string kind = StringOr(*object, "kind"); kind != kind_) {
    return absl::DataLossError(
        absl::StrCat("watch event is of kind '", kind.substr(0, 63), "', wanted '", kind_, "'"));
  }
  event.object = std::move(*object);
  ++events_;
  on_event_(event);
  return absl::OkStatus();
}

}  // namespace dra::kube
