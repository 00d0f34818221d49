#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "dra/base/ids.h"
#include "dra/base/unique_fd.h"
#include "kubelet/listening_socket.h"
#include "test/kubelet/plugin_fixture.h"
#include "test/kubelet/raw_http2.h"

namespace dra::kubelet {
namespace {

using pluginregistration::PluginInfo;

class Reg01 : public PluginServerTest {};
class Reg02 : public PluginServerTest {};
class Reg03 : public PluginServerTest {};
class Reg04 : public PluginServerTest {};
class Reg06 : public PluginServerTest {};
class Reg07 : public PluginServerTest {};
class Reg08 : public PluginServerTest {};
class Reg09 : public PluginServerTest {};
class Reg10 : public PluginServerTest {};
class Registration : public PluginServerTest {};

bool Exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

// Tells one file from the next at the same path, also when the next one gets the same inode; 0 if there is none.
uint64_t FileMark(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return 0;
  const auto changed = static_cast<uint64_t>(info.st_ctim.tv_sec) * 1'000'000'000u +
                       static_cast<uint64_t>(info.st_ctim.tv_nsec);
  return info.st_ino ^ (changed << 20u);
}

// A socket file that no process listens at, as a killed instance leaves it; or a listening one.
UniqueFd MakeSocket(const std::string& path, bool listening) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0)
      << path;
  if (!listening) return UniqueFd();
  EXPECT_EQ(::listen(fd.get(), 4), 0);
  return fd;
}

// Collects log lines; the context of Logger::ToFunction.
struct Lines {
  static void Add(void* context, absl::string_view line) {
    auto* self = static_cast<Lines*>(context);
    absl::MutexLock lock(&self->mutex);
    self->text += std::string(line) + "\n";
  }
  size_t Count(const std::string& what) {
    absl::MutexLock lock(&mutex);
    size_t count = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
      ++count;
    return count;
  }
  absl::Mutex mutex;
  std::string text;
};

TEST_F(Reg01, GetInfoIsAnsweredWhileManyPreparesAreOpen) {
  absl::Mutex mutex;
  std::vector<ClaimHandler::PrepareDone> open;
  handler_.prepare = [&](const ClaimRef&, const Call&, ClaimHandler::PrepareDone done) {
    absl::MutexLock lock(&mutex);
    open.push_back(std::move(done));
  };
  const auto server = Started();
  std::vector<std::thread> callers;
  const int calls = static_cast<int>(std::thread::hardware_concurrency()) + 20;
  for (int i = 0; i < calls; ++i) {
    callers.emplace_back([&, i] {
      wire::NodePrepareResourcesResponse response;
      EXPECT_TRUE(
          Prepare(server->State().service_socket, Ask({absl::StrCat("u", i)}), &response, 60000)
              .ok());
    });
  }
  EXPECT_TRUE(Eventually([&] {
    absl::MutexLock lock(&mutex);
    return open.size() == static_cast<size_t>(calls);
  }));
  for (int i = 0; i < 5; ++i) {
    PluginInfo info;
    const grpc::Status status = GetInfo(server->State().registration_socket, &info);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(info.type(), "DRAPlugin");
    EXPECT_EQ(info.name(), kDriver);
    EXPECT_EQ(info.endpoint(), server->State().service_socket);
    EXPECT_EQ(info.supported_versions(0), "v1.DRAPlugin");
  }
  {
    absl::MutexLock lock(&mutex);
    for (auto& done : open) done(std::vector<PreparedDevice>{});
  }
  for (std::thread& caller : callers) caller.join();
}

