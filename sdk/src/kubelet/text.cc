#include "kubelet/text.h"

#include "dra/base/utf8.h"

namespace dra::kubelet {
namespace {

constexpr size_t kMaxErrorBytes = 4096;

}  // namespace

std::string WireError(const absl::Status& status) {
  if (status.ok()) return "";
  const absl::string_view message = status.message();
  if (message.empty()) return absl::StatusCodeToString(status.code());
  return ValidUtf8Prefix(message, kMaxErrorBytes);
}

}  // namespace dra::kubelet
