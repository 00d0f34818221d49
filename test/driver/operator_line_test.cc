// What an operator does, on real sockets: the daemon and the built program's commands beside it.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dra/driver/operator_commands.h"
#include "dra/driver/probe.h"
#include "test/driver/node_fixture.h"

namespace dra::driver {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class OperatorLine : public NodeFixture {
 protected:
  struct Ran {
    int status = -1;
    std::string output;  // stdout and stderr
  };
  // The built program with this node's kubelet root.
  Ran Run(const std::vector<std::string>& arguments) {
    std::string command = absl::StrCat("'", DRA_DRIVER_PROGRAM, "' --kubelet-root '",
                                       directory_.Path("kubelet"), "'");
    for (const std::string& argument : arguments) absl::StrAppend(&command, " '", argument, "'");
    absl::StrAppend(&command, " 2>&1");
    Ran ran;
    FILE* pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return ran;
    char buffer[4096];
    for (size_t got = 0; (got = ::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
      ran.output.append(buffer, got);
    const int status = ::pclose(pipe);
    if (WIFEXITED(status)) ran.status = WEXITSTATUS(status);
    return ran;
  }
  // How many published devices have a taint of this key.
  static size_t Tainted(const std::map<std::string, Json>& devices, const std::string& key) {
    size_t count = 0;
    for (const auto& [name, device] : devices) {
      const Json* taints = Find(device, "taints");
      if (taints == nullptr) continue;
      for (const Json& taint : *taints) count += StringOr(taint, "key") == key ? 1 : 0;
    }
    return count;
  }
  bool WaitForTaints(const std::string& key, size_t count) {
    return WaitForDevices([&](const std::map<std::string, Json>& devices) {
      return devices.size() == 4 && Tainted(devices, key) == count;
    });
  }
  void Sick(const std::string& device, const std::string& clears_with = "") {
    Control({{"health",
              {{device,
                {{"state", "unhealthy"},
                 {"faultClass", "ecc"},
                 {"message", "bits flip"},
                 {"clearsWith", clears_with}}}}}});
  }
};

constexpr char kDrainKey[] = "gpu.sdk.test/drain";
constexpr char kSickKey[] = "gpu.sdk.test/unhealthy";

TEST_F(OperatorLine, Slc11_DrainTaintsEveryDeviceAndUnprepareIsStillServed) {
  StartNode();
  const auto claim = MakeClaim("c1", {"gpu-1"});
  const auto late = MakeClaim("c2", {"gpu-2"});
  ASSERT_TRUE(kubelet_->PrepareResources(kDriver, {claim}).verdict.ok());

  const Ran drained = Run({"drain", "--driver", kDriver});
  EXPECT_EQ(drained.status, kExitNothing) << drained.output;
  EXPECT_THAT(drained.output, HasSubstr("ns1/c1"));
  EXPECT_THAT(drained.output, HasSubstr("30 s"));
  ASSERT_TRUE(WaitForTaints(kDrainKey, 4));
  EXPECT_EQ(StringOr((*daemon_->Status()["drivers"].begin())["drain"], "mode"), "taint");

  // A new instance is drained from its first publication on.
  StopDaemon();
  StartNode();
  EXPECT_EQ(Tainted(Devices(), kDrainKey), 4u);
  EXPECT_TRUE(kubelet_->PrepareResources(kDriver, {late}).verdict.ok());
  EXPECT_EQ(Run({"drain", "--driver", kDriver, "--wait", "0.3"}).status, kExitSomething);
  EXPECT_TRUE(kubelet_->UnprepareResources(kDriver, {claim}).verdict.ok());
  EXPECT_TRUE(kubelet_->UnprepareResources(kDriver, {late}).verdict.ok());
  EXPECT_EQ(Run({"drain", "--driver", kDriver, "--wait", "20"}).status, kExitNothing);

  EXPECT_EQ(Run({"drain", "--driver", kDriver, "--off"}).status, kExitNothing);
  EXPECT_TRUE(WaitForTaints(kDrainKey, 0));
}

TEST_F(OperatorLine, TheProgramProbesTheRunningInstanceAtTheConfiguredSocket) {
  StartNode();
  ASSERT_TRUE(WaitForReady(true));
  const std::string socket = daemon_->status_socket();
  for (const char* question : {"live", "ready"}) {
    const Ran ran = Run({"--status-socket", socket, "--probe", question});
    EXPECT_EQ(ran.status, kProbeYes) << ran.output;
    EXPECT_EQ(Run({"--status-socket", socket, "--pod-uid", "u1", "--probe", question}).status,
              kProbeNo);
  }
  StopDaemon();
  const Ran gone = Run({"--status-socket", socket, "--probe", "live"});
  EXPECT_EQ(gone.status, kProbeUnknown);
  EXPECT_THAT(gone.output, HasSubstr(socket));
}

TEST_F(OperatorLine, AProbeThatCannotBeAskedIsNoAnswer) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--probe", "live"},  // which socket?
                                             {"--config", "/nonexistent", "--probe", "live"},
                                             {"--status-socket", "/x", "--probe", "startup"},
                                             {"--status-socket", "/x", "--probe", ""}}) {
    const Ran ran = Run(arguments);
    EXPECT_EQ(ran.status, kProbeUnknown) << ran.output;
    EXPECT_NE(ran.output, "");
  }
}

