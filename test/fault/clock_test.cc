// The wall clock jumps (NTP at boot, a suspended machine): only time stamps follow it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "test/fault/fault_fixture.h"

namespace dra::driver {
namespace {

class ClockJump : public FaultFixture, public ::testing::WithParamInterface<int> {};

TEST_P(ClockJump, HurriesAndStallsNothing) {
  StartFaultyNode();
  const auto claim = MakeClaim("c1", {"gpu-0"});
  ASSERT_EQ(ErrorOf(Prepare(claim)), "");
  jumping_.Jump(absl::Hours(24 * GetParam()));

  // Discovery, health and publication go on in their own time.
  Control({{"cards", {{"gpu-3", {{"absent", true}}}}},
           {"health", {{"gpu-1", {{"state", "unhealthy"}, {"message", "bits flip"}}}}}});
  EXPECT_TRUE(WaitForDevices([](const auto& devices) {
    const auto sick = devices.find("gpu-1");
    return devices.count("gpu-3") == 0 && sick != devices.end() &&
           sick->second.contains("taints") && !sick->second.at("taints").empty();
  }));
  EXPECT_TRUE(kubelet_->WaitForHealth(kDriver, kNode, "gpu-1", testing::KubeletHealth::kUnhealthy,
                                      kPatience));
  Control(Json::object());
  EXPECT_TRUE(WaitForDevices([](const auto& devices) {
    const auto well = devices.find("gpu-1");
    return devices.count("gpu-3") == 1 && well != devices.end() &&
           (!well->second.contains("taints") || well->second.at("taints").empty());
  }));

  // A second jump back while a claim is held, then a restart with records from the "future".
  jumping_.Jump(absl::Hours(-48 * GetParam()));
  EXPECT_EQ(ErrorOf(Prepare(claim)), "");
  EXPECT_EQ(HookCalls("prepare"), 1) << "the same boot, the same claim";
  StopDaemon();
  StartFaulty();
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  EXPECT_EQ(ErrorOf(Prepare(claim)), "");
  EXPECT_EQ(HookCalls("prepare"), 1);
  EXPECT_EQ(CdiFiles().size(), 1u);
  EXPECT_TRUE(WaitForReady(true));
  ExpectHealed(claim);
}

INSTANTIATE_TEST_SUITE_P(Days, ClockJump, ::testing::Values(1, -1), [](const auto& tested) {
  return std::string(tested.param > 0 ? "Forward" : "Back");
});

}  // namespace
}  // namespace dra::driver