TEST_F(Reg02, DeadSocketsOfOursAreRemovedAndNoOthers) {
  const std::string old_pod = "cccccccc-0000-4000-8000-000000000003";
  const auto registration = [&](const std::string& uid) {
    return absl::StrCat(root_.registry(), "/", kDriver, "-", uid, "-reg.sock");
  };
  PosixFileSystem fs;
  ASSERT_TRUE(MakeDirectories(fs, root_.plugin(), 0755).ok());
  MakeSocket(registration(old_pod), false);
  MakeSocket(root_.plugin() + "/dra-" + old_pod + ".sock", false);
  const UniqueFd sibling = MakeSocket(registration(kPodB), true);
  MakeSocket(root_.registry() + "/other.example-reg.sock", false);
  MakeSocket(root_.registry() + "/" + kDriver + "-x-reg.sock", false);
  std::ofstream(registration("dddddddd-0000-4000-8000-000000000004")) << "not a socket";

  Options options = BaseOptions();
  options.pod_uid = kPodA;
  const auto server = Started(options);
  EXPECT_FALSE(Exists(registration(old_pod)));
  EXPECT_FALSE(Exists(root_.plugin() + "/dra-" + old_pod + ".sock"));
  EXPECT_TRUE(Exists(registration(kPodB)));
  EXPECT_TRUE(Exists(root_.registry() + "/other.example-reg.sock"));
  EXPECT_TRUE(Exists(root_.registry() + "/" + kDriver + "-x-reg.sock"));
  EXPECT_TRUE(Exists(registration("dddddddd-0000-4000-8000-000000000004")));
  EXPECT_TRUE(Exists(registration(kPodA)));
}

// A kubelet that started before the driver has dialled the dead socket, and backs off from its path.
TEST_F(Reg02, AfterADeadSocketOfItsOwnItRegistersUnderANewName) {
  for (const std::string& uid : {std::string(), std::string(kPodA)}) {
    Options options = BaseOptions();
    options.pod_uid = uid;
    const std::string usual = Started(options)->State().registration_socket;
    MakeSocket(usual, false);
    std::string fresh, marker;
    {
      const auto server = Started(options);
      fresh = server->State().registration_socket;
      EXPECT_NE(fresh, usual);
      EXPECT_FALSE(Exists(usual));
      EXPECT_TRUE(Exists(fresh));
      PluginInfo info;
      EXPECT_TRUE(GetInfo(fresh, &info).ok());
      EXPECT_EQ(info.endpoint(), server->State().service_socket);
      marker = MarkerPath(root_.plugin(), fresh);
      EXPECT_TRUE(Exists(marker));
    }
    EXPECT_FALSE(Exists(fresh));
    EXPECT_FALSE(Exists(marker));
    // Killed under the new name: the next one finds it by its marker, and has the usual name again.
    MakeSocket(fresh, false);
    PosixFileSystem fs;
    ASSERT_TRUE(fs.CreateFile(marker, "", 0600, false).ok());
    const auto next = Started(options);
    EXPECT_FALSE(Exists(fresh));
    EXPECT_EQ(next->State().registration_socket, usual);
  }
}

TEST_F(Reg02, HashedNamesOfADeadInstanceAreFoundByTheirMarkers) {
  PosixFileSystem fs;
  ASSERT_TRUE(MakeDirectories(fs, root_.plugin(), 0755).ok());
  const std::string ours = root_.registry() + "/dra-aaaaaaaaaaaaaaaaaaaaaa-reg.sock";
  const std::string other = root_.registry() + "/dra-bbbbbbbbbbbbbbbbbbbbbb-reg.sock";
  MakeSocket(ours, false);
  MakeSocket(other, false);
  ASSERT_TRUE(fs.CreateFile(MarkerPath(root_.plugin(), ours), "", 0600, false).ok());
  const auto server = Started();
  EXPECT_FALSE(Exists(ours));
  EXPECT_FALSE(Exists(MarkerPath(root_.plugin(), ours)));
  EXPECT_TRUE(Exists(other));
}

