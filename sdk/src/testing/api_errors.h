#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "dra/kube/api_client.h"

namespace dra::testing {

using Causes = std::vector<kube::ApiError::Cause>;

// Refusals in the words of a kube-apiserver. Each carries its kube::ApiError.
absl::Status NotFoundError(const kube::Resource& resource, absl::string_view name);
absl::Status NoSuchResourceError();  // 404 for a path nobody serves
absl::Status AlreadyExistsError(const kube::Resource& resource, absl::string_view name);
absl::Status ConflictError(const kube::Resource& resource, absl::string_view name,
                           absl::string_view why, Causes causes = {});
absl::Status ModifiedError(const kube::Resource& resource, absl::string_view name);
absl::Status InvalidError(const kube::Resource& resource, absl::string_view name, Causes causes);
absl::Status BadRequestError(absl::string_view message);
absl::Status ExpiredError(absl::string_view message);
absl::Status OtherError(int code, absl::string_view reason, absl::string_view message);

// The Status object a server sends for `status`; its "code" is the HTTP code.
Json StatusBody(const absl::Status& status);
Json StatusBody(const kube::ApiError& error);

}  // namespace dra::testing
