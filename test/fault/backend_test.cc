// Hook by misbehaviour, through the daemon: a backend costs its own claim an error, never the daemon, never others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "test/fault/fault_fixture.h"

namespace dra::driver {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Misbehaviour {
  const char* name;
  Json fault;         // of the fake backend's control file
  const char* error;  // what the text must hold; null: the call succeeds all the same
};

std::vector<Misbehaviour> Common() {
  return {
      {"fail", {{"fail", {{"code", "INTERNAL"}, {"message", "E7"}}}}, "E7"},
      {"exception", {{"throw", "exception"}}, "hook"},
      {"int", {{"throw", "int"}}, "hook"},
      {"own", {{"throw", "own"}}, "hook"},
      {"hang", {{"hang", "untilRemoved"}}, "has not returned within"},
      {"hang-cancellable", {{"hang", "untilCancelled"}}, ""},
      {"late-save-undo", {{"callback", {{"function", "saveUndo"}, {"delayMs", 50}}}}, nullptr},
      {"thread-hints", {{"callback", {{"function", "inventoryChanged"}, {"delayMs", 0}}}}, nullptr},
      {"thread-log", {{"callback", {{"function", "log"}, {"delayMs", 0}}}}, nullptr},
  };
}

std::vector<Misbehaviour> Junk(const std::vector<const char*>& kinds) {
  std::vector<Misbehaviour> list;
  for (const char* kind : kinds) list.push_back({kind, {{"junk", kind}}, ""});
  return list;
}

class Backend : public FaultFixture {
 protected:
  static Json ShortLimits(bool parallel = true) {
    return {{"manifest",
             {{"parallel", parallel},
              {"hookLimits",
               {{"prepare", 1},
                {"unprepare", 1},
                {"validate_config", 1},
                {"discover", 1},
                {"health", 1},
                {"busy", 1},
                {"reconcile_begin", 1},
                {"reconcile_record", 1},
                {"reconcile_end", 1}}}}}};
  }
  static Json GpuConfig() {
    return Json::array(
        {{{"source", "FromClaim"},
          {"requests", Json::array()},
          {"opaque",
           {{"driver", kDriver},
            {"parameters",
             {{"apiVersion", "gpu.resource.example.com/v1alpha1"}, {"kind", "GpuConfig"}}}}}}});
  }
  // `fault` strikes in `hook`, of the claim alone where the hook has one.
  void Strike(const std::string& hook, Json fault, const std::string& claim_uid = "") {
    if (!claim_uid.empty()) fault["claim"] = claim_uid;
    fault["id"] = absl::StrCat(++strikes_);
    Control({{"hooks", {{hook, std::move(fault)}}}});
  }
  void ExpectOthersServed() {
    const auto other = MakeClaim(absl::StrCat("other-", ++strikes_), {"gpu-2"});
    EXPECT_EQ(ErrorOf(Prepare(other)), "");
    EXPECT_EQ(ErrorOf(Unprepare(other)), "");
  }
  void Expect(const Misbehaviour& how, const std::string& error) {
    if (how.error == nullptr) {
      EXPECT_EQ(error, "");
    } else {
      EXPECT_NE(error, "");
      EXPECT_THAT(error, HasSubstr(how.error));
    }
  }

  // Those that answer junk are not in the log as calls.
  int Calls(const std::string& hook) const { return HookCalls(hook) + HookCalls(hook, "junk"); }

