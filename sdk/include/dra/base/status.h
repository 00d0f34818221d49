#pragma once

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dra {

// `status` with "<context>: " put before its message; code and payloads are kept. OK stays OK.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

// The status for a failed system call: NotFound for ENOENT, PermissionDenied for EACCES/EPERM/EROFS,
// ResourceExhausted for ENOSPC/EDQUOT/EMFILE/ENFILE, AlreadyExists for EEXIST, DeadlineExceeded for ETIMEDOUT,
// Unavailable for EAGAIN/EINTR/ECONNREFUSED, else Internal. Message: "<context>: <strerror text>".
// The errno itself is kept: see ErrnoOf.
absl::Status ErrnoStatus(int error_number, absl::string_view context);

// The errno an ErrnoStatus was made from (it survives Annotate), or nullopt.
std::optional<int> ErrnoOf(const absl::Status& status);

}  // namespace dra

#define DRA_STATUS_CONCAT_INNER_(a, b) a##b
#define DRA_STATUS_CONCAT_(a, b) DRA_STATUS_CONCAT_INNER_(a, b)

// Returns from the enclosing function if `expr` (absl::Status) is not OK.
#define DRA_RETURN_IF_ERROR(expr)                                                 \
  do {                                                                            \
    if (absl::Status dra_status_ = (expr); !dra_status_.ok()) return dra_status_; \
  } while (false)

// DRA_ASSIGN_OR_RETURN(auto value, Expr()): assigns the value of a StatusOr, or returns its status.
#define DRA_ASSIGN_OR_RETURN(lhs, expr) \
  DRA_ASSIGN_OR_RETURN_IMPL_(DRA_STATUS_CONCAT_(dra_status_or_, __LINE__), lhs, expr)
#define DRA_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                               \
  if (!tmp.ok()) return std::move(tmp).status();   \
  lhs = std::move(tmp).value()
