#include "kube/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "dra/kube/http_api_client.h"
#include "kube/exec_credential.h"
#include "nlohmann/json.hpp"
#include "test/kube/http_double.h"

namespace dra::kube {
namespace {

using testing::HasSubstr;
using testing::Not;

// A clock that a test moves.
class ManualClock final : public Clock {
 public:
  absl::Time Now() override {
    return absl::UnixEpoch() + absl::FromChrono(now_.time_since_epoch());
  }
  MonotonicTime Monotonic() override { return now_; }
  bool Sleep(absl::Duration, const std::stop_token& stop) override {
    return !stop.stop_requested();
  }
  void Advance(absl::Duration by) { now_ += absl::ToChronoNanoseconds(by); }

 private:
  MonotonicTime now_{std::chrono::hours(1)};
};

class CredentialsTest : public testing::Test {
 protected:
  std::unique_ptr<CredentialSource> Source() {
    return std::make_unique<CredentialSource>(config_, absl::Seconds(50), absl::Seconds(20), &fs_,
                                              &clock_, Logger());
  }
  std::string Script(const std::string& text) {
    return dir_.Write("plugin", "#!/bin/sh\n" + text, 0755);
  }

  TempDir dir_;
  PosixFileSystem fs_;
  ManualClock clock_;
  ClusterConfig config_;
};

TEST_F(CredentialsTest, ReadsFilesAgainAfterTheirTimeAndKeepsTheLastIfUnreadable) {
  config_.token_file = dir_.Write("token", "A\n");
  config_.ca_file = dir_.Write("ca", "ca-1");
  const auto source = Source();
  EXPECT_EQ((*source->Current(Bounded()))->token, "A");
  dir_.Write("token", "B");
  dir_.Write("ca", "ca-2");
  EXPECT_EQ((*source->Current(Bounded()))->token, "A");
  clock_.Advance(absl::Seconds(51));
  EXPECT_EQ((*source->Current(Bounded()))->token, "B");
  EXPECT_EQ((*source->Current(Bounded()))->ca, "ca-2");
  std::filesystem::remove(config_.token_file);
  clock_.Advance(absl::Seconds(51));
  const auto kept = source->Current(Bounded());
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ((*kept)->token, "B");
  dir_.Write("token", "");
  clock_.Advance(absl::Seconds(51));
  EXPECT_EQ((*source->Current(Bounded()))->token, "B");
}

TEST_F(CredentialsTest, FailsWhenTheFirstReadingFails) {
  config_.token_file = dir_.File("none");
  EXPECT_THAT(std::string(Source()->Current(Bounded()).status().message()), HasSubstr("none"));
}

TEST_F(CredentialsTest, RefusesATokenThatWouldBreakTheHeader) {
  config_.token_file = dir_.Write("token", "secret\r\nX: y");
  const auto read = Source()->Current(Bounded());
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(std::string(read.status().message()), Not(HasSubstr("secret")));
}

TEST_F(CredentialsTest, RunsTheExecPluginAgainOnlyWhenItsAnswerExpiresOrIsRefused) {
  const std::string expiry =
      absl::FormatTime(absl::RFC3339_sec, clock_.Now() + absl::Minutes(10), absl::UTCTimeZone());
  config_.exec = ExecPlugin{
      "client.authentication.k8s.io/v1",
      Script(absl::StrCat(
          "echo x >> ", dir_.File("runs"), "\nn=$(wc -l < ", dir_.File("runs"),
          ")\necho "
          "'{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",",
          "\"status\":{\"expirationTimestamp\":\"", expiry, "\",\"token\":\"t'$n'\"}}'\n")),
      {},
      {},
      ""};
  const auto source = Source();
  const auto first = source->Current(Bounded());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->token, "t1");
  clock_.Advance(absl::Minutes(5));
  EXPECT_EQ((*source->Current(Bounded()))->token, "t1");
  const auto renewed = source->Renew(*source->Current(Bounded()), Bounded());
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ((*renewed)->token, "t2");
  EXPECT_EQ((*source->Renew(*first, Bounded()))->token,
            "t2");  // another thread's refusal is old news
  clock_.Advance(absl::Minutes(6));
  EXPECT_EQ((*source->Current(Bounded()))->token, "t3");
}

TEST_F(CredentialsTest, PassesArgumentsAndEnvironmentToThePlugin) {
  const ExecPlugin plugin{
      "client.authentication.k8s.io/v1beta1",
      Script(
          "printf "
          "'{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"kind\":\"ExecCredential\","
          "\"status\":{\"token\":\"%s-%s\"}}' \"$1\" \"$EXTRA\"\n"
          "echo \"$KUBERNETES_EXEC_INFO\" > " +
          dir_.File("info")),
      {"arg"},
      {{"EXTRA", "env"}},
      ""};
  const auto credential = RunExecPlugin(plugin, Bounded());
  ASSERT_TRUE(credential.ok()) << credential.status();
  EXPECT_EQ(credential->token, "arg-env");
  EXPECT_THAT(*fs_.ReadFile(dir_.File("info"), 1000), HasSubstr(R"("interactive":false)"));
}

TEST_F(CredentialsTest, TellsHowAPluginFailed) {
  ExecPlugin plugin{
      "client.authentication.k8s.io/v1", dir_.File("missing"), {}, {}, "run: install-it"};
  absl::Status status = RunExecPlugin(plugin, Bounded()).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("install-it"));
  plugin.command = Script("echo not logged in >&2; exit 3");
  status = RunExecPlugin(plugin, Bounded()).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("exit code 3: not logged in"));
  plugin.command = Script("echo secret-junk");
  status = RunExecPlugin(plugin, Bounded()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret-junk")));
}

