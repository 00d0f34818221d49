#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "test/claims/claims_rig.h"

namespace dra::claims {
namespace {

using ::testing::ElementsAre;
using testing::FileOperation;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Bytes(const absl::StatusOr<std::vector<PreparedDevice>>& answer) {
  std::string text;
  if (!answer.ok()) return answer.status().ToString();
  for (const PreparedDevice& device : *answer) {
    absl::StrAppend(&text, absl::StrJoin(device.request_names, ","), "|", device.pool, "|",
                    device.device, "|", absl::StrJoin(device.cdi_ids, ","), "|",
                    device.share_id.value_or("-"), ";");
  }
  return text;
}

TEST(Prepare, AnswersWithBaseRequestNamesAndCdiIds) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0", "gpu/large")});
  const auto answer = rig.Prepare("U1");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(Bytes(answer), "gpu|n1|d0|k8s.gpu.sdk.test/claim=U1-d0|-;");
  EXPECT_TRUE(rig.cdi_.Has("U1"));
  EXPECT_EQ(rig.Phase("U1"), "prepared");
  EXPECT_EQ(rig.claims_.gets(), 1);
  EXPECT_THAT(rig.manager_->HeldDevices(), ElementsAre(std::make_pair("n1", "d0")));
  EXPECT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
  EXPECT_FALSE(rig.cdi_.Has("U1"));
  EXPECT_THAT(rig.manager_->HeldDevices(), IsEmpty());
}

TEST(Prepare, GivesTheBackendIdentityConfigsAndConsumers) {
  ClaimsRig rig;
  rig.Allocate(
      "U1", {Result("d0")},
      Json::parse(
          R"([{"source":"FromClass","requests":[],"opaque":{"driver":"gpu.sdk.test","parameters":{"a":1}}},
                {"source":"FromClaim","requests":["r0"],"opaque":{"driver":"gpu.sdk.test","parameters":{"b":2}}},
                {"source":"FromClaim","requests":["r1"],"opaque":{"driver":"gpu.sdk.test","parameters":{"a":9}}},
                {"source":"FromClaim","requests":[],"opaque":{"driver":"other.example","parameters":{"zzz":1}}}])"));
  ASSERT_TRUE(rig.Prepare("U1").ok());
  const loader::PrepareArgs args = rig.backend_.LastPrepare();
  EXPECT_EQ(args.devices[0].identity, "serial-d0");
  ASSERT_EQ(args.devices[0].configs.size(), 2u);
  EXPECT_EQ(args.devices[0].configs[0]["parameters"], Json::parse(R"({"a":1})"));
  EXPECT_EQ(args.devices[0].configs[1]["source"], "FromClaim");
  EXPECT_EQ(args.reserved_for[0]["name"], "p1");
}

TEST(Prepare, CostsOneDurableWriteWithoutUndoData) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.fs_.ResetCount();
  ASSERT_TRUE(rig.Prepare("U1").ok());
  EXPECT_EQ(rig.fs_.Count({FileOperation::kSyncDirectory, ""}), 1);
  rig.fs_.ResetCount();
  ASSERT_TRUE(rig.Prepare("U1").ok());
  EXPECT_EQ(rig.fs_.Count({FileOperation::kCreateFile, ""}), 0);
  rig.fs_.ResetCount();
  ASSERT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_EQ(rig.fs_.Count({FileOperation::kSyncDirectory, ""}), 0);
  EXPECT_EQ(rig.fs_.Count({FileOperation::kCreateFile, ""}), 0);
}

TEST(Unprepare, CostsOneDurableWriteMoreWithUndoData) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.backend_.OnPrepare([](const loader::PrepareArgs& args, const Call&) {
    loader::PrepareResult result = FakeBackend::Plain(args);
    result.undo = "previous";
    result.has_undo = true;
    return result;
  });
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.fs_.ResetCount();
  ASSERT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_EQ(rig.fs_.Count({FileOperation::kSyncDirectory, ""}), 1);
  EXPECT_EQ(rig.fs_.Count({FileOperation::kCreateFile, ""}), 0);
  EXPECT_EQ(rig.backend_.LastUnprepare().undo, "previous");
}

