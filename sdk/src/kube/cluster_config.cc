#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "dra/kube/kube_config.h"

namespace dra::kube {
namespace {

// Text that would break out of a header or a URL.
bool HasControlCharacter(absl::string_view text) {
  for (const char c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> GetEnvironment(absl::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

absl::Status ValidateClusterConfig(const ClusterConfig& config) {
  const absl::string_view server = config.server;
  if (!absl::StartsWith(server, "https://") && !absl::StartsWith(server, "http://") &&
      !absl::StartsWith(server, "unix:///")) {
    return absl::InvalidArgumentError(
        absl::StrCat("server '", server.substr(0, server.find('@')),
                     "' must start with https://, http:// or unix:///"));
  }
  if (HasControlCharacter(server) || absl::StrContains(server, " ")) {
    return absl::InvalidArgumentError("server has a space or a control character");
  }
  if (absl::StrContains(server, "@")) {
    return absl::InvalidArgumentError(
        "server holds a user name, use a token or a client certificate");
  }
  if (HasControlCharacter(config.token))
    return absl::InvalidArgumentError("token has a control character");
  if (config.insecure_skip_tls_verify && (!config.ca_data.empty() || !config.ca_file.empty())) {
    return absl::InvalidArgumentError(
        "insecure-skip-tls-verify and a certificate authority exclude each other");
  }
  const bool has_certificate =
      !config.client_certificate_data.empty() || !config.client_certificate_file.empty();
  const bool has_key = !config.client_key_data.empty() || !config.client_key_file.empty();
  if (has_certificate != has_key) {
    return absl::InvalidArgumentError(has_key ? "client-key without client-certificate"
                                              : "client-certificate without client-key");
  }
  return absl::OkStatus();
}

absl::StatusOr<ClusterConfig> InClusterConfig(FileSystem& fs, const EnvironmentGetter& environment,
                                              absl::string_view directory) {
  const std::string host = environment("KUBERNETES_SERVICE_HOST").value_or("");
  const std::string port = environment("KUBERNETES_SERVICE_PORT").value_or("");
  if (host.empty() || port.empty()) {
    return absl::FailedPreconditionError(
        "not in a pod: KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set; outside a "
        "cluster name a "
        "kubeconfig");
  }
  ClusterConfig config;
  config.source = absl::StrCat("service account in ", directory);
  const bool is_ipv6 = absl::StrContains(host, ":") && host[0] != '[';
  config.server = is_ipv6 ? absl::StrCat("https://[", host, "]:", port)
                          : absl::StrCat("https://", host, ":", port);
  config.token_file = JoinPath(directory, "token");
  config.ca_file = JoinPath(directory, "ca.crt");
  for (const std::string& file : {config.token_file, config.ca_file}) {
    if (const auto found = fs.Stat(file, /*follow=*/true); !found.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("service account of the pod: ", found.status().message(),
                       "; is automountServiceAccountToken false?"));
    }
  }
  if (const auto text = fs.ReadFile(JoinPath(directory, "namespace"), 4096); text.ok()) {
    const absl::string_view name = absl::StripAsciiWhitespace(*text);
    if (!name.empty()) config.namespace_name = std::string(name);
  }
  DRA_RETURN_IF_ERROR(Annotate(ValidateClusterConfig(config), config.source));
  return config;
}

absl::StatusOr<ClusterConfig> FindClusterConfig(FileSystem& fs, absl::string_view kubeconfig,
                                                absl::string_view context,
                                                const EnvironmentGetter& environment) {
  if (!kubeconfig.empty()) return LoadKubeConfig(fs, kubeconfig, context);
  return InClusterConfig(fs, environment);
}

}  // namespace dra::kube
