#include "dra/kubelet/sockets.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "dra/base/file_system.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"

namespace dra::kubelet {
namespace {

constexpr size_t kUidHashBytes = 8;
constexpr size_t kUidHashLength = 11;  // of kUidHashBytes in base64 without padding
constexpr size_t kFullHashBytes = 16;
constexpr size_t kStaticPodUidLength = 32;

bool IsAlnum(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }

bool IsDnsLabel(absl::string_view label) {
  return !label.empty() && label.size() <= 63 && IsAlnum(label.front()) && IsAlnum(label.back()) &&
         std::all_of(label.begin(), label.end(), [](char c) { return IsAlnum(c) || c == '-'; });
}

std::string FullHash(absl::string_view driver, absl::string_view pod_uid) {
  return Sha256Base64Url(absl::StrCat(driver, absl::string_view("\0", 1), pod_uid), kFullHashBytes);
}

// A static pod's UID is 32 hexadecimal digits.
bool IsPodUid(absl::string_view text) {
  return IsUuid(text) ||
         (text.size() == kStaticPodUidLength && std::all_of(text.begin(), text.end(), [](char c) {
            return absl::ascii_isxdigit(static_cast<unsigned char>(c));
          }));
}

bool IsUidHash(absl::string_view text) {
  return text.size() == kUidHashLength && std::all_of(text.begin(), text.end(), [](char c) {
           return IsAlnum(c) || c == '-' || c == '_';
         });
}

// A driver name is lower case in practice, so a hash without a capital or '_' could be the tail of another driver's
// name: it is left alone.
bool IsUnmistakableUidHash(absl::string_view text) {
  return IsUidHash(text) && std::any_of(text.begin(), text.end(), [](char c) {
           return c == '_' || absl::ascii_isupper(static_cast<unsigned char>(c));
         });
}

bool Fits(absl::string_view path) { return path.size() <= kMaxSocketPath; }

std::string TemporaryPrefix(absl::string_view driver) {
  return absl::StrCat(".dra-", Sha256Hex(driver).substr(0, 16), "-");
}

}  // namespace

absl::Status ValidateDriverName(absl::string_view driver) {
  if (driver.empty()) return absl::InvalidArgumentError("driver name is empty");
  if (driver.size() > kMaxDriverName) {
    return absl::InvalidArgumentError(absl::StrCat(
        "driver name \"", driver, "\" has ", driver.size(), " bytes, at most ", kMaxDriverName));
  }
  for (const absl::string_view label : absl::StrSplit(driver, '.')) {
    if (!IsDnsLabel(label)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "driver name \"", driver, "\" is no DNS subdomain: labels of letters, digits and '-', ",
          "separated by dots, e.g. gpu.example.com"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SocketPaths> ComputeSocketPaths(absl::string_view kubelet_root,
                                               absl::string_view driver,
                                               absl::string_view pod_uid) {
  DRA_RETURN_IF_ERROR(ValidateDriverName(driver));
  if (!absl::StartsWith(kubelet_root, "/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("kubelet root \"", kubelet_root, "\" must be an absolute path"));
  }
  if (!pod_uid.empty() && !IsSafeFileId(pod_uid)) {
    return absl::InvalidArgumentError(
        absl::StrCat("pod UID \"", pod_uid, "\" may not name a file"));
  }
  SocketPaths paths;
  paths.registry_directory = JoinPath(kubelet_root, "plugins_registry");
  paths.plugin_directory = JoinPath(JoinPath(kubelet_root, "plugins"), driver);
  const std::string suffix = pod_uid.empty() ? "" : absl::StrCat("-", pod_uid);
  const std::string hashed =
      pod_uid.empty() ? "" : absl::StrCat("-", Sha256Base64Url(pod_uid, kUidHashBytes));
  const std::string full_hash = FullHash(driver, pod_uid);

  std::string& registration = paths.registration_socket;
  registration = JoinPath(paths.registry_directory, absl::StrCat(driver, suffix, "-reg.sock"));
  if (!Fits(registration)) {
    registration = JoinPath(paths.registry_directory, absl::StrCat(driver, hashed, "-reg.sock"));
  }
  if (!Fits(registration)) {
    registration = JoinPath(paths.registry_directory, absl::StrCat("dra-", full_hash, "-reg.sock"));
    paths.registration_needs_marker = true;
  }

  std::string& service = paths.service_socket;
  service = JoinPath(paths.plugin_directory, absl::StrCat("dra", suffix, ".sock"));
  if (!Fits(service)) {
    service = JoinPath(paths.plugin_directory, absl::StrCat("dra", hashed, ".sock"));
  }
  if (!Fits(service)) {
    // The plugin directory itself is too long. The registry directory is the other one that the kubelet is sure to
    // see, and it ignores hidden names there.
    service = JoinPath(paths.registry_directory, absl::StrCat(".dra-", full_hash, ".sock"));
    paths.service_needs_marker = true;
  }
  if (!Fits(registration) || !Fits(service)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "kubelet root \"", kubelet_root, "\" is too long: the shortest socket path has ",
        std::max(registration.size(), service.size()), " bytes, at most ", kMaxSocketPath,
        " can be bound"));
  }
  return paths;
}

std::string FreshRegistrationSocket(const SocketPaths& paths, absl::string_view driver) {
  const std::string random = RandomHex(4);
  const std::string path =
      JoinPath(paths.registry_directory, absl::StrCat(driver, "-", random, "-reg.sock"));
  if (Fits(path)) return path;
  return JoinPath(paths.registry_directory, absl::StrCat("dra-", random, "-reg.sock"));
}

bool IsRegistrationSocketName(absl::string_view name, absl::string_view driver) {
  if (!absl::ConsumePrefix(&name, driver) || !absl::ConsumeSuffix(&name, "-reg.sock")) return false;
  if (name.empty()) return true;
  return absl::ConsumePrefix(&name, "-") && (IsPodUid(name) || IsUnmistakableUidHash(name));
}

bool IsServiceSocketName(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "dra") || !absl::ConsumeSuffix(&name, ".sock")) return false;
  if (name.empty()) return true;
  return absl::ConsumePrefix(&name, "-") && (IsPodUid(name) || IsUidHash(name));
}

std::string TemporarySocketName(absl::string_view driver) {
  return absl::StrCat(TemporaryPrefix(driver), RandomHex(4), ".tmp");
}

bool IsTemporarySocketName(absl::string_view name, absl::string_view driver) {
  return absl::StartsWith(name, TemporaryPrefix(driver)) && absl::EndsWith(name, ".tmp");
}

}  // namespace dra::kubelet