TEST(Prepare, CostsTheSameWithManyClaimsHeld) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());  // the first hold on a key makes the key's directory
  ASSERT_TRUE(rig.Unprepare("U1").ok());
  rig.fs_.ResetCount();
  ASSERT_TRUE(rig.Prepare("U1").ok());
  const int alone = rig.fs_.count();
  ASSERT_TRUE(rig.Unprepare("U1").ok());
  for (int i = 0; i < 60; ++i) {
    const std::string device = absl::StrCat("x", i);
    rig.catalog_.Put(device, {{device, "whole"}});
    rig.Allocate(absl::StrCat("V", i), {Result(device)});
    ASSERT_TRUE(rig.Prepare(absl::StrCat("V", i)).ok());
  }
  rig.fs_.ResetCount();
  ASSERT_TRUE(rig.Prepare("U1").ok());
  EXPECT_EQ(rig.fs_.count(), alone);
}

TEST(Prp01, AClaimWithAnotherUidUnderTheNameIsNeverPrepared) {
  ClaimsRig rig;
  const loader::ClaimIdentity u1 = Identity("U1", "c1");
  const loader::ClaimIdentity u9 = Identity("U9", "c1");
  rig.claims_.Put(ClaimObject(u1, {Result("d0")}));
  ASSERT_TRUE(rig.StartPrepare(u1).Get().ok());
  rig.claims_.Put(ClaimObject(u9, {Result("d2")}));
  const auto replaced = rig.StartPrepare(u1).Get();
  EXPECT_THAT(Text(replaced.status()), HasSubstr("UID \"U9\""));
  const auto answer = rig.StartPrepare(u9).Get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->size(), 1u);
  EXPECT_EQ((*answer)[0].device, "d2");
  EXPECT_TRUE(rig.cdi_.Has("U1"));
  EXPECT_TRUE(rig.cdi_.Has("U9"));
}

TEST(Prp02, OnlyOurResultsArePrepared) {
  ClaimsRig rig;
  Json foreign = Result("eth9", "n");
  foreign["driver"] = "net.other";
  rig.Allocate("U1", {Result("d0", "g"), foreign});
  const auto answer = rig.Prepare("U1");
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->size(), 1u);
  EXPECT_THAT((*answer)[0].request_names, ElementsAre("g"));
  rig.Allocate("U2", {foreign});
  const auto none = rig.Prepare("U2");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_THAT(*none, IsEmpty());
  EXPECT_FALSE(rig.HasRecord("U2"));
}

TEST(Prp04, AHeldDeviceIsRefusedNamingTheHolderUntilItIsUnprepared) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.Allocate("U3", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  const auto refused = rig.Prepare("U3", Call::WithTimeout(absl::Seconds(1)));
  EXPECT_THAT(Text(refused.status()), HasSubstr("U1"));
  EXPECT_EQ(rig.backend_.Order(), "prepare U1");
  ASSERT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_TRUE(rig.Prepare("U3").ok());
}

TEST(Prp05, AdminAccessNeitherBlocksNorIsBlocked) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.Allocate("U4", {Result("d0", "r0", {{"adminAccess", true}})});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  ASSERT_TRUE(rig.Prepare("U4").ok());
  ASSERT_EQ(rig.backend_.LastPrepare().others.size(), 1u);
  EXPECT_EQ(rig.backend_.LastPrepare().others[0].claim_uid, "U1");
  ASSERT_TRUE(rig.Unprepare("U4").ok());
  ASSERT_EQ(rig.backend_.LastUnprepare().others.size(), 1u);
  EXPECT_EQ(rig.Phase("U1"), "prepared");
  EXPECT_TRUE(rig.cdi_.Has("U1"));
}

constexpr char kHiddenFault[] = "device n1/d0 is unhealthy (ecc), reset it, or delete the pod";

// The scheduler cannot be told that d0 is sick: only the prepare can keep new work from it.
TEST(Hlt05, NewWorkDoesNotGetADeviceWhoseFaultTheSchedulerCouldNotKnow) {
  ClaimsRig rig;
  rig.catalog_.SetHiddenFault("d0", kHiddenFault);
  rig.Allocate("U1", {Result("d1"), Result("d0", "r1")});
  rig.Allocate("U2", {Result("d2")});
  const absl::Status refused =
      rig.Prepare("U1", Call::WithTimeout(absl::Milliseconds(100))).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(Text(refused), HasSubstr(kHiddenFault));
  EXPECT_TRUE(rig.Prepare("U2").ok());
  EXPECT_EQ(rig.backend_.Order(), "prepare U2");
  EXPECT_FALSE(rig.HasRecord("U1"));
  EXPECT_TRUE(rig.Unprepare("U1").ok());
}