  int strikes_ = 0;
};

TEST_F(Backend, APrepareThatMisbehavesCostsItsOwnClaimAnError) {
  StartFaultyNode(ShortLimits());
  std::vector<Misbehaviour> all = Common();
  for (Misbehaviour& junk : Junk({"notJson", "notUtf8", "wrongType", "nothing", "twice", "badIndex",
                                  "badCode", "nullText"})) {
    all.push_back(std::move(junk));
  }
  for (const Misbehaviour& how : all) {
    SCOPED_TRACE(how.name);
    const auto claim = MakeClaim(absl::StrCat("prepare-", how.name), {"gpu-0"});
    Strike("prepare", how.fault, claim.uid);
    Expect(how, ErrorOf(Prepare(claim)));
    ExpectOthersServed();
    Control(Json::object());
    ExpectHealed(claim);
  }
  EXPECT_TRUE(WaitForReady(true));
}

TEST_F(Backend, AnUnprepareThatMisbehavesKeepsItsOwnClaimOnly) {
  StartFaultyNode(ShortLimits());
  std::vector<Misbehaviour> all = Common();
  for (const Misbehaviour& how : all) {
    SCOPED_TRACE(how.name);
    const auto claim = MakeClaim(absl::StrCat("unprepare-", how.name), {"gpu-0"});
    ASSERT_EQ(ErrorOf(Prepare(claim)), "");
    Strike("unprepare", how.fault, claim.uid);
    Expect(how, ErrorOf(Unprepare(claim)));
    const bool known = absl::StrContains(DumpJson(daemon_->Status()), claim.uid);
    EXPECT_EQ(known, how.error != nullptr) << "what is not unprepared stays known, and held";
    ExpectOthersServed();
    Control(Json::object());
    EXPECT_EQ(ErrorOf(Unprepare(claim)), "");
    ExpectHealed(MakeClaim(absl::StrCat("next-", how.name), {"gpu-0"}));
  }
}

TEST_F(Backend, AValidationThatMisbehavesCostsItsOwnClaimAnError) {
  StartFaultyNode(ShortLimits());
  for (const Misbehaviour& how : Common()) {
    SCOPED_TRACE(how.name);
    const auto claim = MakeClaim(absl::StrCat("validate-", how.name), {"gpu-0"}, GpuConfig());
    Strike("validate_config", how.fault);
    Expect(how, ErrorOf(Prepare(claim)));
    ExpectOthersServed();  // without a configuration: not asked
    Control(Json::object());
    ExpectHealed(claim);
  }
}

TEST_F(Backend, ADiscoveryOrAHealthThatMisbehavesTakesNoDeviceAwayAndStopsNoClaim) {
  StartFaultyNode(ShortLimits());
  std::vector<Misbehaviour> all = Common();
  for (Misbehaviour& junk :
       Junk({"notJson", "notUtf8", "wrongType", "nothing", "twice", "badNumber", "nullText"})) {
    all.push_back(std::move(junk));
  }
  for (const char* hook : {"discover", "health"}) {
    for (const Misbehaviour& how : all) {
      SCOPED_TRACE(absl::StrCat(hook, " ", how.name));
      const auto claim = MakeClaim(absl::StrCat(hook, "-", how.name), {"gpu-0"});
      const int calls = HookCalls(hook);
      Json once = how.fault;
      once["times"] = 1;
      Strike(hook, once);
      EXPECT_TRUE(WaitUntil([&] { return HookCalls(hook) > calls; }));
      EXPECT_EQ(ErrorOf(Prepare(claim)), "");
      EXPECT_EQ(ErrorOf(Unprepare(claim)), "");
      Control(Json::object());
      // A good one in between: failures in a row put the next look off further and further.
      EXPECT_TRUE(WaitForReady(true)) << DumpJson(daemon_->Status());
    }
  }
  EXPECT_TRUE(WaitForDevices([](const auto& devices) { return devices.size() == 4; }));
  ExpectHealed(MakeClaim("last", {"gpu-0"}));
}

TEST_F(Backend, ABusyThatMisbehavesKeepsTheDeviceOfItsOrphanAndNothingElse) {
  adjust_ = [](DriverConfig& driver) {
    driver.orphan_check_interval = absl::Milliseconds(20);
    driver.orphan_grace = absl::Milliseconds(1);
  };
  StartFaultyNode(ShortLimits());
  std::vector<Misbehaviour> all = Common();
  for (Misbehaviour& junk : Junk({"badNumber", "nothing", "badCode"})) {
    all.push_back(std::move(junk));
  }
  for (const Misbehaviour& how : all) {
    SCOPED_TRACE(how.name);
    const auto claim = MakeClaim(absl::StrCat("busy-", how.name), {"gpu-0"});
    ASSERT_EQ(ErrorOf(Prepare(claim)), "");
    Strike("busy", how.fault);
    const int calls = Calls("busy");
    ASSERT_TRUE(api_->store().Delete(kube::ResourceClaims(), "ns1", claim.name, {}).ok());
    if (how.error == nullptr) {
      EXPECT_TRUE(WaitUntil([&] { return Records().empty(); }));
    } else {
      // Twice: once would be too early to see what came of it.
      const int wanted = absl::StrContains(how.name, "hang") ? 1 : 2;
      EXPECT_TRUE(WaitUntil([&] { return Calls("busy") >= calls + wanted; }));
      EXPECT_EQ(Records().size(), 1u) << "what cannot be told counts as busy";
      ExpectOthersServed();
    }
    Control(Json::object());
    EXPECT_TRUE(WaitUntil([&] { return Records().empty(); }));
    EXPECT_TRUE(CdiFiles().empty());
  }
  EXPECT_TRUE(WaitForReady(true));
}

class ReconcileHook : public Backend, public ::testing::WithParamInterface<const char*> {};

TEST_P(ReconcileHook, ThatMisbehavesTakesNoClaimAwayAndKeepsNobodyForLong) {
  const std::string hook = GetParam();
  StartFaultyNode(ShortLimits());
  const auto held = MakeClaim("held", {"gpu-0"});
  ASSERT_EQ(ErrorOf(Prepare(held)), "");
  std::vector<Misbehaviour> all = Common();
  if (hook == "reconcile_record") {
    for (Misbehaviour& junk : Junk({"notJson", "notUtf8", "wrongType", "nothing", "badIndex",
                                    "badNumber", "badCode", "nullText"})) {
      all.push_back(std::move(junk));
    }
  }
  for (const Misbehaviour& how : all) {
    SCOPED_TRACE(how.name);
    StopDaemon();
    const int calls = Calls(hook);
    Json once = how.fault;
    once["times"] = 1;
    Strike(hook, once);
    StartFaulty(ShortLimits());
    ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
    ASSERT_TRUE(WaitUntil([&] { return Calls(hook) > calls; }));
    if (how.name == std::string("hang")) {
      // No claim's hook may run beside it: each is told why, at its own limit.
      const auto waits = MakeClaim("waits", {"gpu-1"});
      EXPECT_THAT(ErrorOf(Prepare(waits)), HasSubstr(hook));
      Control(Json::object());
      EXPECT_TRUE(WaitUntil([&] { return ErrorOf(Prepare(waits)).empty(); }));
      EXPECT_EQ(ErrorOf(Unprepare(waits)), "");
    }
    ExpectOthersServed();
    EXPECT_EQ(ErrorOf(Prepare(held)), "") << "it is prepared still";
    EXPECT_EQ(CdiFiles().size(), 1u);
    EXPECT_TRUE(WaitForReady(true)) << DumpJson(daemon_->Status());
  }
  // One that may not have reached the hardware is tried again.
  StopDaemon();
  const int calls = Calls(hook);
  Strike(hook, {{"times", 1}, {"fail", {{"code", "UNAVAILABLE"}, {"message", "E8"}}}});
  StartFaulty(ShortLimits());
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  EXPECT_TRUE(WaitUntil([&] { return Calls(hook) >= calls + 2; }));
  Control(Json::object());
  EXPECT_EQ(ErrorOf(Unprepare(held)), "");
  ExpectHealed(held);
}

INSTANTIATE_TEST_SUITE_P(Hooks, ReconcileHook,
                         ::testing::Values("reconcile_begin", "reconcile_record", "reconcile_end"),
                         [](const auto& tested) { return std::string(tested.param); });

// The price of a backend that is not parallel: others wait for a hook that hangs, but each for its own limit only, and
// each is told which hook it is and since when.
TEST_F(Backend, WithoutParallelAHangIsAnErrorOfEachUnprepareThatNamesItUntilItEnds) {
  StartFaultyNode(ShortLimits(/*parallel=*/false));
  const auto held = MakeClaim("held", {"gpu-1"});
  ASSERT_EQ(ErrorOf(Prepare(held)), "");
  const auto hung = MakeClaim("hung", {"gpu-0"});
  Strike("prepare", {{"hang", "untilRemoved"}}, hung.uid);
  EXPECT_THAT(ErrorOf(Prepare(hung)), HasSubstr("hook prepare"));
  const auto names_it = AllOf(HasSubstr("waited for hook prepare of claim"), HasSubstr(hung.uid),
                              HasSubstr("which has run for"));
  EXPECT_THAT(ErrorOf(Unprepare(held)), names_it);
  EXPECT_TRUE(WaitUntil([&] {
    return absl::StrContains(ConditionMessage("backend"), "waited for hook prepare of claim");
  })) << "readiness says it: "
      << ConditionMessage("backend");
  Control(Json::object());
  EXPECT_TRUE(WaitUntil([&] { return ErrorOf(Unprepare(held)).empty(); }));
  EXPECT_TRUE(WaitForReady(true));
  ExpectHealed(hung);
}

}  // namespace
}  // namespace dra::driver
