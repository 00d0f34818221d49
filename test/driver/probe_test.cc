// What `dra-driver --probe` answers, by what listens at the status socket.

#include "dra/driver/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <fstream>
#include <functional>
#include <sstream>
#include <stop_token>
#include <thread>

#include "dra/base/json.h"
#include "dra/base/unique_fd.h"
#include "dra/driver/config.h"
#include "dra/observe/http_endpoint.h"
#include "dra/testing/temp_directory.h"
#include "nlohmann/json.hpp"

namespace dra::driver {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kPodUid[] = "7b1f0a52-6c3d-4e8f-9a0b-1c2d3e4f5a6b";

class Probe : public ::testing::Test {
 protected:
  struct Answer {
    int status = -1;
    std::string out, error;
  };
  Answer Ask(ProbeQuestion question, absl::Duration timeout = absl::Seconds(5)) const {
    std::ostringstream out, error;
    const int status = RunProbe({question, path_, kPodUid, timeout}, out, error);
    return {status, out.str(), error.str()};
  }
  // An instance of ours whose document is this one.
  void Serve(Json document) {
    socket_ = std::make_unique<observe::StatusSocket>(
        path_, [text = DumpJson(document)] { return text; }, Logger());
    ASSERT_TRUE(socket_->Start().ok());
  }
  static Json Document(bool ready, const Json& conditions = Json::array()) {
    return {{"podUID", kPodUid}, {"ready", ready}, {"conditions", conditions}};
  }
  // A listener that is not ours: `serve` gets each connection.
  void Listen(std::function<void(int client, const std::stop_token& stop)> serve) {
    UniqueFd listener = Bound();
    ASSERT_EQ(::listen(listener.get(), 4), 0);
    stranger_ = std::jthread(
        [serve = std::move(serve), listener = std::move(listener)](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            pollfd waiting{listener.get(), POLLIN, 0};
            if (::poll(&waiting, 1, 20) <= 0) continue;
            const UniqueFd client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (client) serve(client.get(), stop);
          }
        });
  }
  UniqueFd Bound() const {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  void ExpectUnknown(const char* reason, absl::Duration timeout = absl::Seconds(5)) const {
    for (const ProbeQuestion question : {ProbeQuestion::kLive, ProbeQuestion::kReady}) {
      const Answer answer = Ask(question, timeout);
      EXPECT_EQ(answer.status, kProbeUnknown);
      EXPECT_THAT(answer.out, IsEmpty());
      EXPECT_THAT(answer.error, HasSubstr("could not look: status socket " + path_ + ": "));
      EXPECT_THAT(answer.error, HasSubstr(reason));
    }
  }

  testing::TempDirectory directory_;
  const std::string path_ = directory_.Path("status.sock");
  std::unique_ptr<observe::StatusSocket> socket_;
  std::jthread stranger_;
};

TEST_F(Probe, AReadyInstanceIsLiveAndReady) {
  Serve(Document(true));
  EXPECT_EQ(Ask(ProbeQuestion::kLive).status, kProbeYes);
  EXPECT_EQ(Ask(ProbeQuestion::kReady).status, kProbeYes);
}

TEST_F(Probe, AnInstanceThatIsNotReadyIsLiveAndNamesTheFailingConditionsOneALine) {
  Serve(Document(false, {{{"driver", "a.example.com"}, {"name", "registered"}, {"ok", true}},
                         {{"driver", "a.example.com"},
                          {"name", "published"},
                          {"ok", false},
                          {"message", "the API server\ndoes not answer"}},
                         {{"driver", "b.example.com"}, {"name", "backend"}, {"ok", false}}}));
  EXPECT_EQ(Ask(ProbeQuestion::kLive).status, kProbeYes);
  const Answer answer = Ask(ProbeQuestion::kReady);
  EXPECT_EQ(answer.status, kProbeNo);
  EXPECT_EQ(answer.out,
            "not ready\n"
            "a.example.com: published: the API server does not answer\n"
            "b.example.com: backend: \n");
  EXPECT_THAT(answer.error, IsEmpty());
}

TEST_F(Probe, AnotherPodsInstanceIsNeitherLiveNorReady) {
  Json document = Document(true);
  document["podUID"] = "another";
  Serve(document);
  for (const ProbeQuestion question : {ProbeQuestion::kLive, ProbeQuestion::kReady}) {
    const Answer answer = Ask(question);
    EXPECT_EQ(answer.status, kProbeNo);
    EXPECT_THAT(answer.out, HasSubstr("\"another\""));
    EXPECT_THAT(answer.out, HasSubstr(kPodUid));
  }
}

TEST_F(Probe, WithoutASocketItCouldNotLook) { ExpectUnknown("No such file"); }

TEST_F(Probe, ASocketFileThatAKilledInstanceLeftIsSaidToBeOne) {
  { const UniqueFd gone = Bound(); }
  ExpectUnknown("nobody listens");
}

TEST_F(Probe, AFileThatIsNoSocketIsNotAsked) {
  std::ofstream(path_) << "{}";
  ExpectUnknown("nobody listens");
}

TEST_F(Probe, APathThatNoSocketCanHaveIsNamedWithTheLimit) {
  std::ostringstream out, error;
  EXPECT_EQ(RunProbe({ProbeQuestion::kLive, std::string(200, 'x'), kPodUid}, out, error),
            kProbeUnknown);
  EXPECT_THAT(error.str(), HasSubstr("200 bytes, at most 107"));
}

TEST_F(Probe, GarbageIsNoAnswer) {
  Listen([](int client, const std::stop_token&) {
    char request = 0;  // what is left unread would make the close a reset
    ::recv(client, &request, 1, 0);
    ::send(client, "junk{", 5, MSG_NOSIGNAL);
  });
  ExpectUnknown("the answer");
}

TEST_F(Probe, AnObjectWithoutTheMembersIsNoAnswer) {
  Serve({{"podUID", kPodUid}, {"ready", "yes"}});
  ExpectUnknown("no status document");
}

TEST_F(Probe, OneThatTakesTheConnectionAndNeverAnswersEndsInTime) {
  Listen([](int client, const std::stop_token& stop) {
    pollfd closed{client, POLLRDHUP, 0};
    while (!stop.stop_requested() && ::poll(&closed, 1, 20) <= 0) {
    }
  });
  ExpectUnknown("no whole answer in time, 0 bytes came", absl::Milliseconds(300));
}

TEST_F(Probe, OneThatSendsSlowlyForEverEndsInTime) {
  Listen([](int client, const std::stop_token& stop) {
    pollfd closed{client, POLLRDHUP, 0};
    while (!stop.stop_requested() && ::poll(&closed, 1, 20) <= 0 &&
           ::send(client, " ", 1, MSG_NOSIGNAL) == 1) {
    }
  });
  ExpectUnknown("no whole answer in time", absl::Milliseconds(300));
}

TEST_F(Probe, AListenerThatTakesNoConnectionsEndsInTime) {
  const UniqueFd listener = Bound();
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  const UniqueFd fills(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::connect(fills.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            0);
  ExpectUnknown("nobody takes the connection", absl::Milliseconds(300));
}

TEST_F(Probe, AnAnswerWithoutEndIsCutAtTheLimit) {
  Listen([](int client, const std::stop_token& stop) {
    const std::string spaces(1 << 20, ' ');
    while (!stop.stop_requested() &&
           ::send(client, spaces.data(), spaces.size(), MSG_NOSIGNAL) > 0) {
    }
  });
  ExpectUnknown("more than 16777216 bytes", absl::Seconds(60));
}

TEST(StatusSocketPath, IsTheConfiguredOneOrThatOfTheFirstDriverAndThePod) {
  DaemonConfig config;
  EXPECT_TRUE(absl::IsInvalidArgument(StatusSocketPath(config).status()));
  config.drivers.resize(2);
  config.drivers[0].name = "a.example.com";
  config.drivers[1].name = "b.example.com";
  EXPECT_EQ(*StatusSocketPath(config), "/var/lib/kubelet/plugins/a.example.com/status.sock");
  config.pod_uid = "u1";
  EXPECT_EQ(*StatusSocketPath(config), "/var/lib/kubelet/plugins/a.example.com/status-u1.sock");
  config.status_socket = "/run/x.sock";
  EXPECT_EQ(*StatusSocketPath(config), "/run/x.sock");
}

TEST(StatusSocketPath, OfTheLongestDriverNameIsHashedSoThatASocketCanHaveIt) {
  DaemonConfig config;
  config.drivers.resize(1);
  config.drivers[0].name = std::string(63, 'd');
  config.pod_uid = std::string(36, 'u');
  const std::string path = *StatusSocketPath(config);
  EXPECT_LE(path.size(), 107u);
  config.pod_uid.back() = 'v';
  EXPECT_NE(*StatusSocketPath(config), path);
}

TEST(ParseProbeQuestion, KnowsTwoQuestions) {
  EXPECT_EQ(ParseProbeQuestion("live"), ProbeQuestion::kLive);
  EXPECT_EQ(ParseProbeQuestion("ready"), ProbeQuestion::kReady);
  for (const char* text : {"", "Live", "startup"}) {
    EXPECT_EQ(ParseProbeQuestion(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace dra::driver
