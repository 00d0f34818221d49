#include "dra/base/status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace dra {
namespace {

absl::Status FailWith(absl::Status status) {
  DRA_RETURN_IF_ERROR(status);
  return absl::InternalError("not reached");
}

absl::StatusOr<int> Doubled(absl::StatusOr<int> value) {
  DRA_ASSIGN_OR_RETURN(const int number, value);
  return number * 2;
}

TEST(Annotate, PutsTheContextBeforeTheTextAndKeepsCodeAndErrno) {
  const absl::Status status =
      Annotate(Annotate(ErrnoStatus(ENOSPC, "write /a"), "write CDI spec"), "prepare claim u1");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "prepare claim u1: write CDI spec: write /a: No space left on device");
  EXPECT_EQ(ErrnoOf(status), ENOSPC);
}

TEST(Annotate, LeavesOkAlone) { EXPECT_TRUE(Annotate(absl::OkStatus(), "context").ok()); }

TEST(ErrnoStatus, IsNotFoundOnlyForENOENT) {
  EXPECT_TRUE(absl::IsNotFound(ErrnoStatus(ENOENT, "x")));
  for (const int error : {EIO, EACCES, ENOTDIR, EROFS, ENOSPC, EMFILE}) {
    EXPECT_FALSE(absl::IsNotFound(ErrnoStatus(error, "x"))) << error;
  }
}

TEST(ErrnoOf, IsNothingForAStatusThatNoSystemCallMade) {
  EXPECT_EQ(ErrnoOf(absl::InternalError("x")), std::nullopt);
}

TEST(StatusMacros, ReturnTheErrorOrGoOn) {
  EXPECT_TRUE(absl::IsAborted(FailWith(absl::AbortedError("x"))));
  EXPECT_TRUE(absl::IsInternal(FailWith(absl::OkStatus())));
  EXPECT_EQ(*Doubled(21), 42);
  EXPECT_TRUE(absl::IsAborted(Doubled(absl::AbortedError("x")).status()));
}

}  // namespace
}  // namespace dra