TEST_F(CredentialsTest, KillsAPluginThatHangs) {
  for (const char* text : {"sleep 1000", "exec >/dev/null 2>&1; sleep 1000"}) {
    const ExecPlugin plugin{"client.authentication.k8s.io/v1", Script(text), {}, {}, ""};
    const absl::Status status =
        RunExecPlugin(plugin, Call::WithTimeout(absl::Milliseconds(200))).status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  }
}

TEST(Api02, ARotatedTokenIsReadAtOnceOn401AndTheCallSucceeds) {
  TempDir dir;
  // As the kubelet does it: token -> ..data/token, and ..data is a symlink that is swapped.
  std::filesystem::create_directory(dir.File("v1"));
  std::filesystem::create_directory(dir.File("v2"));
  dir.Write("v1/token", "token-a");
  dir.Write("v2/token", "token-b");
  std::filesystem::create_symlink("v1", dir.File("..data"));
  std::filesystem::create_symlink("..data/token", dir.File("token"));
  std::atomic<bool> rotated{false};
  std::atomic<int> requests{0};
  const auto server = HttpDouble::Answering([&](const auto& request, HttpConnection& connection) {
    ++requests;
    const std::string wanted = rotated ? "Bearer token-b" : "Bearer token-a";
    if (request.headers.at("authorization") == wanted) {
      connection.Answer(200, R"({"kind":"Node"})");
    } else {
      connection.Answer(
          401, R"({"kind":"Status","status":"Failure","code":401,"reason":"Unauthorized"})");
    }
  });
  SystemClock clock;
  ClusterConfig config;
  config.server = server->url();
  config.token_file = dir.File("token");
  const auto client = MakeHttpApiClient(config, {}, &clock, Logger());
  ASSERT_TRUE((*client)->Get(Nodes(), "", "n", Bounded()).ok());
  rotated = true;
  std::filesystem::create_symlink("v2", dir.File("..tmp"));
  std::filesystem::rename(dir.File("..tmp"), dir.File("..data"));
  EXPECT_TRUE((*client)->Get(Nodes(), "", "n", Bounded()).ok());
  EXPECT_EQ(requests, 3);
  rotated = false;  // the server refuses what the file holds: one retry, no loop
  const auto refused = (*client)->Get(Nodes(), "", "n", Bounded());
  EXPECT_TRUE(absl::IsUnauthenticated(refused.status()));
  EXPECT_EQ(requests, 5);
  EXPECT_THAT(refused.status().ToString(), Not(HasSubstr("token-b")));
}

}  // namespace
}  // namespace dra::kube
