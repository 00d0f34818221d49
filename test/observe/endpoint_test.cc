#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dra/base/unique_fd.h"
#include "dra/observe/http_endpoint.h"

namespace dra::observe {
namespace {

using testing::HasSubstr;

class EndpointTest : public testing::Test {
 protected:
  httplib::Result Get(const HttpEndpoint& endpoint, const std::string& path) {
    httplib::Client client("127.0.0.1", endpoint.bound_port());
    return client.Get(path);
  }
  Metrics metrics_;
  std::vector<Condition> conditions_;
  HttpEndpoint::ReadyFunction ready_ = [this] { return conditions_; };
};

TEST_F(EndpointTest, ServesMetricsHealthAndReadiness) {
  metrics_.Increment("dra_n", {{"driver", "d"}});
  HttpEndpoint endpoint({"127.0.0.1:0"}, &metrics_, ready_, Logger());
  ASSERT_TRUE(endpoint.Start().ok());
  ASSERT_GT(endpoint.bound_port(), 0);
  auto answer = Get(endpoint, "/metrics");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_THAT(answer->get_header_value("Content-Type"), HasSubstr("version=0.0.4"));
  EXPECT_THAT(answer->body, HasSubstr("dra_n{driver=\"d\"} 1"));
  conditions_ = {{"gpu.example.com", "registered", true, ""},
                 {"gpu.example.com", "published", false, "no answer"}};
  answer = Get(endpoint, "/readyz");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 503);
  EXPECT_EQ(answer->body,
            "[+] gpu.example.com registered ok\n[-] gpu.example.com published: no answer\n");
  conditions_[1].ok = true;
  EXPECT_EQ(Get(endpoint, "/readyz")->status, 200);
  EXPECT_EQ(Get(endpoint, "/healthz")->status, 200);
  for (const char* path : {"/", "/metricsx", "/etc/passwd", "/../../etc/passwd"}) {
    answer = Get(endpoint, path);
    EXPECT_TRUE(!answer || answer->status == 404 || answer->status == 400) << path;
  }
}

TEST_F(EndpointTest, TakesATakenPortOnceItIsFree) {
  UniqueFd holder(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(holder.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(holder.get(), 1), 0);
  ASSERT_EQ(::getsockname(holder.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  HttpEndpoint endpoint({absl::StrCat("127.0.0.1:", ntohs(address.sin_port))}, &metrics_, ready_,
                        Logger());
  ASSERT_TRUE(endpoint.Start().ok());
  EXPECT_EQ(endpoint.bound_port(), 0);
  holder.Reset();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (endpoint.bound_port() == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  ASSERT_EQ(endpoint.bound_port(), ntohs(address.sin_port));
  EXPECT_EQ(Get(endpoint, "/healthz")->status, 200);
}

TEST_F(EndpointTest, RefusesAddressesThatAreNone) {
  for (const char* address : {"", "8080", "host.example:80", "1.2.3:80", "0.0.0.0:", "0.0.0.0:x",
                              "0.0.0.0:65536", "::1:80", "[::1:80"}) {
    HttpEndpoint endpoint({address}, &metrics_, ready_, Logger());
    EXPECT_TRUE(absl::IsInvalidArgument(endpoint.Start())) << address;
  }
}

class StatusSocketTest : public testing::Test {
 protected:
  StatusSocketTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dra-observe-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    path_ = directory_ + "/status.sock";
  }
  ~StatusSocketTest() override { std::filesystem::remove_all(directory_); }

  UniqueFd Connect() {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = Address();
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
      fd.Reset();
    return fd;
  }
  sockaddr_un Address() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    return address;
  }
  std::string Ask(const std::string& request) {
    const UniqueFd fd = Connect();
    if (!fd) return "no connection";
    if (!request.empty()) ::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
    std::string answer;
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::recv(fd.get(), buffer, sizeof(buffer), 0)) > 0)
      answer.append(buffer, static_cast<size_t>(got));
    return answer;
  }

  std::string directory_;
  std::string path_;
};

TEST_F(StatusSocketTest, WhatKilledInstancesLeftIsRemovedAndNothingElse) {
  const auto bound = [&](const std::string& name) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, (directory_ + "/" + name).c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ::close(fd);
  };
  bound("status-dead.sock");
  bound("dra.sock");
  std::ofstream(directory_ + "/status-file.sock") << "no socket";
  StatusSocket alive(
      directory_ + "/status-alive.sock", [] { return std::string("{}"); }, Logger());
  ASSERT_TRUE(alive.Start().ok());
  const auto there = [&](const char* name) {
    return std::filesystem::exists(std::filesystem::symlink_status(directory_ + "/" + name));
  };
  RemoveDeadStatusSockets(directory_, absl::Now() - absl::Hours(1));
  EXPECT_TRUE(there("status-dead.sock"));  // it may be one that is just being bound
  RemoveDeadStatusSockets(directory_, absl::Now() + absl::Hours(1));
  EXPECT_FALSE(there("status-dead.sock"));
  for (const char* name : {"dra.sock", "status-file.sock", "status-alive.sock"}) {
    EXPECT_TRUE(there(name)) << name;
  }
  RemoveDeadStatusSockets(directory_ + "/absent", absl::Now());
}

