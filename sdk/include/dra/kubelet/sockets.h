#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Where a DRA plugin's sockets lie and what they are called: docs/sockets.md. Pure; any thread.
// Source: kubernetes/dynamic-resource-allocation, kubeletplugin (draplugin.go, endpoint.go).
namespace dra::kubelet {

// sun_path of sockaddr_un without its NUL: a longer path cannot be bound or dialled.
inline constexpr size_t kMaxSocketPath = 107;
inline constexpr size_t kMaxDriverName = 63;

struct SocketPaths {
  std::string registry_directory;   // <root>/plugins_registry, made and watched by the kubelet
  std::string plugin_directory;     // <root>/plugins/<driver>, ours
  std::string registration_socket;  // in registry_directory
  std::string
      service_socket;  // in plugin_directory, or hidden in registry_directory where that is too long
  // The name does not say whose it is, so a marker file in plugin_directory does.
  bool registration_needs_marker = false;
  bool service_needs_marker = false;
};

// The kubelet's rule for a plugin's name: a DNS subdomain of at most 63 bytes. Errors: InvalidArgument.
absl::Status ValidateDriverName(absl::string_view driver);

// pod_uid: "" for one instance at a time, else the names of a rolling update. The first name that fits is taken:
//   registration  <driver>[-<uid>]-reg.sock, <driver>-<B>-reg.sock (only with a uid), dra-<C>-reg.sock
//   service       dra[-<uid>].sock, dra-<B>.sock (only with a uid), <registry directory>/.dra-<C>.sock
// B: URL-safe base64 of the first 8 bytes of SHA-256(uid), C: of the first 16 of SHA-256(driver NUL uid).
// Errors: InvalidArgument for a root that is not absolute or so long that nothing fits, a driver name the kubelet
// refuses, or a pod UID that may not name a file.
absl::StatusOr<SocketPaths> ComputeSocketPaths(absl::string_view kubelet_root,
                                               absl::string_view driver, absl::string_view pod_uid);

// A path for the registration socket that nobody has used before: <driver>-<random>-reg.sock, or dra-<random>-reg.sock where
// that is too long. It needs a marker. Differs from call to call.
std::string FreshRegistrationSocket(const SocketPaths& paths, absl::string_view driver);

// True for the names that an instance of this driver, Go helper included, gives its registration socket, as far as the
// name shows it: <driver>-reg.sock, <driver>-<uid>-reg.sock and <driver>-<B>-reg.sock. A name that could belong to
// another driver ("gpu.example.com-x-reg.sock") is not ours.
bool IsRegistrationSocketName(absl::string_view name, absl::string_view driver);
// True for dra.sock, dra-<uid>.sock and dra-<B>.sock, the names in a plugin directory.
bool IsServiceSocketName(absl::string_view name);

// The kubelet ignores names that begin with a dot: a socket is bound under such a name and renamed once it listens.
// Differs from call to call; the prefix is the driver's.
std::string TemporarySocketName(absl::string_view driver);
bool IsTemporarySocketName(absl::string_view name, absl::string_view driver);

}  // namespace dra::kubelet
