#include "test/crash/killing_file_system.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dra::crash {
namespace {

using testing::FileCall;
using testing::FileOperation;

bool Reads(FileOperation operation) {
  return operation == FileOperation::kReadFile || operation == FileOperation::kList ||
         operation == FileOperation::kStat || operation == FileOperation::kReadLink;
}

}  // namespace

KillingFileSystem::KillingFileSystem(KillPoints* points, std::string root, std::string boot_id)
    : ForwardingFileSystem(&kernel_),
      points_(points),
      root_(std::move(root)),
      boot_id_(std::move(boot_id)) {}

absl::StatusOr<std::string> KillingFileSystem::ReadFile(absl::string_view path,
                                                        uint64_t max_bytes) {
  absl::StatusOr<std::string> content = ForwardingFileSystem::ReadFile(path, max_bytes);
  if (!boot_id_.empty() && absl::EndsWith(path, "/random/boot_id")) return boot_id_;
  return content;
}

absl::Status KillingFileSystem::Pass(const FileCall& call,
                                     absl::FunctionRef<absl::Status()> carry_out) {
  if (!points_->armed()) return carry_out();
  const std::string label = absl::StrCat(ToString(call.operation), " ",
                                         PathClass(call.to.empty() ? call.path : call.to, root_));
  points_->Reach(absl::StrCat(label, " before"));
  if (call.operation == FileOperation::kCreateFile &&
      points_->IsTheOne(absl::StrCat(label, " torn"))) {
    // The mode too is only set when all is written.
    const absl::string_view half = call.contents.substr(0, call.contents.size() / 2);
    (void)kernel_.CreateFile(call.path, half, 0600, false);
    KillPoints::Die();
  }
  absl::Status status = carry_out();
  if (!Reads(call.operation)) points_->Reach(absl::StrCat(label, " after"));
  return status;
}

}  // namespace dra::crash