// An instance that was killed beside this one; the kubelet goes on calling it while its registration socket is there.
TEST_F(Reg02, ARunningInstanceRemovesTheSocketsOfOneThatDied) {
  Options options = BaseOptions();
  options.pod_uid = kPodA;
  options.poll_interval = absl::Seconds(60);  // it is not found by chance
  const auto server = Started(options);
  const std::string dead = absl::StrCat(root_.registry(), "/", kDriver, "-", kPodB, "-reg.sock");
  MakeSocket(dead, false);
  const std::string living = absl::StrCat(root_.registry(), "/", kDriver,
                                          "-cccccccc-0000-4000-8000-000000000003-reg.sock");
  const UniqueFd sibling = MakeSocket(living, true);
  server->RemoveDeadSockets();
  EXPECT_TRUE(Eventually([&] { return !Exists(dead); }));
  EXPECT_TRUE(Exists(living));
  EXPECT_TRUE(Exists(server->State().registration_socket));
}

TEST_F(Reg02, AnOrderlyStopLeavesNoFile) {
  auto server = Started();
  const RegistrationState state = server->State();
  EXPECT_TRUE(Exists(state.registration_socket));
  server->Shutdown(absl::Seconds(1));
  PosixFileSystem fs;
  EXPECT_TRUE(fs.List(root_.registry())->empty());
  EXPECT_TRUE(fs.List(root_.plugin())->empty());
}

TEST_F(Reg03, TwoInstancesWithPodNamesLiveSideBySide) {
  Options options = BaseOptions();
  options.pod_uid = kPodA;
  auto a = Started(options);
  options.pod_uid = kPodB;
  const auto b = Started(options);
  PluginInfo info;
  EXPECT_TRUE(GetInfo(a->State().registration_socket, &info).ok());
  const std::string socket_of_a = a->State().registration_socket;
  a->Shutdown(absl::Seconds(1));
  EXPECT_FALSE(Exists(socket_of_a));
  EXPECT_TRUE(GetInfo(b->State().registration_socket, &info).ok());
  EXPECT_EQ(info.endpoint(), b->State().service_socket);
  wire::NodePrepareResourcesResponse response;
  EXPECT_TRUE(Prepare(b->State().service_socket, Ask({"u1"}), &response).ok());
}

TEST_F(Reg03, WithOneNameTheOldInstanceLeavesTheNewOnesFilesAlone) {
  Lines lines;
  logger_ = Logger::ToFunction(LogLevel::kInfo, LogFormat::kText, &Lines::Add, &lines);
  auto a = Started();
  const auto b = Started();
  const RegistrationState state = b->State();
  const uint64_t inode = FileMark(state.registration_socket);
  PluginInfo info;
  // The old one has noticed, and does not fight for the name.
  EXPECT_TRUE(Eventually([&] { return lines.Count("leaving it to that one") == 2; }));
  EXPECT_EQ(FileMark(state.registration_socket), inode);
  a->Shutdown(absl::Seconds(1));
  EXPECT_EQ(FileMark(state.registration_socket), inode);
  EXPECT_TRUE(GetInfo(state.registration_socket, &info).ok());
  wire::NodePrepareResourcesResponse response;
  EXPECT_TRUE(Prepare(state.service_socket, Ask({"u1"}), &response).ok());
}

TEST_F(Reg04, RemovedSocketFilesAreMadeAgain) {
  const auto server = Started();
  const RegistrationState state = server->State();
  Notify(state.registration_socket, true);
  EXPECT_TRUE(server->State().registered);
  ASSERT_EQ(::unlink(state.registration_socket.c_str()), 0);
  ASSERT_EQ(::unlink(state.service_socket.c_str()), 0);
  EXPECT_TRUE(Eventually(
      [&] { return Exists(state.registration_socket) && Exists(state.service_socket); }));
  PluginInfo info;
  EXPECT_TRUE(GetInfo(state.registration_socket, &info).ok());
  wire::NodePrepareResourcesResponse response;
  EXPECT_TRUE(Prepare(state.service_socket, Ask({"u1"}), &response).ok());
}

