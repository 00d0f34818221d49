#include "plan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "claim_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rdma {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

Plan FullPlan() {
  Plan plan;
  plan.claim_uid = "claim";
  plan.pod_uid = "pod";
  Attachment& nic = plan.attachments.emplace_back();
  nic.device = "pci-0000-8d-00-0";
  nic.request = "nic";
  nic.pod_name = "net1";
  nic.rdma_device = "mlx5_0";
  nic.config.interface.addresses = {"192.0.2.7/24"};
  nic.config.interface.mtu = 9000;
  nic.config.features = {{"rx-gro", false}};
  HostInterface& home = nic.home;
  home.name = "eth3";
  home.index = 7;
  home.kind = "ipoib";
  home.pci_address = "0000:8d:00.0";
  home.address = "02:00:5e:00:53:01";
  home.permanent_address = "02:00:5e:00:53:02";
  home.mtu = 1500;
  home.up = true;
  home.xdp_programs = {21, 4294967295u};
  home.gso_max_size = 4294967295u;
  home.gro_max_size = 2;
  home.gso_ipv4_max_size = 3;
  home.gro_ipv4_max_size = 4;
  home.addresses = {{7, "192.0.2.7/24", "192.0.2.255", 0, true},
                    {7, "2001:db8::7/64", "", 200, false}};
  home.routes = {{7, 2, "0.0.0.0/0", "192.0.2.1", "192.0.2.7", 4294967295u, 253, 4, 100}};
  home.rules = {{10, 32765, "192.0.2.0/24", "198.51.100.0/24", 1000}};
  home.neighbours = {{7, "192.0.2.1", "02:00:5e:00:53:03"}};
  Attachment& macvlan = plan.attachments.emplace_back();
  macvlan.device = "net-bond0";
  macvlan.kind = AttachKind::kMacvlan;
  macvlan.home.name = "bond0";
  macvlan.pod_name = "net2";
  Attachment& alone = plan.attachments.emplace_back();
  alone.device = "pci-0000-8e-00-0";
  alone.rdma_device = "mlx5_1";
  return plan;
}

AttachState FullState() {
  AttachState state;
  state.phase = AttachState::Phase::kAttached;
  state.pod_uid = "pod";
  state.sandbox = "sandbox";
  state.namespace_device = 4;
  state.namespace_inode = 18446744073709551615u;
  state.interfaces = {
      {"pci-0000-8d-00-0", "net1", 5, "02:00:5e:00:53:01", {"192.0.2.7/24", "2001:db8::7/64"}}};
  state.lost["pci-0000-8d-00-0"] = {
      {{"rx-gro", true}}, {{"flag", false}}, {{"ipv6/accept_ra", "0"}}};
  state.lost["net-bond0"] = {};
  state.error = "text \"with\" \xff bytes";
  return state;
}