TEST_F(StatusSocketTest, AnswersReadersAndHttpClientsAndIsPrivate) {
  const std::string big(3 << 20, 'x');
  const std::string document = "{\"a\":\"" + big + "\"}";
  StatusSocket socket(
      path_, [&] { return document; }, Logger());
  ASSERT_TRUE(socket.Start().ok());
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(Ask(""), document);
  EXPECT_EQ(Ask("\n"), document);
  const std::string http = Ask("GET /status HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(http.substr(0, 200),
              HasSubstr("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n"));
  EXPECT_TRUE(http.size() > document.size() &&
              http.substr(http.size() - document.size()) == document);
}

TEST_F(StatusSocketTest, TakesOverOnlyAPathThatNobodyListensAt) {
  const auto status = [] { return std::string("{}"); };
  {
    const UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = Address();
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  StatusSocket first(path_, status, Logger());
  ASSERT_TRUE(first.Start().ok());
  StatusSocket second(path_, status, Logger());
  EXPECT_TRUE(absl::IsAlreadyExists(second.Start()));
  EXPECT_EQ(Ask("\n"), "{}");
}

TEST_F(StatusSocketTest, RefusesToReplaceAFile) {
  std::ofstream(path_) << "precious";
  StatusSocket socket(
      path_, [] { return std::string(); }, Logger());
  EXPECT_TRUE(absl::IsAlreadyExists(socket.Start()));
  EXPECT_TRUE(std::filesystem::exists(path_));
  StatusSocket too_long(
      std::string(200, 'x'), [] { return std::string(); }, Logger());
  EXPECT_TRUE(absl::IsInvalidArgument(too_long.Start()));
}

TEST_F(StatusSocketTest, RemovesItsOwnFileAndNoOther) {
  const auto status = [] { return std::string("{}"); };
  {
    StatusSocket socket(path_, status, Logger());
    ASSERT_TRUE(socket.Start().ok());
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  {
    StatusSocket socket(path_, status, Logger());
    ASSERT_TRUE(socket.Start().ok());
    std::filesystem::rename(path_, path_ + ".moved");  // keeps the inode taken
    std::ofstream(path_) << "another's";
  }
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(StatusSocketTest, EndsWhileAClientHangs) {
  auto socket = std::make_unique<StatusSocket>(
      path_, [] { return std::string(64 << 20, 'x'); }, Logger());
  ASSERT_TRUE(socket->Start().ok());
  const UniqueFd client = Connect();  // never reads
  ASSERT_TRUE(client);
  socket.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace dra::observe