TEST_F(Reg04, AnyNumberOfReconnectsIsServedAndTheLastCallIsShown) {
  const auto server = Started();
  EXPECT_EQ(server->State().last_get_info, absl::InfinitePast());
  EXPECT_EQ(server->State().last_call, absl::InfinitePast());
  for (int i = 0; i < 50; ++i) {
    wire::NodePrepareResourcesResponse response;
    ASSERT_TRUE(Prepare(server->State().service_socket, Ask({"u1"}), &response).ok()) << i;
  }
  PluginInfo info;
  ASSERT_TRUE(GetInfo(server->State().registration_socket, &info).ok());
  EXPECT_GT(server->State().last_get_info, absl::InfinitePast());
  EXPECT_GT(server->State().last_call, absl::InfinitePast());
}

TEST_F(Reg06, AMissingRegistryDirectoryIsNamedWithTheSetting) {
  Options options = BaseOptions();
  options.kubelet_root = root_.path() + "/elsewhere";
  const auto server = PluginServer::Create(options, &handler_, &clock_, nullptr, logger_);
  ASSERT_TRUE(absl::IsFailedPrecondition(server.status())) << server.status();
  const std::string message(server.status().message());
  EXPECT_NE(message.find(root_.path() + "/elsewhere/plugins_registry"), std::string::npos);
  EXPECT_NE(message.find("kubelet_root"), std::string::npos);
}

TEST_F(Reg06, SilenceOfTheKubeletIsLoggedOnceWithThePathAndTheServerLives) {
  Lines lines;
  logger_ = Logger::ToFunction(LogLevel::kInfo, LogFormat::kText, &Lines::Add, &lines);
  Options options = BaseOptions();
  options.registration_patience = absl::Milliseconds(30);
  const auto server = Started(options);
  const std::string socket = server->State().registration_socket;
  EXPECT_TRUE(Eventually([&] { return lines.Count("registering again") >= 2; }));
  EXPECT_EQ(lines.Count("Usual causes"), 1u);
  EXPECT_EQ(lines.Count("asked for this plugin at " + socket), 1u);
  PluginInfo info;
  EXPECT_TRUE(
      Eventually([&] { return GetInfo(server->State().registration_socket, &info, 1000).ok(); }));
}

TEST_F(Reg07, AnyAuthorityIsAccepted) {
  const auto server = Started();
  for (const std::string authority :
       {"localhost", "", "%2Fvar%2Flib%2Fx.sock", "/var/lib/x.sock"}) {
    const std::string answer = RawGetInfo(server->State().registration_socket, authority);
    EXPECT_NE(answer.find("v1.DRAPlugin"), std::string::npos)
        << "\"" << authority << "\": " << answer;
  }
  PluginInfo info;
  EXPECT_TRUE(GetInfo(server->State().registration_socket, &info, 10000, "any.example:443").ok());
}

TEST_F(Reg08, TheVersionsAreTheServicesThatAreServedInOrder) {
  const auto versions = [&](bool health) {
    Options options = BaseOptions();
    options.health = health;
    const auto server = Started(options);
    PluginInfo info;
    EXPECT_TRUE(GetInfo(server->State().registration_socket, &info).ok());
    return std::vector<std::string>(info.supported_versions().begin(),
                                    info.supported_versions().end());
  };
  EXPECT_EQ(versions(false), (std::vector<std::string>{"v1.DRAPlugin", "v1beta1.DRAPlugin"}));
  EXPECT_EQ(versions(true),
            (std::vector<std::string>{"v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth",
                                      "v1alpha1.DRAResourceHealth"}));
}