TEST(Hlt05, APrepareGoesOnWhenTheDeviceIsWellAgainAndAsksNothingMeanwhile) {
  ClaimsRig rig;
  rig.catalog_.SetHiddenFault("d0", kHiddenFault);
  rig.Allocate("U1", {Result("d0")});
  PrepareAnswer prepare = rig.StartPrepare(Identity("U1"));
  EXPECT_FALSE(prepare.Wait(absl::Seconds(1)));  // two looks at the device
  EXPECT_EQ(rig.claims_.gets(), 1);
  rig.catalog_.SetHiddenFault("d0", "");
  EXPECT_TRUE(prepare.Get().ok()) << prepare.Get().status();
  EXPECT_EQ(rig.claims_.gets(), 2);
}

TEST(Hlt05, AClaimThatHasTheSickDeviceIsPreparedAgain) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  const auto first = rig.Prepare("U1");
  ASSERT_TRUE(first.ok());
  rig.catalog_.SetHiddenFault("d0", kHiddenFault);
  EXPECT_TRUE(rig.Prepare("U1").ok());
  rig.Boot();
  EXPECT_TRUE(rig.Prepare("U1").ok());
  // Its pod starts again on this node.
  rig.Reboot();
  EXPECT_TRUE(rig.Prepare("U1").ok());
  // Another allocation of the claim is new work.
  rig.Allocate("U1", {Result("d0"), Result("d1", "r1")});
  EXPECT_THAT(Text(rig.Prepare("U1", Call::WithTimeout(absl::Milliseconds(100))).status()),
              HasSubstr(kHiddenFault));
  EXPECT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
}

TEST(Hlt05, AClaimWithADamagedRecordIsPreparedAgainOnASickDevice) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.catalog_.SetHiddenFault("d0", kHiddenFault);
  std::ofstream(rig.RecordPath("U1")) << "{";
  rig.Boot();
  EXPECT_TRUE(rig.Prepare("U1").ok());
}

TEST(Hlt05, AdminAccessReachesASickDevice) {
  ClaimsRig rig;
  rig.catalog_.SetHiddenFault("d0", kHiddenFault);
  rig.Allocate("U1", {Result("d0", "r0", {{"adminAccess", true}})});
  EXPECT_TRUE(rig.Prepare("U1").ok());
}

TEST(Prp07, ACdiFileThatCannotBeWrittenUndoesThePrepare) {
  for (const char* reason : {"read-only file system", "no space left on device"}) {
    SCOPED_TRACE(reason);
    ClaimsRig rig;
    rig.Allocate("U1", {Result("d0")});
    rig.Allocate("U3", {Result("d0")});
    rig.cdi_.Set(absl::PermissionDeniedError(reason));
    const auto failed = rig.Prepare("U1");
    EXPECT_THAT(Text(failed.status()), HasSubstr(reason));
    EXPECT_EQ(rig.backend_.Order(), "prepare U1, unprepare U1");
    EXPECT_THAT(rig.Leftovers(), IsEmpty());
    rig.cdi_.Set(absl::OkStatus());
    EXPECT_TRUE(rig.Prepare("U3").ok());
  }
}

TEST(Prp08, AFailedUndoIsRecordedAsDirtyAndTriedAgain) {
  ClaimsRig rig;
  rig.Allocate("U5", {Result("d0"), Result("d1", "r1")});
  rig.backend_.OnPrepare(
      [&](const loader::PrepareArgs& args, const Call&) -> absl::StatusOr<loader::PrepareResult> {
        EXPECT_TRUE(rig.manager_->SaveUndo(args.claim.uid, "d0 bound").ok());
        return absl::InternalError("E1");
      });
  rig.backend_.OnUnprepare(
      [](const loader::UnprepareArgs&, const Call&) { return absl::InternalError("E2"); });
  const auto failed = rig.Prepare("U5");
  EXPECT_THAT(Text(failed.status()), HasSubstr("E1"));
  EXPECT_THAT(Text(failed.status()), HasSubstr("E2"));
  EXPECT_LT(Text(failed.status()).find("E1"), Text(failed.status()).find("E2"));
  EXPECT_EQ(rig.Phase("U5"), "dirty");
  EXPECT_THAT(Text(rig.Unprepare("U5")), HasSubstr("E2"));
  rig.Boot();
  EXPECT_EQ(rig.Phase("U5"), "dirty");
  EXPECT_THAT(rig.manager_->HeldDevices(), ::testing::SizeIs(2));
  rig.backend_.OnUnprepare(nullptr);
  EXPECT_TRUE(rig.Unprepare("U5").ok());
  EXPECT_EQ(rig.backend_.LastUnprepare().undo, "d0 bound");
  EXPECT_EQ(rig.backend_.LastUnprepare().devices.size(), 2u);
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
}

