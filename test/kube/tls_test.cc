#include <gtest/gtest.h>
#include <httplib.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "dra/base/file_system.h"
#include "dra/kube/http_api_client.h"
#include "nlohmann/json.hpp"
#include "test/kube/http_double.h"

namespace dra::kube {
namespace {

// An authority, a server certificate for the name "kubernetes" and a client certificate, made with openssl.
class TlsTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string script = R"(set -e; cd ")" + dir_.path() + R"("
key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
for ca in ca other; do key $ca; openssl req -x509 -new -key $ca.key -subj "/CN=$ca" -days 2 -out $ca.crt; done
issue() { key "$1"; openssl req -new -key "$1.key" -subj "/CN=$1" -out "$1.csr"
  printf "subjectAltName=DNS:kubernetes" > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile "$1.ext" -out "$1.crt"; }
issue server; issue client)";
    ASSERT_EQ(std::system(("(" + script + ") >/dev/null 2>&1").c_str()), 0);
    server_ = std::make_unique<httplib::SSLServer>(dir_.File("server.crt").c_str(),
                                                   dir_.File("server.key").c_str(),
                                                   dir_.File("ca.crt").c_str());
    ASSERT_TRUE(server_->is_valid());
    server_->Get("/api/v1/nodes/n",
                 [this](const httplib::Request& request, httplib::Response& response) {
                   host_ = request.get_header_value("Host");
                   response.set_content(R"({"kind":"Node"})", "application/json");
                 });
    port_ = server_->bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_->listen_after_bind(); });
    config_.server = absl::StrCat("https://127.0.0.1:", port_);
    config_.tls_server_name = "kubernetes";
    config_.ca_file = dir_.File("ca.crt");
    config_.client_certificate_file = dir_.File("client.crt");
    config_.client_key_file = dir_.File("client.key");
  }

  void TearDown() override {
    if (server_ == nullptr) return;
    while (!server_->is_running()) std::this_thread::yield();  // stop() before that is lost
    server_->stop();
    thread_.join();
  }

  absl::Status Get() {
    auto client = MakeHttpApiClient(config_, {}, &clock_, Logger());
    if (!client.ok()) return client.status();
    return (*client)->Get(Nodes(), "", "n", Call::WithTimeout(absl::Seconds(20))).status();
  }

  TempDir dir_;
  SystemClock clock_;
  ClusterConfig config_;
  std::unique_ptr<httplib::SSLServer> server_;
  std::thread thread_;
  int port_ = 0;
  std::string host_;
};

TEST_F(TlsTest, ShowsItsCertificateAndChecksTheServersName) {
  EXPECT_TRUE(Get().ok()) << Get();
  EXPECT_EQ(host_, absl::StrCat("127.0.0.1:", port_));
  config_.tls_server_name.clear();
  EXPECT_TRUE(absl::IsUnavailable(Get())) << "a certificate for another name must not do";
}

TEST_F(TlsTest, TakesPemTextAsWellAsFiles) {
  PosixFileSystem fs;
  config_.ca_data = *fs.ReadFile(config_.ca_file, 1 << 20);
  config_.client_certificate_data = *fs.ReadFile(config_.client_certificate_file, 1 << 20);
  config_.client_key_data = *fs.ReadFile(config_.client_key_file, 1 << 20);
  config_.ca_file = config_.client_certificate_file = config_.client_key_file = "";
  EXPECT_TRUE(Get().ok()) << Get();
}

TEST_F(TlsTest, RefusesAServerOfAnotherAuthority) {
  config_.ca_file = dir_.File("other.crt");
  EXPECT_TRUE(absl::IsUnavailable(Get())) << Get();
  config_.ca_file = "";
  config_.insecure_skip_tls_verify = true;
  EXPECT_TRUE(Get().ok()) << Get();
}

TEST_F(TlsTest, IsRefusedWithoutAClientCertificate) {
  config_.client_certificate_file = config_.client_key_file = "";
  EXPECT_FALSE(Get().ok());
}

TEST(Api02, ARotatedCaFileIsUsedForNewConnections) {
  // The bytes that a connection is made with come from the newest reading; see CredentialsTest for the reading itself.
  TempDir dir;
  SystemClock clock;
  ClusterConfig config;
  config.server = "https://127.0.0.1:1";
  config.ca_file = dir.File("absent.crt");
  const auto client = MakeHttpApiClient(config, {}, &clock, Logger());
  ASSERT_TRUE(client.ok());
  const auto refused = (*client)->Get(Nodes(), "", "n", Call::WithTimeout(absl::Seconds(20)));
  EXPECT_TRUE(absl::IsNotFound(refused.status())) << refused.status();
  dir.Write("absent.crt", "-----BEGIN CERTIFICATE-----\n");
  const auto tried = (*client)->Get(Nodes(), "", "n", Call::WithTimeout(absl::Seconds(20)));
  EXPECT_TRUE(absl::IsUnavailable(tried.status())) << tried.status();
}

}  // namespace
}  // namespace dra::kube