template <typename T>
std::string Refusal(T (*from_json)(const Json&), const Json& json) {
  try {
    from_json(json);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Plan, IsTheSameAfterJson) {
  EXPECT_EQ(PlanFromJson(ToJson(FullPlan())), FullPlan());
  EXPECT_EQ(PlanFromJson(ToJson(Plan())), Plan());
}

TEST(AttachState, IsTheSameAfterJson) {
  EXPECT_EQ(AttachStateFromJson(ToJson(FullState())), FullState());
  EXPECT_EQ(AttachStateFromJson(ToJson(AttachState())), AttachState());
}

TEST(Plan, PassesOverWhatANewerVersionAdds) {
  Json json = ToJson(FullPlan());
  json["new"] = 1;
  json["attachments"][0]["home"]["new"] = 1;
  EXPECT_EQ(PlanFromJson(json), FullPlan());
  Json state = ToJson(FullState());
  state["new"] = 1;
  EXPECT_EQ(AttachStateFromJson(state), FullState());
}

TEST(Plan, IsRefusedIfItIsDamaged) {
  const struct {
    const char* name;
    std::function<void(Json&)> damage;
    const char* text;
  } cases[] = {
      {"no object", [](Json& json) { json = Json::array(); }, "must be an object"},
      {"no version", [](Json& json) { json.erase("version"); }, "has no version"},
      {"newer", [](Json& json) { json["version"] = 2; },
       "has version 2, this program knows up to 1"},
      {"kind", [](Json& json) { json["attachments"][0]["kind"] = "copy"; },
       "attachments[0].kind: must be"},
      {"no config", [](Json& json) { json["attachments"][0].erase("config"); },
       "attachments[0].config: must be there"},
      {"other config", [](Json& json) { json["attachments"][0]["config"]["vrf"] = 1; },
       "is not as this version writes it"},
      {"no device", [](Json& json) { json["attachments"][0].erase("device"); },
       "attachments[0].device: must be a name"},
      {"no home", [](Json& json) { json["attachments"][1].erase("home"); },
       "attachments[1].home.name: must be a name"},
      {"no pod name", [](Json& json) { json["attachments"][0]["podName"] = ""; },
       "attachments[0].podName: must be a name"},
      {"index", [](Json& json) { json["attachments"][0]["home"]["index"] = "7"; },
       "attachments[0].home.index: must be an integer"},
      {"scope", [](Json& json) { json["attachments"][0]["home"]["addresses"][0]["scope"] = 300; },
       "attachments[0].home.addresses[0].scope: must be an integer within its limits"},
      {"routes", [](Json& json) { json["attachments"][0]["home"]["routes"] = 1; },
       "attachments[0].home.routes: must be an array"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    Json json = ToJson(FullPlan());
    c.damage(json);
    EXPECT_THAT(Refusal(PlanFromJson, json), HasSubstr(c.text));
  }
}

TEST(AttachState, IsRefusedIfItIsDamaged) {
  Json json = ToJson(FullState());
  json["phase"] = "done";
  EXPECT_THAT(Refusal(AttachStateFromJson, json),
              HasSubstr("phase: must be \"moving\" or \"attached\""));
  json = ToJson(FullState());
  json["namespaceInode"] = -1;
  EXPECT_THAT(Refusal(AttachStateFromJson, json),
              HasSubstr("namespaceInode: must be an integer within its limits"));
  json = ToJson(FullState());
  json["lost"]["net-bond0"]["sysctls"] = 3;
  EXPECT_THAT(Refusal(AttachStateFromJson, json),
              HasSubstr("lost.net-bond0.sysctls: must be an object"));
  json.erase("version");
  EXPECT_THAT(Refusal(AttachStateFromJson, json), HasSubstr("has no version"));
}

class ClaimFolderTest : public testing::Test {
 protected:
  ClaimFolderTest() {
    char pattern[] = "/tmp/dra-claim-XXXXXX";
    path_ = mkdtemp(pattern);
  }
  ~ClaimFolderTest() override { std::filesystem::remove_all(path_); }
  std::vector<std::string> Files() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  void Put(const std::string& name, const std::string& text) {
    std::ofstream(path_ + "/" + name) << text;
  }
  std::string ErrorOf(const std::function<void()>& call) {
    try {
      call();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  }
  ClaimFolder folder() { return ClaimFolder(path_); }
  std::string path_;
};

TEST_F(ClaimFolderTest, KeepsPlanAndState) {
  EXPECT_EQ(folder().ReadPlan(), std::nullopt);
  EXPECT_EQ(folder().ReadState(), std::nullopt);
  folder().WritePlan(FullPlan());
  AttachState state = FullState();
  state.error = "plain";
  folder().WriteState(state);
  EXPECT_EQ(folder().ReadPlan(), FullPlan());
  EXPECT_EQ(folder().ReadState(), state);
  EXPECT_THAT(Files(), ElementsAre("plan.json", "state.json"));
  struct stat file {};
  ASSERT_EQ(stat((path_ + "/plan.json").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  folder().RemoveState();
  folder().RemoveState();
  EXPECT_EQ(folder().ReadState(), std::nullopt);
}

TEST_F(ClaimFolderTest, WritesAnErrorThatIsNoUtf8) {
  folder().WriteState(FullState());
  EXPECT_THAT(folder().ReadState()->error, HasSubstr("text \"with\" \xef\xbf\xbd bytes"));
}

TEST_F(ClaimFolderTest, ReplacesWhatACrashLeft) {
  Put("plan.json.new", "{\"half");
  Put("state.json.new", "{\"half");
  folder().WritePlan(FullPlan());
  folder().RemoveState();
  EXPECT_THAT(Files(), ElementsAre("plan.json"));
}

TEST_F(ClaimFolderTest, ClosesThePlanForAllButTheWayBack) {
  folder().Close();
  folder().WritePlan(FullPlan());
  folder().Close();
  folder().Close();
  EXPECT_EQ(folder().ReadPlan(), std::nullopt);
  EXPECT_EQ(folder().ReadPlanOrClosed(), FullPlan());
  folder().WritePlan(Plan());
  EXPECT_EQ(folder().ReadPlanOrClosed(), Plan());
  EXPECT_THAT(Files(), ElementsAre("plan.json"));
}

TEST_F(ClaimFolderTest, ClearsEverythingOfItsOwn) {
  folder().Clear();
  folder().WritePlan(FullPlan());
  folder().Close();
  folder().WritePlan(FullPlan());
  folder().WriteState(FullState());
  Put("plan.json.new", "");
  Put("netns", "");
  Put("other", "");
  folder().Clear();
  folder().Clear();
  EXPECT_THAT(Files(), ElementsAre("other"));
}

TEST_F(ClaimFolderTest, NamesThePathOfWhatItCannotRead) {
  Put("plan.json", "{\"version\": 1,");
  EXPECT_EQ(ErrorOf([&] { folder().ReadPlan(); }), path_ + "/plan.json: damaged: is no JSON");
  Put("state.json", "");
  EXPECT_EQ(ErrorOf([&] { folder().ReadState(); }), path_ + "/state.json: damaged: is no JSON");
  Put("state.json", "{\"version\": 7}");
  EXPECT_THAT(ErrorOf([&] { folder().ReadState(); }),
              HasSubstr(path_ + "/state.json: has version 7"));
  std::filesystem::remove(path_ + "/plan.json");
  std::filesystem::create_directory(path_ + "/plan.json");
  EXPECT_EQ(ErrorOf([&] { folder().ReadPlan(); }), "read " + path_ + "/plan.json: Is a directory");
  EXPECT_THAT(ErrorOf([&] { folder().WritePlan(FullPlan()); }),
              HasSubstr(path_ + "/plan.json: Is a directory"));
  std::filesystem::create_symlink("/etc/passwd", path_ + "/link.json");
  std::filesystem::rename(path_ + "/link.json", path_ + "/state.json");
  EXPECT_THAT(ErrorOf([&] { folder().ReadState(); }), HasSubstr("open " + path_ + "/state.json: "));
}

TEST_F(ClaimFolderTest, SaysThatTheDirectoryIsNotThere) {
  const ClaimFolder gone(path_ + "/gone");
  EXPECT_EQ(gone.ReadPlan(), std::nullopt);
  gone.Clear();
  gone.Close();
  EXPECT_THAT(ErrorOf([&] { gone.WritePlan(FullPlan()); }),
              HasSubstr(path_ + "/gone/plan.json.new: No such file"));
  EXPECT_EQ(ErrorOf([&] { gone.TryLock(milliseconds(1)); }),
            "open claim directory " + path_ + "/gone: No such file or directory");
}

TEST_F(ClaimFolderTest, IsLockedByOneAtATime) {
  std::unique_ptr<ClaimFolder::Lock> lock = folder().TryLock(milliseconds(0));
  ASSERT_NE(lock, nullptr);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(folder().TryLock(milliseconds(30)), nullptr);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(30));
  lock.reset();
  EXPECT_NE(folder().TryLock(milliseconds(0)), nullptr);
  EXPECT_THAT(Files(), testing::IsEmpty());
}

TEST_F(ClaimFolderTest, IsFreeAfterItsHolderWasKilled) {
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = folder().TryLock(milliseconds(0));
    [[maybe_unused]] const ssize_t written = write(ready[1], "x", 1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(folder().TryLock(milliseconds(0)), nullptr);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_NE(folder().TryLock(milliseconds(0)), nullptr);
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace rdma
