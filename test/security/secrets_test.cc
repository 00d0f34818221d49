// Secrets are planted wherever one can come in; then everything that the driver emits is searched for them.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/unique_fd.h"
#include "test/driver/node_fixture.h"

namespace dra::driver {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "tok3n-9f1c-bearer-of-the-api-client";
constexpr char kParameter[] = "p4rameter-77aa-of-a-claim";
constexpr char kQuoted[] = "p4rameter \"with\" quotes \\ 1";
constexpr char kMisplaced[] = "p4rameter-under-an-unknown-field";
constexpr char kEnvironment[] = "3nvironment-b2c4-of-a-container";
constexpr char kBrokenEdit[] = "3nvironment-without-an-equals-sign";
constexpr char kUndo[] = "und0-55d1-of-a-backend";

class LogLines {
 public:
  Logger Make(LogFormat format) {
    return Logger::ToFunction(
        LogLevel::kTrace, format,
        [](void* self, absl::string_view line) {
          auto* lines = static_cast<LogLines*>(self);
          const absl::MutexLock lock(&lines->mutex_);
          absl::StrAppend(&lines->text_, line, "\n");
        },
        this);
  }
  std::string text() {
    const absl::MutexLock lock(&mutex_);
    return text_;
  }

 private:
  absl::Mutex mutex_;
  std::string text_;
};

std::string ReadAll(int fd) {
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
    answer.append(buffer, static_cast<size_t>(got));
  }
  return answer;
}

std::string Metrics(int port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return "";
  const std::string request =
      "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  (void)::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
  return ReadAll(fd.get());
}

std::string StatusAnswer(const std::string& path) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return "";
  ::shutdown(fd.get(), SHUT_WR);
  return ReadAll(fd.get());
}

class Secrets : public NodeFixture, public ::testing::WithParamInterface<LogFormat> {
 protected:
  void WriteInventory() {
    const Json good = {{"device", {{"name", "d0"}}}, {"identity", "serial-0"}};
    Json broken = {{"device", {{"name", "d1"}}}, {"identity", "serial-1"}};
    broken["edits"] = {{"env", {kBrokenEdit}}};
    // Something to write an Event about.
    const Json finding = {{"error", {{"code", "INTERNAL"}, {"message", "no answer on the bus"}}},
                          {"subject", "slot 2"}};
    const Json inventory = {{"devices", {good, broken, finding}},
                            {"claimEdits", {{"env", {absl::StrCat("DB_PASSWORD=", kEnvironment)}}}},
                            {"undo", kUndo},
                            {"configKinds",
                             {{{"apiVersion", "gpu.sdk.test/v1"},
                               {"kind", "Config"},
                               {"fields", {"password", "more"}}}}},
                            {"showConfig", true}};
    ASSERT_TRUE(WriteFileAtomically(fs_, directory_.Path("inventory.json"), DumpJson(inventory),
                                    0600, Durability::kVolatile)
                    .ok());
  }

  void StartAll() {
    WriteInventory();
    StartApi();
    api_->SetBearerToken(kToken);
    ASSERT_TRUE(WriteFileAtomically(fs_, directory_.Path("kubeconfig"), api_->KubeConfig(), 0600,
                                    Durability::kVolatile)
                    .ok());
    StartKubelet();
    DaemonConfig config = Config();
    config.http_address = "127.0.0.1:0";
    config.drivers[0].backend_config = {{"inventoryFile", directory_.Path("inventory.json")},
                                        {"stateDirectory", directory_.Path("state")}};
    auto daemon = Daemon::Create(config, &fs_, &clock_, log_.Make(GetParam()));
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
    ASSERT_TRUE(daemon_->Start().ok());
    ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
    ASSERT_TRUE(WaitForReady(true)) << DumpJson(daemon_->Status());
  }

  static Json Opaque(const Json& more) {
    Json parameters = {{"apiVersion", "gpu.sdk.test/v1"}, {"kind", "Config"}};
    parameters.update(more);
    return Json::array({{{"source", "FromClaim"},
                         {"requests", Json::array()},
                         {"opaque", {{"driver", kDriver}, {"parameters", parameters}}}}});
  }
  static Json Password() {
    return Opaque({{"password", kParameter}, {"more", {{"deep", kQuoted}}}});
  }

