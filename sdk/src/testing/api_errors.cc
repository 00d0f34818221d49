#include "testing/api_errors.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace dra::testing {
namespace {

absl::Status Make(int code, absl::string_view reason, std::string message, Causes causes = {}) {
  kube::ApiError error;
  error.http_code = code;
  error.reason = std::string(reason);
  error.message = std::move(message);
  error.causes = std::move(causes);
  return kube::MakeApiStatus(error, "api server");
}

std::string QualifiedPlural(const kube::Resource& resource) {
  return resource.group.empty() ? resource.plural
                                : absl::StrCat(resource.plural, ".", resource.group);
}

std::string QualifiedKind(const kube::Resource& resource) {
  return resource.group.empty() ? resource.kind : absl::StrCat(resource.kind, ".", resource.group);
}

}  // namespace

absl::Status NotFoundError(const kube::Resource& resource, absl::string_view name) {
  return Make(404, "NotFound",
              absl::StrCat(QualifiedPlural(resource), " \"", name, "\" not found"));
}

absl::Status NoSuchResourceError() {
  return Make(404, "NotFound", "the server could not find the requested resource");
}

absl::Status AlreadyExistsError(const kube::Resource& resource, absl::string_view name) {
  return Make(409, "AlreadyExists",
              absl::StrCat(QualifiedPlural(resource), " \"", name, "\" already exists"));
}

absl::Status ConflictError(const kube::Resource& resource, absl::string_view name,
                           absl::string_view why, Causes causes) {
  return Make(409, "Conflict",
              absl::StrCat("Operation cannot be fulfilled on ", QualifiedPlural(resource), " \"",
                           name, "\": ", why),
              std::move(causes));
}

absl::Status ModifiedError(const kube::Resource& resource, absl::string_view name) {
  return ConflictError(resource, name,
                       "the object has been modified; please apply your changes to the latest "
                       "version and try again");
}

absl::Status InvalidError(const kube::Resource& resource, absl::string_view name, Causes causes) {
  const std::string list =
      absl::StrJoin(causes, ", ", [](std::string* out, const kube::ApiError::Cause& cause) {
        absl::StrAppend(out, cause.field, ": ", cause.message);
      });
  return Make(422, "Invalid",
              absl::StrCat(QualifiedKind(resource), " \"", name, "\" is invalid: ",
                           causes.size() > 1 ? absl::StrCat("[", list, "]") : list),
              std::move(causes));
}

absl::Status BadRequestError(absl::string_view message) {
  return Make(400, "BadRequest", std::string(message));
}
absl::Status ExpiredError(absl::string_view message) {
  return Make(410, "Expired", std::string(message));
}

absl::Status OtherError(int code, absl::string_view reason, absl::string_view message) {
  return Make(code, reason, std::string(message));
}

Json StatusBody(const kube::ApiError& error) {
  Json body = {{"kind", "Status"},       {"apiVersion", "v1"},       {"metadata", Json::object()},
               {"status", "Failure"},    {"message", error.message}, {"reason", error.reason},
               {"code", error.http_code}};
  Json details = Json::object();
  for (const kube::ApiError::Cause& cause : error.causes) {
    details["causes"].push_back(
        {{"reason", cause.reason}, {"message", cause.message}, {"field", cause.field}});
  }
  if (error.retry_after.has_value())
    details["retryAfterSeconds"] = absl::ToInt64Seconds(*error.retry_after);
  if (!details.empty()) body["details"] = details;
  return body;
}

Json StatusBody(const absl::Status& status) {
  const std::optional<kube::ApiError> error = kube::ApiErrorOf(status);
  if (error.has_value()) return StatusBody(*error);
  kube::ApiError internal;
  internal.http_code = 500;
  internal.reason = "InternalError";
  internal.message = std::string(status.message());
  return StatusBody(internal);
}

}  // namespace dra::testing