TEST_F(OperatorLine, Slc11_DrainByWithdrawalDeletesTheSlices) {
  StartNode();
  EXPECT_EQ(Run({"drain", "--driver", kDriver, "--mode", "withdraw"}).status, kExitNothing);
  EXPECT_TRUE(WaitUntil([&] { return Slices().empty(); }));
  EXPECT_EQ(Run({"drain", "--driver", kDriver, "--off"}).status, kExitNothing);
  EXPECT_TRUE(WaitForTaints(kDrainKey, 0));
}

TEST_F(OperatorLine, ADrainWithdrawsWhereTheServerDropsTaints) {
  testing::ServerProfile profile;
  profile.minor = 34;
  StartApi(profile);
  StartKubelet(34);
  StartNode();
  EXPECT_EQ(Run({"drain", "--driver", kDriver}).status, kExitNothing);
  EXPECT_TRUE(WaitUntil([&] { return Slices().empty(); }));
  EXPECT_EQ(StringOr((*daemon_->Status()["drivers"].begin())["drain"], "mode"), "withdraw");
}

TEST_F(OperatorLine, Hlt01_AFaultOutlivesARestartAndEndsByItselfWhenTheDeviceIsWell) {
  StartNode();
  Sick("gpu-2");
  ASSERT_TRUE(WaitForTaints(kSickKey, 1));
  StopDaemon();
  StartNode();
  EXPECT_EQ(Tainted(Devices(), kSickKey), 1u);
  Control(Json::object());
  EXPECT_TRUE(WaitForTaints(kSickKey, 0));
}

TEST_F(OperatorLine, AFaultThatAsksForEvidenceIsClearedByTheOperatorOnly) {
  StartNode();
  Sick("gpu-2", "reset");
  ASSERT_TRUE(WaitForTaints(kSickKey, 1));
  Control(Json::object());
  ASSERT_TRUE(WaitUntil(
      [&] { return !(*daemon_->Status()["drivers"].begin())["inventory"]["findings"].empty(); }));
  EXPECT_EQ(Tainted(Devices(), kSickKey), 1u);

  const Ran wrong =
      Run({"clear-fault", "--driver", kDriver, "--device", "gpu-9", "--evidence", "reset"});
  EXPECT_EQ(wrong.status, kExitSomething) << wrong.output;
  EXPECT_THAT(wrong.output, HasSubstr("not on this node"));
  const Ran cleared =
      Run({"clear-fault", "--driver", kDriver, "--device", "gpu-2", "--evidence", "reset"});
  EXPECT_EQ(cleared.status, kExitNothing) << cleared.output;
  EXPECT_TRUE(WaitForTaints(kSickKey, 0));
  StopDaemon();
  StartNode();
  EXPECT_EQ(Tainted(Devices(), kSickKey), 0u);
}