  std::string Prepare(const testing::KubeletClaim& claim) {
    return Said(kubelet_->PrepareResources(kDriver, {claim}));
  }
  std::string Unprepare(const testing::KubeletClaim& claim) {
    return Said(kubelet_->UnprepareResources(kDriver, {claim}));
  }
  // The error as the kubelet has it; "" if there is none.
  std::string Said(const testing::KubeletReply& reply) {
    std::string text(reply.verdict.message());
    for (const auto& [uid, error] : reply.errors) absl::StrAppend(&text, " ", error);
    absl::StrAppend(&told_, text, "\n");
    return text;
  }
  void Search(const std::string& where, const std::string& text) {
    EXPECT_FALSE(text.empty()) << where << " has nothing to search";
    for (const char* secret : {kToken, kParameter, kMisplaced, kEnvironment, kBrokenEdit, kUndo,
                               "p4rameter \"with", "p4rameter \\\"with"}) {
      const size_t at = text.find(secret);
      if (at == std::string::npos) continue;
      ADD_FAILURE() << secret << " is in " << where << ": ..."
                    << text.substr(at < 300 ? 0 : at - 300, 600);
    }
  }
  // Files of the driver that are neither records nor CDI, and not the test's own.
  void SearchFiles(const std::string& directory) {
    const auto names = fs_.List(directory);
    ASSERT_TRUE(names.ok()) << names.status();
    for (const std::string& name : *names) {
      const std::string path = JoinPath(directory, name);
      if (name == "claims" || path == directory_.Path("cdi") || path == directory_.Path("state") ||
          name == "kubeconfig" || name == "inventory.json") {
        continue;
      }
      const auto info = fs_.Stat(path);
      if (!info.ok()) continue;
      if (info->type == FileType::kDirectory) SearchFiles(path);
      if (info->type != FileType::kRegular || info->size == 0) continue;
      Search(path, *fs_.ReadFile(path));
    }
  }

  LogLines log_;
  std::string told_;
};

