#include "kube/response.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra::kube {
namespace {

constexpr size_t kShownBodyBytes = 200;
constexpr int kMaxRetryAfterSeconds = 3600;

// The start of a body that is not a Status, on one line and printable.
std::string Excerpt(absl::string_view body) {
  body = absl::StripAsciiWhitespace(body);
  std::string shown;
  for (const char c : body.substr(0, kShownBodyBytes)) {
    shown.push_back(absl::ascii_isprint(static_cast<unsigned char>(c)) ? c : ' ');
  }
  if (body.size() > kShownBodyBytes) shown += "...";
  return shown.empty() ? "empty body" : shown;
}

bool IsFailureStatus(const Json& object) {
  return StringOr(object, "kind") == "Status" && StringOr(object, "status") != "Success";
}

absl::Status NotTheObject(const HttpResponse& response, absl::string_view context,
                          absl::string_view text) {
  ApiError error;
  error.http_code = response.code;
  error.message = std::string(text);
  const absl::Status described = MakeApiStatus(error, context);
  absl::Status status(absl::StatusCode::kDataLoss, described.message());
  described.ForEachPayload(
      [&](absl::string_view type, const absl::Cord& payload) { status.SetPayload(type, payload); });
  return status;
}

}  // namespace

std::optional<absl::Duration> ParseRetryAfter(absl::string_view value) {
  int seconds = 0;
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(value), &seconds) || seconds < 0)
    return std::nullopt;
  return absl::Seconds(std::min(seconds, kMaxRetryAfterSeconds));
}

ApiError ErrorOfStatusObject(const Json& status) {
  ApiError error;
  error.http_code = static_cast<int>(IntOr(status, "code"));
  error.reason = StringOr(status, "reason");
  error.message = StringOr(status, "message");
  const Json* details = Find(status, "details");
  if (details == nullptr || !details->is_object()) return error;
  if (const Json* causes = Find(*details, "causes"); causes != nullptr && causes->is_array()) {
    for (const Json& cause : *causes) {
      error.causes.push_back(
          {StringOr(cause, "reason"), StringOr(cause, "field"), StringOr(cause, "message")});
    }
  }
  if (const int64_t seconds = IntOr(*details, "retryAfterSeconds"); seconds > 0) {
    error.retry_after = absl::Seconds(std::min<int64_t>(seconds, kMaxRetryAfterSeconds));
  }
  return error;
}

ApiError ErrorOfResponse(const HttpResponse& response) {
  ApiError error;
  const absl::StatusOr<Json> parsed = ParseJsonObject(response.body, "answer");
  if (parsed.ok() && StringOr(*parsed, "kind") == "Status") {
    error = ErrorOfStatusObject(*parsed);
  } else {
    error.message = Excerpt(response.body);
  }
  // The header line decides, not what a body claims; inside a 200 the body is all there is.
  if (response.code / 100 != 2 || error.http_code / 100 < 3) error.http_code = response.code;
  if (error.http_code / 100 == 2) error.http_code = 500;  // a Failure without a code
  if (response.retry_after.has_value()) error.retry_after = response.retry_after;
  return error;
}

absl::StatusOr<Json> ObjectOfResponse(const HttpResponse& response, absl::string_view kind,
                                      absl::string_view context) {
  if (response.code / 100 != 2) return MakeApiStatus(ErrorOfResponse(response), context);
  absl::StatusOr<Json> parsed = ParseJsonObject(response.body, "answer");
  if (!parsed.ok()) {
    return NotTheObject(response, context,
                        absl::StrCat("the answer is not a JSON object: ", Excerpt(response.body)));
  }
  if (IsFailureStatus(*parsed)) return MakeApiStatus(ErrorOfResponse(response), context);
  if (const std::string found = StringOr(*parsed, "kind");
      !kind.empty() && absl::string_view(found) != kind) {
    return NotTheObject(
        response, context,
        absl::StrCat("the answer is of kind '", found.substr(0, 63), "', wanted '", kind, "'"));
  }
  return parsed;
}

}  // namespace dra::kube
