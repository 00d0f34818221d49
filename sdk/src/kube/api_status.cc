#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "dra/kube/api_client.h"
#include "nlohmann/json.hpp"

namespace dra::kube {
namespace {

constexpr char kApiErrorPayload[] = "dra.kube.api_error";

absl::StatusCode CodeFor(const ApiError& error) {
  switch (error.http_code) {
    case 400:
    case 405:
    case 406:
    case 413:
    case 415:
    case 422:
      return absl::StatusCode::kInvalidArgument;
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kNotFound;
    case 409:
      return error.reason == "AlreadyExists" ? absl::StatusCode::kAlreadyExists
                                             : absl::StatusCode::kAborted;
    case 410:
      return absl::StatusCode::kOutOfRange;
    case 504:
      return absl::StatusCode::kDeadlineExceeded;
    default:
      break;
  }
  if (error.http_code == 0 || error.http_code == 429 || error.http_code >= 500)
    return absl::StatusCode::kUnavailable;
  if (error.http_code >= 400) return absl::StatusCode::kInvalidArgument;
  return absl::StatusCode::kDataLoss;
}

}  // namespace

const Resource& ResourceSlices() {
  static const auto& resource =
      *new Resource{"resource.k8s.io", "v1", "resourceslices", "ResourceSlice", false};
  return resource;
}
const Resource& ResourceClaims() {
  static const auto& resource =
      *new Resource{"resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", true};
  return resource;
}
const Resource& DeviceClasses() {
  static const auto& resource =
      *new Resource{"resource.k8s.io", "v1", "deviceclasses", "DeviceClass", false};
  return resource;
}
const Resource& Nodes() {
  static const auto& resource = *new Resource{"", "v1", "nodes", "Node", false};
  return resource;
}
const Resource& Pods() {
  static const auto& resource = *new Resource{"", "v1", "pods", "Pod", true};
  return resource;
}
const Resource& Events() {
  static const auto& resource = *new Resource{"events.k8s.io", "v1", "events", "Event", true};
  return resource;
}

absl::StatusOr<Json> ApiClient::GetRaw(absl::string_view path, const Call&) {
  return absl::UnimplementedError(
      absl::StrCat("GET ", path, ": this API client reads typed objects only"));
}

absl::Status MakeApiStatus(const ApiError& error, absl::string_view context) {
  std::string text(context);
  if (!text.empty()) text += ": ";
  if (error.http_code != 0) {
    absl::StrAppend(&text, error.http_code);
    if (!error.reason.empty()) absl::StrAppend(&text, " ", error.reason);
    if (!error.message.empty()) text += ": ";
  }
  text += error.message;
  absl::Status status(CodeFor(error), text);

  Json payload = {{"code", error.http_code}, {"reason", error.reason}, {"message", error.message}};
  for (const ApiError::Cause& cause : error.causes) {
    payload["causes"].push_back(
        {{"reason", cause.reason}, {"field", cause.field}, {"message", cause.message}});
  }
  if (error.retry_after.has_value())
    payload["retryAfterMs"] = absl::ToInt64Milliseconds(*error.retry_after);
  status.SetPayload(kApiErrorPayload, absl::Cord(DumpJson(payload)));
  return status;
}

std::optional<ApiError> ApiErrorOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kApiErrorPayload);
  if (!payload.has_value()) return std::nullopt;
  const absl::StatusOr<Json> parsed = ParseJsonObject(std::string(*payload), "API error payload");
  if (!parsed.ok()) return std::nullopt;
  ApiError error;
  error.http_code = static_cast<int>(IntOr(*parsed, "code"));
  error.reason = StringOr(*parsed, "reason");
  error.message = StringOr(*parsed, "message");
  if (const Json* causes = Find(*parsed, "causes"); causes != nullptr && causes->is_array()) {
    for (const Json& cause : *causes) {
      error.causes.push_back(
          {StringOr(cause, "reason"), StringOr(cause, "field"), StringOr(cause, "message")});
    }
  }
  if (Find(*parsed, "retryAfterMs") != nullptr) {
    error.retry_after = absl::Milliseconds(IntOr(*parsed, "retryAfterMs"));
  }
  return error;
}

bool IsTransient(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

}  // namespace dra::kube