TEST_F(OperatorLine, AClearFaultIsDoneAgainAfterACrashBeforeItsFileWasRemoved) {
  const std::string requests =
      directory_.Path(absl::StrCat("kubelet/plugins/", kDriver, "/requests"));
  const std::string request = R"({"device": "gpu-2", "evidence": "reset", "by": "ops"})";
  const auto is_gone = [&](const std::string& name) {
    return absl::IsNotFound(fs_.Stat(JoinPath(requests, name)).status());
  };
  StartNode();
  Sick("gpu-2", "reset");
  ASSERT_TRUE(WaitForTaints(kSickKey, 1));
  Control(Json::object());
  ASSERT_TRUE(fs_.CreateFile(JoinPath(requests, "clear-fault-1.json"), request, 0600, false).ok());
  ASSERT_TRUE(WaitForTaints(kSickKey, 0));
  ASSERT_TRUE(WaitUntil([&] { return is_gone("taken-clear-fault-1.json"); }));
  StopDaemon();
  // As it was between the note and the removal, a while ago.
  const std::string taken = JoinPath(requests, "taken-clear-fault-1.json");
  ASSERT_TRUE(fs_.CreateFile(taken, request, 0600, false).ok());
  const timespec then[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, taken.c_str(), then, 0), 0);
  StartNode();
  ASSERT_TRUE(WaitUntil([&] { return is_gone("taken-clear-fault-1.json"); }));
  EXPECT_TRUE(is_gone("refused")) << "it was answered as if nothing had been done";
  EXPECT_EQ(Tainted(Devices(), kSickKey), 0u);
}

TEST_F(OperatorLine, AClearFaultThatNobodyTakesIsNoAnswer) {
  ASSERT_TRUE(
      MakeDirectories(fs_, directory_.Path(absl::StrCat("kubelet/plugins/", kDriver)), 0750).ok());
  const Ran waited = Run({"clear-fault", "--driver", kDriver, "--device", "gpu-2", "--evidence",
                          "reset", "--wait", "0.1"});
  EXPECT_EQ(waited.status, kExitUnknown) << waited.output;
  EXPECT_EQ(Run({"drain", "--driver", "never.sdk.test"}).status, kExitUnknown);
}

TEST_F(OperatorLine, Doc01_UninstallCheckSaysWhatWouldBeStuck) {
  StartNode();
  EXPECT_EQ(Run({"uninstall-check"}).status, kExitNothing);
  const auto claim = MakeClaim("c1", {"gpu-1"});
  ASSERT_TRUE(kubelet_->PrepareResources(kDriver, {claim}).verdict.ok());
  for (const bool running : {true, false}) {
    if (!running) StopDaemon();
    const Ran stuck = Run({"uninstall-check", "--driver", kDriver});
    EXPECT_EQ(stuck.status, kExitSomething);
    for (const std::string& part :
         {std::string("ns1/c1"), claim.uid, std::string("n1/gpu-1"), std::string("p1")}) {
      EXPECT_THAT(stuck.output, HasSubstr(part));
    }
  }
  EXPECT_EQ(Run({"--config", "/absent.yaml", "uninstall-check"}).status, kExitUnknown);
}

// The driver is configured away while a claim is prepared: nothing is removed, and readiness says why. Put back, it
// serves Unprepare; away again, its slices go.
TEST_F(OperatorLine, ADriverConfiguredAwayKeepsItsClaimsAndThenLosesItsSlices) {
  StartNode();
  const auto claim = MakeClaim("c1", {"gpu-1"});
  ASSERT_TRUE(kubelet_->PrepareResources(kDriver, {claim}).verdict.ok());
  StopDaemon();
  DaemonConfig without = Config();
  without.drivers[0].name = "two.sdk.test";
  StartDaemonWith(without);
  const auto condition = [&]() -> std::string {
    for (const observe::Condition& each : daemon_->Conditions()) {
      if (each.driver == kDriver && each.name == "retired") return each.message;
    }
    return "";
  };
  ASSERT_TRUE(WaitUntil([&] { return !condition().empty(); }));
  EXPECT_THAT(condition(), HasSubstr("ns1/c1"));
  EXPECT_THAT(condition(), HasSubstr("put it back"));
  EXPECT_FALSE(BoolOr(daemon_->Status(), "ready"));
  StopDaemon();

  StartNode();
  EXPECT_TRUE(kubelet_->UnprepareResources(kDriver, {claim}).verdict.ok());
  StopDaemon();
  StartDaemonWith(without);
  EXPECT_TRUE(WaitForReady(true)) << DumpJson(daemon_->Status());
  for (const Json& slice : Slices()) EXPECT_EQ(slice["spec"]["driver"], "two.sdk.test");
}

}  // namespace
}  // namespace dra::driver
