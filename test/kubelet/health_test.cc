#include <dirent.h>

#include <atomic>
#include <random>

#include "absl/strings/str_cat.h"
#include "test/kubelet/plugin_fixture.h"

namespace dra::kubelet {
namespace {

using List = ::v1::NodeWatchResourcesResponse;

class Hlt06 : public PluginServerTest {
 protected:
  Options HealthOptions() const {
    Options options = BaseOptions();
    options.health = true;
    return options;
  }
  static std::vector<DeviceHealth> Devices(Health first, int64_t second,
                                           const std::string& message = "") {
    return {{"p", "d0", first, absl::FromUnixSeconds(second), message},
            {"p", "d1", Health::kHealthy, absl::FromUnixSeconds(100), ""}};
  }
};
class Net08 : public Hlt06 {};

// An open stream of the v1 service.
class Watch {
 public:
  explicit Watch(const std::string& socket)
      : stub_(::v1::DRAResourceHealth::NewStub(Dial(socket))) {
    context_.set_wait_for_ready(true);
    reader_ = stub_->NodeWatchResources(&context_, {});
  }
  ~Watch() {
    context_.TryCancel();
    List ignored;
    while (!finished_ && reader_->Read(&ignored)) {
    }
    if (!finished_) (void)reader_->Finish();
  }
  bool Read(List* list) { return reader_->Read(list); }
  grpc::Status Finish() {
    finished_ = true;
    return reader_->Finish();
  }
  void Cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<::v1::DRAResourceHealth::Stub> stub_;
  std::unique_ptr<grpc::ClientReader<List>> reader_;
  bool finished_ = false;
};

int Threads() {
  int count = 0;
  DIR* tasks = ::opendir("/proc/self/task");
  while (const dirent* entry = ::readdir(tasks)) count += entry->d_name[0] != '.';
  ::closedir(tasks);
  return count;
}

TEST_F(Hlt06, EveryMessageIsTheFullListAtOnceAndOnEachChange) {
  const auto server = Started(HealthOptions());
  server->SetHealth(Devices(Health::kHealthy, 100));
  Watch watch(server->State().service_socket);
  List list;
  ASSERT_TRUE(watch.Read(&list));
  ASSERT_EQ(list.devices_size(), 2);
  EXPECT_EQ(list.devices(0).device().pool_name(), "p");
  EXPECT_EQ(list.devices(0).device().device_name(), "d0");
  EXPECT_EQ(list.devices(0).health(), ::v1::HEALTHY);
  EXPECT_EQ(list.devices(0).last_updated_time(), 100);
  EXPECT_EQ(list.devices(0).health_check_timeout_seconds(), 30);
  server->SetHealth(Devices(Health::kUnhealthy, 200, "fell off the bus"));
  ASSERT_TRUE(watch.Read(&list));
  ASSERT_EQ(list.devices_size(), 2);
  EXPECT_EQ(list.devices(0).health(), ::v1::UNHEALTHY);
  EXPECT_EQ(list.devices(0).message(), "fell off the bus");
  EXPECT_EQ(list.devices(0).last_updated_time(), 200);
  EXPECT_EQ(list.devices(1).last_updated_time(), 100);
}

TEST_F(Hlt06, LastUpdatedNeverGoesBack) {
  const auto server = Started(HealthOptions());
  server->SetHealth(Devices(Health::kHealthy, 200));
  server->SetHealth(Devices(Health::kUnhealthy, 150));
  Watch watch(server->State().service_socket);
  List list;
  ASSERT_TRUE(watch.Read(&list));
  EXPECT_EQ(list.devices(0).health(), ::v1::UNHEALTHY);
  EXPECT_EQ(list.devices(0).last_updated_time(), 200);
}

TEST_F(Hlt06, TheListIsSentAgainUnchangedAndStopsWhenTheSourceIsStuck) {
  Options options = HealthOptions();
  options.health_timeout = absl::Milliseconds(60);
  const auto server = Started(options);
  server->SetHealth(Devices(Health::kHealthy, 100));
  Watch watch(server->State().service_socket);
  List list;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(watch.Read(&list));
    EXPECT_EQ(list.devices_size(), 2);
    EXPECT_EQ(list.devices(0).last_updated_time(), 100);
    EXPECT_EQ(list.devices(0).health_check_timeout_seconds(), 1);
  }
  server->SetHealth(std::nullopt);
  // A stream that is opened now gets nothing until there is a list again: the first thing it sees is the new one.
  Watch second(server->State().service_socket);
  server->SetHealth(Devices(Health::kUnhealthy, 300));
  ASSERT_TRUE(second.Read(&list));
  EXPECT_EQ(list.devices(0).health(), ::v1::UNHEALTHY);
}

TEST_F(Hlt06, AMessageIsCutTo1024BytesBetweenCharacters) {
  const auto server = Started(HealthOptions());
  server->SetHealth(Devices(Health::kUnhealthy, 1, std::string(1023, 'x') + "\xc3\xa4"));
  Watch watch(server->State().service_socket);
  List list;
  ASSERT_TRUE(watch.Read(&list));
  EXPECT_EQ(list.devices(0).message(), std::string(1023, 'x'));
}

TEST_F(Hlt06, V1alpha1SaysTheSame) {
  const auto server = Started(HealthOptions());
  server->SetHealth(Devices(Health::kUnhealthy, 7, "m"));
  const auto stub = ::v1alpha1::DRAResourceHealth::NewStub(Dial(server->State().service_socket));
  grpc::ClientContext context;
  SetDeadline(context);
  const auto reader = stub->NodeWatchResources(&context, {});
  ::v1alpha1::NodeWatchResourcesResponse list;
  ASSERT_TRUE(reader->Read(&list));
  ASSERT_EQ(list.devices_size(), 2);
  EXPECT_EQ(list.devices(0).health(), ::v1alpha1::UNHEALTHY);
  EXPECT_EQ(list.devices(0).message(), "m");
  context.TryCancel();
  while (reader->Read(&list)) {
  }
  (void)reader->Finish();
}

TEST_F(Hlt06, WithoutABackendThatReportsTheServiceIsUnimplemented) {
  const auto server = Started();
  Watch watch(server->State().service_socket);
  List list;
  EXPECT_FALSE(watch.Read(&list));
  EXPECT_EQ(watch.Finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(Hlt06, WhileAnotherInstanceReportsTheStreamIsOpenAndSilent) {
  const auto server = Started(HealthOptions());
  server->SetReporting(false);
  server->SetHealth(Devices(Health::kHealthy, 1));
  Watch watch(server->State().service_socket);
  server->SetHealth(Devices(Health::kHealthy, 2, "never sent"));
  server->ResendHealth();
  server->SetHealth(Devices(Health::kUnhealthy, 3));
  server->SetReporting(true);
  List list;
  ASSERT_TRUE(watch.Read(&list)) << "the newest list comes at once, and first";
  ASSERT_EQ(list.devices_size(), 2);
  EXPECT_EQ(list.devices(0).health(), ::v1::UNHEALTHY);
  // The kubelet has forgotten all of it because another instance's stream ended.
  server->ResendHealth();
  ASSERT_TRUE(watch.Read(&list));
  EXPECT_EQ(list.devices_size(), 2);
  EXPECT_EQ(list.devices(0).health(), ::v1::UNHEALTHY);
}

TEST_F(Hlt06, TheStreamEndsCleanlyAtShutdown) {
  auto server = Started(HealthOptions());
  server->SetHealth(Devices(Health::kHealthy, 1));
  Watch watch(server->State().service_socket);
  List list;
  ASSERT_TRUE(watch.Read(&list));
  server->Shutdown(absl::Milliseconds(200));  // this client does not leave by itself
  while (watch.Read(&list)) {
  }
  EXPECT_TRUE(watch.Finish().ok());
}

TEST_F(Net08, FiftyStreamsCutAtAnyMomentHangNothingAndLeaveNoThread) {
  const auto server = Started(HealthOptions());
  const std::string socket = server->State().service_socket;
  std::atomic<bool> stop = false;
  std::thread flapper([&] {
    for (int64_t i = 0; !stop; ++i) {
      server->SetHealth(Devices(i % 2 == 0 ? Health::kHealthy : Health::kUnhealthy, i));
      std::this_thread::yield();
    }
  });
  std::mt19937 random(8);  // the same moments in each run, as far as threads allow
  int threads_before = 0;
  for (int round = 0; round < 50; ++round) {
    Watch watch(socket);
    List list;
    for (uint64_t reads = random() % 5; reads > 0; --reads) ASSERT_TRUE(watch.Read(&list));
    watch.Cancel();
    pluginregistration::PluginInfo info;
    ASSERT_TRUE(GetInfo(server->State().registration_socket, &info).ok());
    if (round == 9) threads_before = Threads();
  }
  stop = true;
  flapper.join();
  EXPECT_LE(Threads(), threads_before + 2);
  Watch last(socket);
  List list;
  EXPECT_TRUE(last.Read(&list));
  EXPECT_EQ(list.devices_size(), 2);
}

}  // namespace
}  // namespace dra::kubelet