TEST(Prp10, ARepeatAnswersTheSameBytesAndOneFailureLeavesTheNeighbourAlone) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0"), Result("d3", "r1")});
  rig.Allocate("U2", {Result("d1")});
  rig.backend_.OnPrepare(
      [](const loader::PrepareArgs& args, const Call&) -> absl::StatusOr<loader::PrepareResult> {
        if (args.claim.uid == "U2") return absl::InternalError("broken");
        return FakeBackend::Plain(args);
      });
  std::string first;
  for (int round = 0; round < 2; ++round) {
    PrepareAnswer u1 = rig.StartPrepare(Identity("U1"));
    PrepareAnswer u2 = rig.StartPrepare(Identity("U2"));
    ASSERT_TRUE(u1.Get().ok());
    EXPECT_FALSE(u2.Get().ok());
    if (round == 0) first = Bytes(u1.Get());
    EXPECT_EQ(Bytes(u1.Get()), first);
  }
  EXPECT_EQ(rig.cdi_.writes, 1);
  rig.Boot();
  EXPECT_EQ(Bytes(rig.Prepare("U1")), first);
  EXPECT_THAT(rig.backend_.Order(), ::testing::Not(HasSubstr("prepare U1, prepare U1")));
}

TEST(Prp12, UnprepareOfAnUnknownClaimSucceedsWithoutAHook) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  UnprepareAnswer known = rig.StartUnprepare(Identity("U1"));
  UnprepareAnswer unknown = rig.StartUnprepare(Identity("U7"));
  EXPECT_TRUE(known.Get().ok());
  EXPECT_TRUE(unknown.Get().ok());
  EXPECT_EQ(rig.backend_.Order(), "prepare U1, unprepare U1");
  EXPECT_EQ(rig.claims_.gets(), 1);
}

TEST(Prp12, UnprepareWorksAfterAFailedPrepare) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.backend_.OnPrepare(
      [](const loader::PrepareArgs&, const Call&) { return absl::InternalError("no"); });
  EXPECT_FALSE(rig.Prepare("U1").ok());
  EXPECT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_EQ(rig.backend_.Order(), "prepare U1");
}

TEST(Prp16, AClaimOfSeveralConsumersNeedsABackendThatShares) {
  ClaimsRig rig;
  const Json two = Json::parse(
      R"([{"resource":"pods","name":"p1","uid":"1"},{"resource":"pods","name":"p2","uid":"2"}])");
  const Json group = Json::parse(
      R"([{"apiGroup":"scheduling.k8s.io","resource":"podgroups","name":"g","uid":"3"}])");
  for (const Json& consumers : {two, group}) {
    rig.claims_.Put(ClaimObject(Identity("U1"), {Result("d0")}, Json::array(), consumers));
    EXPECT_THAT(Text(rig.Prepare("U1").status()), HasSubstr("not shareable"));
  }
  rig.backend_.manifest.shared_claims = true;
  const auto shared = rig.Prepare("U1");
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_EQ(rig.backend_.LastPrepare().reserved_for[0]["resource"], "podgroups");
}

TEST(Prp17, AClaimWithoutSideEffectsIsReleasedWithoutAHook) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.backend_.OnPrepare(
      [](const loader::PrepareArgs&, const Call&) { return absl::InternalError("no"); });
  EXPECT_FALSE(rig.Prepare("U1").ok());
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
  EXPECT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_EQ(rig.backend_.Order(), "prepare U1");
}

TEST(Prp18, AClaimWithoutConfigGetsNone) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  EXPECT_EQ(rig.backend_.LastPrepare().devices[0].configs, Json::array());
}

TEST(Cfg01, AConfigTheBackendRefusesFailsTheClaimBeforeAnythingIsTouched) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")}, Json::parse(R"([{"source":"FromClaim","requests":[],
                 "opaque":{"driver":"gpu.sdk.test","parameters":{"sharring":{"mode":"x"}}}}])"));
  EXPECT_THAT(Text(rig.Prepare("U1").status()), HasSubstr("sharring"));
  EXPECT_EQ(rig.backend_.Order(), "");
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
}

