#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dra/kube/api_client.h"

namespace dra::kube {

// An HTTP answer as it came.
struct HttpResponse {
  int code = 0;
  std::string content_type;
  std::optional<absl::Duration> retry_after;
  std::vector<std::string> warnings;  // texts of Warning headers
  std::string body;
};

// The failure that `response` (code not 2xx, or a Status object) tells. Any body is survived: JSON Status, the plain
// text of priority and fairness, a proxy's HTML, nothing.
ApiError ErrorOfResponse(const HttpResponse& response);
// The ApiError of a metav1.Status object.
ApiError ErrorOfStatusObject(const Json& status);

// The object in a 2xx answer, of kind `kind` ("" = any object). The code is looked at first: no refusal is ever read as
// the wanted type. A Status/Failure with 200 is the failure it tells; anything else that is not `kind` is DataLoss.
absl::StatusOr<Json> ObjectOfResponse(const HttpResponse& response, absl::string_view kind,
                                      absl::string_view context);

// Seconds of a Retry-After header; nullopt for a date or nonsense. At most an hour.
std::optional<absl::Duration> ParseRetryAfter(absl::string_view value);

}  // namespace dra::kube