TEST_P(Secrets, AreInNoLogEventMetricStatusOrAnswer) {
  StartAll();

  // A claim that works: the secrets do go where they belong.
  const auto good = MakeClaim("good", {"d0"}, Password());
  EXPECT_EQ(Prepare(good), "");
  const std::string cdi = *fs_.ReadFile(directory_.Path(absl::StrCat("cdi/", CdiFiles().at(0))));
  EXPECT_THAT(cdi, HasSubstr(kEnvironment));
  EXPECT_THAT(cdi, HasSubstr(kParameter));
  EXPECT_EQ(Prepare(good), "");
  const std::string metrics = Metrics(daemon_->http_port());
  EXPECT_THAT(metrics, HasSubstr("dra_devices{"));
  Search("/metrics", metrics);
  const std::string status = StatusAnswer(daemon_->status_socket());
  EXPECT_THAT(status, HasSubstr(good.uid));
  Search("the status socket", status);
  SearchFiles(directory_.path());

  // A backend that quotes what it was given, in unprepare and then in prepare.
  const std::string quotes =
      absl::StrCat("card refused ", kParameter, " and ", DumpJson(Json(kQuoted)), " with ", kUndo);
  Control(
      {{"hooks",
        {{"unprepare", {{"times", 1}, {"fail", {{"code", "INTERNAL"}, {"message", quotes}}}}}}}});
  EXPECT_THAT(Unprepare(good), HasSubstr("card refused [withheld]"));
  Search("the status socket", StatusAnswer(daemon_->status_socket()));
  EXPECT_EQ(Unprepare(good), "");

  const auto echoed = MakeClaim("echoed", {"d0"}, Password());
  Control({{"hooks",
            {{"prepare",
              {{"times", 1},
               {"fail",
                {{"code", "INVALID_ARGUMENT"},
                 {"message", absl::StrCat("card refused ", kParameter)}}}}}}}});
  EXPECT_THAT(Prepare(echoed), HasSubstr("card refused [withheld]"));
  Control({{"hooks",
            {{"prepare",
              {{"times", 1},
               {"fail",
                {{"code", "INVALID_ARGUMENT"},
                 {"message", absl::StrCat(std::string(500, 'x'), kParameter)}}}}}}}});
  EXPECT_THAT(Prepare(echoed), HasSubstr("xxx"));

  // Undo that the very call has saved, and a log line of the backend while a hook runs.
  constexpr char kThisUndo[] = "und0-saved-within-the-call";
  Control({{"hooks",
            {{"prepare",
              {{{"times", 1},
                {"callback", {{"function", "saveUndo"}, {"text", kThisUndo}}},
                {"latencyMs", 100}},
               {{"at", "end"},
                {"times", 1},
                {"callback",
                 {{"function", "log"},
                  {"text", absl::StrCat("card holds ", kParameter, " and ", kThisUndo)}}},
                {"latencyMs", 100},
                {"fail",
                 {{"code", "INVALID_ARGUMENT"},
                  {"message", absl::StrCat("card refused ", kUndo, ", ", kThisUndo)}}}}}}}}});
  EXPECT_THAT(Prepare(echoed), HasSubstr("card refused [withheld], [withheld]"));
  EXPECT_THAT(log_.text(), HasSubstr("card holds [withheld] and [withheld]"));
  EXPECT_THAT(log_.text(), Not(HasSubstr(kThisUndo)));
  EXPECT_THAT(told_, Not(HasSubstr(kThisUndo)));
  EXPECT_EQ(Unprepare(echoed), "");
  Control(Json::object());

  // A configuration that is refused: the field is named, its value is not.
  const auto unknown = MakeClaim("unknown", {"d0"}, Opaque({{"passphrase", kMisplaced}}));
  EXPECT_THAT(Prepare(unknown), HasSubstr("parameters.passphrase: unknown field"));

  // Edits that are refused.
  const auto broken = MakeClaim("broken", {"d1"});
  EXPECT_THAT(Prepare(broken), HasSubstr("invalid environment variable"));

  // A server, or a proxy before it, that repeats the request's headers.
  for (const auto& [code, kind] : std::vector<std::pair<int, testing::ApiFault::Kind>>{
           {401, testing::ApiFault::Kind::kStatus},
           {403, testing::ApiFault::Kind::kStatus},
           {403, testing::ApiFault::Kind::kPlainText},
           {502, testing::ApiFault::Kind::kPlainText}}) {
    testing::ApiFault fault;
    fault.kind = kind;
    fault.match.verb = "get";
    fault.match.resource = "resourceclaims";
    fault.code = code;
    fault.reason = code == 401 ? "Unauthorized" : "Forbidden";
    fault.message = absl::StrCat("refused: Authorization: Bearer ", kToken);
    api_->traffic().Inject(fault);
    const std::string said = Prepare(echoed);
    if (code != 502) {
      EXPECT_THAT(said, HasSubstr("[token withheld]")) << code;
    }
    api_->traffic().ClearFaults();
  }

  const std::string log = log_.text();
  EXPECT_THAT(log, HasSubstr(good.uid)) << "the log must say what happened";
  Search("what the kubelet was told", told_);
  Search("/metrics", Metrics(daemon_->http_port()));
  Search("the status socket", StatusAnswer(daemon_->status_socket()));
  StopDaemon();
  Search("the log", log_.text());
  std::string sent;
  int events = 0;
  for (const testing::RequestRecord& request : api_->traffic().Requests()) {
    absl::StrAppend(&sent, request.name, " ", DumpJson(request.body), "\n");
    if (request.resource == "events") ++events;
  }
  EXPECT_GT(events, 0);
  Search("what was sent to the API server", sent);
  SearchFiles(directory_.path());
}

INSTANTIATE_TEST_SUITE_P(Formats, Secrets, ::testing::Values(LogFormat::kText, LogFormat::kJson),
                         [](const auto& tested) {
                           return std::string(tested.param == LogFormat::kText ? "Text" : "Json");
                         });

}  // namespace
}  // namespace dra::driver