TEST(Cdi04, EmptyEditsAreAskedForOnceMore) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  int calls = 0;
  rig.backend_.OnPrepare([&](const loader::PrepareArgs& args, const Call&) {
    loader::PrepareResult result = FakeBackend::Plain(args);
    if (++calls == 1) result.devices[0].edits = Json::object();
    return result;
  });
  EXPECT_TRUE(rig.Prepare("U1").ok());
  EXPECT_EQ(calls, 2);
}

TEST(Cdi04, EmptyEditsForGoodAreAnErrorUnlessTheBackendInjectsNothing) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.backend_.OnPrepare([](const loader::PrepareArgs& args, const Call&) {
    loader::PrepareResult result = FakeBackend::Plain(args);
    result.devices[0].edits = Json();
    return result;
  });
  rig.backend_.manifest.name = "fake";
  EXPECT_THAT(Text(rig.Prepare("U1").status()),
              HasSubstr("backend \"fake\" gives no CDI edits for device n1/d0"));
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
  rig.backend_.manifest.no_injection = true;
  const auto answer = rig.Prepare("U1");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT((*answer)[0].cdi_ids, IsEmpty());
  EXPECT_FALSE(rig.cdi_.Has("U1"));
}

TEST(Prepare, SharesAndCountersAreBounded) {
  ClaimsRig rig;
  rig.catalog_.Put(
      "nic0", {{"nic-0", "pf"}},
      Json::parse(R"({"allowMultipleAllocations":true,"capacity":{"bandwidth":{"value":"10G"}}})"));
  const auto share = [](const std::string& id, const std::string& amount) {
    return Result("nic0", "r0", {{"shareID", id}, {"consumedCapacity", {{"bandwidth", amount}}}});
  };
  const auto soon = [] { return Call::WithTimeout(absl::Seconds(1)); };
  rig.Allocate("U1", {share("5e1e6a10-0000-4000-8000-000000000001", "6G")});
  rig.Allocate("U2", {share("5e1e6a10-0000-4000-8000-000000000002", "5G")});
  rig.Allocate("U3", {share("5e1e6a10-0000-4000-8000-000000000003", "4G")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  EXPECT_THAT(Text(rig.Prepare("U2", soon()).status()), HasSubstr("bandwidth"));
  const auto third = rig.Prepare("U3");
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ((*third)[0].share_id, "5e1e6a10-0000-4000-8000-000000000003");

  rig.catalog_.counter_sets =
      Json::parse(R"([{"name":"card","counters":{"memory":{"value":"40Gi"}}}])");
  const auto partition = [](const char* memory) {
    return Json{{"consumesCounters",
                 {{{"counterSet", "card"}, {"counters", {{"memory", {{"value", memory}}}}}}}}};
  };
  rig.catalog_.Put("mig0", {{"card", "mig"}}, partition("30Gi"));
  rig.catalog_.Put("mig1", {{"card", "mig"}}, partition("20Gi"));
  rig.catalog_.Put("full", {{"card", "whole"}});
  rig.Allocate("M0", {Result("mig0")});
  rig.Allocate("M1", {Result("mig1")});
  rig.Allocate("F", {Result("full")});
  ASSERT_TRUE(rig.Prepare("M0").ok());
  EXPECT_THAT(Text(rig.Prepare("M1", Call::WithTimeout(absl::Seconds(1))).status()),
              HasSubstr("memory"));
  EXPECT_THAT(Text(rig.Prepare("F", Call::WithTimeout(absl::Seconds(1))).status()),
              HasSubstr("\"mig\""));
}

TEST(Prepare, AnotherAllocationOfTheSameUidUndoesTheOldOneFirst) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.Allocate("U1", {Result("d1")});
  const auto answer = rig.Prepare("U1");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ((*answer)[0].device, "d1");
  EXPECT_EQ(rig.backend_.Order(), "prepare U1, unprepare U1, prepare U1");
  EXPECT_THAT(rig.manager_->HeldDevices(), ElementsAre(std::make_pair("n1", "d1")));
}

TEST(Prepare, ADeviceThatIsNotThereIsAnErrorOfThisClaim) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d99")});
  EXPECT_THAT(Text(rig.Prepare("U1").status()), HasSubstr("n1/d99"));
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
}

TEST(Prepare, ARecordedClaimIsAnsweredWithoutItsDeviceAndWithoutTheBackend) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  const auto first = rig.Prepare("U1");
  ASSERT_TRUE(first.ok());
  rig.catalog_.Erase("d0");
  rig.backend_.manifest_error = absl::FailedPreconditionError("not created");
  EXPECT_EQ(Bytes(rig.Prepare("U1")), Bytes(first));
}

