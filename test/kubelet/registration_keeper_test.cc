#include "kubelet/registration_keeper.h"

#include "gtest/gtest.h"

namespace dra::kubelet {
namespace {

MonotonicTime At(int seconds) { return MonotonicTime() + std::chrono::seconds(seconds); }

TEST(RegistrationKeeper, WaitsThePatienceThenDoublesUpToFiveMinutes) {
  RegistrationKeeper keeper(absl::Seconds(30));
  const RegistrationFacts silent;
  int now = 0;
  keeper.Announced(At(now), absl::UnixEpoch());
  for (const int wait : {30, 60, 120, 240, 300, 300}) {
    EXPECT_FALSE(keeper.ShouldReannounce(silent, At(now + wait - 1))) << wait;
    now += wait;
    EXPECT_TRUE(keeper.ShouldReannounce(silent, At(now))) << wait;
    keeper.Announced(At(now), absl::UnixEpoch());
  }
}

TEST(RegistrationKeeper, TriesSoonAfterARefusalThenSlower) {
  RegistrationKeeper keeper(absl::Seconds(30));
  RegistrationFacts refused;
  refused.refused = true;
  int now = 0;
  keeper.Announced(At(now), absl::UnixEpoch());
  for (const int wait : {1, 2, 4, 8, 16, 32, 64, 120, 120}) {
    EXPECT_FALSE(keeper.ShouldReannounce(refused, At(now + wait - 1))) << wait;
    now += wait;
    EXPECT_TRUE(keeper.ShouldReannounce(refused, At(now))) << wait;
    keeper.Announced(At(now), absl::UnixEpoch());
  }
}

TEST(RegistrationKeeper, SuccessStartsTheWaitsAnewAndIsSeenOnce) {
  RegistrationKeeper keeper(absl::Seconds(30));
  RegistrationFacts facts;
  facts.refused = true;
  keeper.Announced(At(0), absl::UnixEpoch());
  EXPECT_TRUE(keeper.ShouldReannounce(facts, At(1)));
  EXPECT_TRUE(keeper.ShouldReannounce(facts, At(2)));
  facts = RegistrationFacts{};
  facts.registered = true;
  facts.registrations = 1;
  EXPECT_TRUE(keeper.NewRegistration(facts));
  EXPECT_FALSE(keeper.NewRegistration(facts));
  EXPECT_FALSE(keeper.ShouldReannounce(facts, At(10000)));
  facts.registered = false;
  facts.refused = true;
  EXPECT_TRUE(keeper.ShouldReannounce(facts, At(1)));
}

TEST(RegistrationKeeper, WarnsOnceAndNotIfTheKubeletHasAsked) {
  RegistrationKeeper keeper(absl::Seconds(30));
  RegistrationFacts facts;
  keeper.Announced(At(0), absl::FromUnixSeconds(1000));
  EXPECT_FALSE(keeper.ShouldWarn(facts, At(29)));
  facts.last_get_info = absl::FromUnixSeconds(1001);
  EXPECT_FALSE(keeper.ShouldWarn(facts, At(30)));
  facts.last_get_info = absl::FromUnixSeconds(999);
  EXPECT_TRUE(keeper.ShouldWarn(facts, At(30)));
  EXPECT_FALSE(keeper.ShouldWarn(facts, At(60)));
}

}  // namespace
}  // namespace dra::kubelet
