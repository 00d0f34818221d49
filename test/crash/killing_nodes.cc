#include "test/crash/killing_nodes.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dra::crash {
namespace {

std::atomic<KillPoints*> g_node_points = nullptr;

// The path from its last "dev" on: what is above is another directory in each run.
absl::string_view InDev(absl::string_view path) {
  const size_t dev = path.rfind("/dev/");
  return dev == absl::string_view::npos ? path : path.substr(dev + 1);
}

template <typename Function>
int Pass(absl::string_view what, const char* path, Function function) {
  KillPoints* const points = g_node_points;
  if (points == nullptr || !points->armed()) return function();
  const std::string label = absl::StrCat(what, " ", InDev(path));
  points->Reach(absl::StrCat(label, " before"));
  const int result = function();
  const int kept_errno = errno;
  points->Reach(absl::StrCat(label, " after"));
  errno = kept_errno;
  return result;
}

}  // namespace

void SetNodePoints(KillPoints* points) { g_node_points = points; }

}  // namespace dra::crash

extern "C" {

__attribute__((visibility("default"))) int mknod(const char* path, mode_t mode,
                                                 dev_t device) noexcept {
  return dra::crash::Pass("mknod", path, [&] { return ::mknodat(AT_FDCWD, path, mode, device); });
}

__attribute__((visibility("default"))) int chmod(const char* path, mode_t mode) noexcept {
  return dra::crash::Pass("chmod", path, [&] { return ::fchmodat(AT_FDCWD, path, mode, 0); });
}

}  // extern "C"
