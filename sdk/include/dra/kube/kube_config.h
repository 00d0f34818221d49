#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/file_system.h"

namespace dra::kube {

// A credential plugin of a kubeconfig: a program that prints an ExecCredential.
// Source: kubernetes/client-go:pkg/apis/clientauthentication, v1 and v1beta1.
struct ExecPlugin {
  std::string api_version;  // "client.authentication.k8s.io/v1" or ".../v1beta1"
  std::string command;      // absolute, or a bare name that is looked up in PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  // added to this process's environment
  std::string install_hint;                              // shown when the program is missing
};

// How to reach and convince one API server. Of each pair, data (PEM text) wins over file; files are absolute and are
// read again while the client runs, so a rotated token or certificate is picked up.
struct ClusterConfig {
  std::string
      server;  // "https://host:port[/prefix]", "http://..." or "unix:///path" (the last two for doubles)
  std::string ca_data;
  std::string ca_file;  // neither: the system's authorities
  bool insecure_skip_tls_verify = false;
  std::string tls_server_name;  // "" = the host of `server`
  std::string proxy_url;        // "" = for https the proxy variables of the environment, else none
  std::string token;
  std::string token_file;
  std::string client_certificate_data;
  std::string client_certificate_file;
  std::string client_key_data;
  std::string client_key_file;
  std::optional<ExecPlugin> exec;
  std::string namespace_name = "default";
  std::string source;  // where this was read, for messages
};

using EnvironmentGetter = std::function<std::optional<std::string>(absl::string_view name)>;
// getenv of this process.
std::optional<std::string> GetEnvironment(absl::string_view name);

// Reads a kubeconfig; `context` "" takes current-context. Relative file names resolve against the kubeconfig's folder.
// Errors name the file and what is wrong: NotFound (no such file), InvalidArgument (not YAML, context, cluster or user
// missing, half a client certificate, a user kind that is not supported).
absl::StatusOr<ClusterConfig> LoadKubeConfig(FileSystem& fs, absl::string_view path,
                                             absl::string_view context);

// The service account of the pod this process runs in. FailedPrecondition, naming what is missing, outside a pod.
absl::StatusOr<ClusterConfig> InClusterConfig(
    FileSystem& fs, const EnvironmentGetter& environment,
    absl::string_view directory = "/var/run/secrets/kubernetes.io/serviceaccount");

// The explicit kubeconfig if `kubeconfig` is not "", else the pod's service account. $KUBECONFIG and ~/.kube/config are
// not looked at: a daemon must not pick up an administrator's file by accident.
absl::StatusOr<ClusterConfig> FindClusterConfig(FileSystem& fs, absl::string_view kubeconfig,
                                                absl::string_view context,
                                                const EnvironmentGetter& environment);

// Checks what can be checked without a connection: scheme, pairs, control characters. InvalidArgument.
absl::Status ValidateClusterConfig(const ClusterConfig& config);

}  // namespace dra::kube
