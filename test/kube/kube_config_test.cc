#include "dra/kube/kube_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "test/kube/http_double.h"

namespace dra::kube {
namespace {

using testing::HasSubstr;

constexpr char kFull[] = R"(
apiVersion: v1
kind: Config
current-context: a
contexts:
- {name: a, context: {cluster: c, user: u, namespace: ns}}
- {name: b, context: {cluster: c, user: exec}}
- {name: lost, context: {cluster: nowhere, user: u}}
- {name: old, context: {cluster: c, user: old}}
- {name: half, context: {cluster: c, user: half}}
clusters:
- name: c
  cluster:
    server: https://10.0.0.1:6443
    certificate-authority: pki/ca.crt
    tls-server-name: kubernetes
    proxy-url: http://proxy:3128
users:
- {name: u, user: {client-certificate-data: Y2VydA==, client-key: /abs/key, tokenFile: token}}
- {name: old, user: {username: admin, password: hunter2}}
- {name: half, user: {client-key: k}}
- name: exec
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: bin/login
      args: [get, token]
      env: [{name: A, value: b}]
      installHint: install it
      provideClusterInfo: true
)";

class KubeConfigTest : public testing::Test {
 protected:
  absl::StatusOr<ClusterConfig> Load(const std::string& text, const std::string& context = "") {
    return LoadKubeConfig(fs_, dir_.Write("config", text), context);
  }
  TempDir dir_;
  PosixFileSystem fs_;
};

TEST_F(KubeConfigTest, ReadsTheCurrentContext) {
  const auto config = Load(kFull);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://10.0.0.1:6443");
  EXPECT_EQ(config->ca_file, dir_.path() + "/pki/ca.crt");
  EXPECT_EQ(config->tls_server_name, "kubernetes");
  EXPECT_EQ(config->proxy_url, "http://proxy:3128");
  EXPECT_EQ(config->client_certificate_data, "cert");
  EXPECT_EQ(config->client_key_file, "/abs/key");
  EXPECT_EQ(config->token_file, dir_.path() + "/token");
  EXPECT_EQ(config->namespace_name, "ns");
}

TEST_F(KubeConfigTest, ReadsAnExecPlugin) {
  const auto config = Load(kFull, "b");
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_TRUE(config->exec.has_value());
  EXPECT_EQ(config->exec->command, dir_.path() + "/bin/login");
  EXPECT_EQ(config->exec->args, (std::vector<std::string>{"get", "token"}));
  EXPECT_EQ(config->exec->env[0].second, "b");
  EXPECT_EQ(config->exec->install_hint, "install it");
}

TEST_F(KubeConfigTest, NamesFileAndFault) {
  const struct {
    std::string text;
    std::string context;
    std::string want;
  } cases[] = {
      {kFull, "nope", "no context 'nope' in contexts (there are: a, b, lost, old, half)"},
      {kFull, "lost", "no cluster 'nowhere'"},
      {kFull, "old", "user 'old'.username is not supported"},
      {kFull, "half", "client-key without client-certificate"},
      {"a: [", "", "not YAML at line 1"},
      {"- x", "", "must be a YAML map"},
      {"kind: Config", "", "current-context is missing"},
      {"", "", "must be a YAML map"},
      {"contexts: 5\ncurrent-context: x", "", "no context 'x'"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.want);
    const auto config = Load(c.text, c.context);
    ASSERT_FALSE(config.ok());
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(c.want));
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(dir_.path() + "/config"));
    EXPECT_THAT(std::string(config.status().message()), testing::Not(HasSubstr("hunter2")));
  }
  EXPECT_TRUE(absl::IsNotFound(LoadKubeConfig(fs_, "/nonexistent/config", "").status()));
}

TEST_F(KubeConfigTest, TakesTheServiceAccountOfThePod) {
  const std::map<std::string, std::string> variables = {{"KUBERNETES_SERVICE_HOST", "fd00::1"},
                                                        {"KUBERNETES_SERVICE_PORT", "443"}};
  const EnvironmentGetter environment = [&](absl::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
  EXPECT_THAT(std::string(InClusterConfig(fs_, environment, dir_.path()).status().message()),
              HasSubstr("token"));
  dir_.Write("token", "t");
  dir_.Write("ca.crt", "c");
  dir_.Write("namespace", "kube-system\n");
  const auto config = InClusterConfig(fs_, environment, dir_.path());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://[fd00::1]:443");
  EXPECT_EQ(config->namespace_name, "kube-system");
}

TEST_F(KubeConfigTest, SaysWhatIsMissingOutsideAPod) {
  const auto none = [](absl::string_view) -> std::optional<std::string> { return std::nullopt; };
  const auto config = FindClusterConfig(fs_, "", "", none);
  EXPECT_TRUE(absl::IsFailedPrecondition(config.status()));
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("KUBERNETES_SERVICE_HOST"));
}

TEST(ClusterConfig, RefusesServersThatCannotWork) {
  for (const char* server : {"", "10.0.0.1:6443", "ftp://x", "unix://relative", "https://a b",
                             "https://u:p@h", "https://x\n"}) {
    ClusterConfig config;
    config.server = server;
    EXPECT_TRUE(absl::IsInvalidArgument(ValidateClusterConfig(config))) << server;
  }
}

}  // namespace
}  // namespace dra::kube