TEST(Status, IsSubmittedMergedUpdatedAndWithdrawn) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.backend_.OnPrepare([&](const loader::PrepareArgs& args, const Call&) {
    EXPECT_TRUE(
        rig.manager_
            ->UpdateDevice("U1", "n1", "d0", "",
                           Json::parse(R"({"conditions":[{"type":"Ready","status":"False"}]})"))
            .ok());
    return FakeBackend::Plain(args);
  });
  ASSERT_TRUE(rig.Prepare("U1").ok());
  std::vector<Json> entries = rig.status_.Of("U1");
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0]["driver"], kDriver);
  EXPECT_EQ(entries[0]["pool"], "n1");
  EXPECT_EQ(entries[0]["device"], "d0");
  EXPECT_EQ(entries[0]["data"]["name"], "d0");
  EXPECT_EQ(entries[0]["conditions"][0]["status"], "False");
  ASSERT_TRUE(
      rig.manager_
          ->UpdateDevice(
              "U1", "n1", "d0", "",
              Json::parse(R"({"data":null,"conditions":[{"type":"Ready","status":"True"}]})"))
          .ok());
  entries = rig.status_.Of("U1");
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_FALSE(entries[0].contains("data"));
  EXPECT_EQ(entries[0]["conditions"].size(), 1u);
  EXPECT_EQ(entries[0]["conditions"][0]["status"], "True");
  EXPECT_TRUE(entries[0]["conditions"][0].contains("lastTransitionTime"));
  EXPECT_FALSE(rig.manager_->UpdateDevice("U1", "n1", "d9", "", Json::object()).ok());
  EXPECT_FALSE(rig.manager_->UpdateDevice("U9", "n1", "d0", "", Json::object()).ok());
  rig.Boot();
  rig.manager_->Restore({});
  EXPECT_EQ(rig.status_.Of("U1").size(), 1u);
  ASSERT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_THAT(rig.status_.Of("U1"), IsEmpty());
}

TEST(Metrics, CountCallsAndClaimsByPhase) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  EXPECT_EQ(rig.metrics_.Value("dra_claim_operations_total",
                               {{"driver", kDriver}, {"operation", "prepare"}, {"code", "OK"}}),
            1);
  EXPECT_EQ(rig.metrics_.Value("dra_claims", {{"driver", kDriver}, {"phase", "prepared"}}), 1);
  ASSERT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_EQ(rig.metrics_.Value("dra_claims", {{"driver", kDriver}, {"phase", "prepared"}}), 0);
}

TEST(HostFunctions, ServeARunningHookOnly) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.Allocate("U4", {Result("d0", "r0", {{"adminAccess", true}})});
  ASSERT_TRUE(rig.Prepare("U4").ok());
  std::string directory;
  std::string file;
  rig.backend_.OnPrepare([&](const loader::PrepareArgs& args, const Call&) {
    directory = rig.manager_->ClaimDirectory("U1").value_or("");
    file = rig.manager_->SharedFile("U1", "#!/bin/sh\n").value_or("");
    const auto held = rig.manager_->Held("U1", "n1", "d0");
    EXPECT_TRUE(held.ok() && held->size() == 1 && (*held)[0].claim_uid == "U4" &&
                (*held)[0].admin_access);
    return FakeBackend::Plain(args);
  });
  ASSERT_TRUE(rig.Prepare("U1").ok());
  EXPECT_TRUE(rig.posix_.Stat(directory, false).ok());
  EXPECT_EQ(*rig.posix_.ReadFile(file, 100), "#!/bin/sh\n");
  EXPECT_FALSE(rig.manager_->SaveUndo("U1", "late").ok());
  EXPECT_FALSE(rig.manager_->ClaimDirectory("U1").ok());
  ASSERT_TRUE(rig.manager_->NotePut("serial-d0", "mode", "x").ok());
  EXPECT_EQ(*rig.manager_->NoteGet("serial-d0", "mode"), "x");
  rig.Boot();
  ASSERT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_FALSE(rig.posix_.Stat(directory, false).ok());
  EXPECT_FALSE(rig.posix_.Stat(file, false).ok());
  EXPECT_EQ(*rig.manager_->NoteGet("serial-d0", "mode"), "x");
}

}  // namespace
}  // namespace dra::claims