TEST_F(Reg09, ARefusalIsKeptLoggedAndSurvived) {
  Lines lines;
  logger_ = Logger::ToFunction(LogLevel::kInfo, LogFormat::kText, &Lines::Add, &lines);
  const auto server = Started();
  Notify(server->State().registration_socket, false,
         "no handler registered for plugin type DRAPlugin");
  EXPECT_FALSE(server->State().registered);
  EXPECT_EQ(server->State().error, "no handler registered for plugin type DRAPlugin");
  EXPECT_EQ(lines.Count("no handler registered for plugin type DRAPlugin"), 1u);
  EXPECT_EQ(lines.Count("feature gate"), 1u);
  PluginInfo info;
  EXPECT_TRUE(Eventually([&] { return GetInfo(server->State().registration_socket, &info).ok(); }));
  Notify(server->State().registration_socket, true);
  EXPECT_TRUE(server->State().registered);
  EXPECT_EQ(server->State().error, "");
}

TEST_F(Reg10, RegistersUnderHashedNamesAndLeavesNothing) {
  const std::string driver = std::string(59, 'd') + ".com";
  Options options = BaseOptions();
  options.driver_name = driver;
  options.kubelet_root = root_.path() + "/" + std::string(24, 'x');
  PosixFileSystem fs;
  ASSERT_TRUE(MakeDirectories(fs, options.kubelet_root + "/plugins_registry", 0755).ok());
  auto server = Started(options);
  PluginInfo info;
  ASSERT_TRUE(GetInfo(server->State().registration_socket, &info).ok());
  EXPECT_EQ(info.name(), driver);
  wire::NodePrepareResourcesResponse response;
  EXPECT_TRUE(Prepare(info.endpoint(), Ask({"u1"}), &response).ok());
  server->Shutdown(absl::Seconds(1));
  EXPECT_TRUE(fs.List(options.kubelet_root + "/plugins_registry")->empty());
  EXPECT_TRUE(fs.List(options.kubelet_root + "/plugins/" + driver)->empty());
}

TEST_F(Registration, ARefusedSocketIsShownAnewUntilItIsAccepted) {
  Options options = BaseOptions();
  options.registration_patience = absl::Seconds(3);  // a tenth of a second after a refusal
  const auto server = Started(options);
  const std::string refused = server->State().registration_socket;
  Notify(refused, false, "endpoint is already registered");
  // Elsewhere: the kubelet asks ever more seldom at a path that it has tried.
  EXPECT_TRUE(Eventually([&] { return server->State().registration_socket != refused; }));
  const std::string socket = server->State().registration_socket;
  EXPECT_TRUE(Eventually([&] { return FileMark(socket) != 0; }));
  EXPECT_FALSE(Exists(refused));
  std::atomic<int> registered = 0;
  server->OnRegistered([&] { ++registered; });
  Notify(socket, true);
  EXPECT_TRUE(Eventually([&] { return registered == 1; }));
  const uint64_t accepted = FileMark(socket);
  Notify(socket, true);
  EXPECT_TRUE(Eventually([&] { return registered == 2; }));
  EXPECT_EQ(FileMark(socket), accepted);
}

TEST_F(Registration, HealthThatAppearsLaterIsAdvertisedByRegisteringAnew) {
  const auto server = Started();
  const std::string socket = server->State().registration_socket;
  Notify(socket, true);
  const uint64_t first = FileMark(socket);
  server->SetHealthAdvertised(true);
  EXPECT_TRUE(Eventually([&] { return FileMark(socket) != 0 && FileMark(socket) != first; }));
  EXPECT_FALSE(server->State().registered);
  PluginInfo info;
  ASSERT_TRUE(GetInfo(socket, &info).ok());
  EXPECT_EQ(info.supported_versions_size(), 4);
}

TEST_F(Registration, RefusesADriverNameTheKubeletWouldRefuse) {
  Options options = BaseOptions();
  options.driver_name = "not a name";
  EXPECT_TRUE(absl::IsInvalidArgument(
      PluginServer::Create(options, &handler_, &clock_, nullptr, logger_).status()));
}

TEST_F(Registration, ThePluginDirectoryIsForTheDriverAlone) {
  const auto server = Started();
  struct stat info {};
  ASSERT_EQ(::stat(root_.plugin().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0750u);
}

}  // namespace
}  // namespace dra::kubelet
