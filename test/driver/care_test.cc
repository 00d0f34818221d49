// What the daemon does with claims by itself: on real sockets, with the fake backend and the doubles.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "test/driver/node_fixture.h"

namespace dra::driver {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class Care : public NodeFixture {
 protected:
  // The whole node, with a look for orphans every few milliseconds.
  void StartCaringNode() {
    if (api_ == nullptr) StartApi();
    if (kubelet_ == nullptr) StartKubelet();
    DaemonConfig config = Config();
    config.drivers[0].orphan_check_interval = absl::Milliseconds(20);
    config.drivers[0].orphan_grace = absl::Milliseconds(1);
    StartDaemonWith(config);
    ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
    ASSERT_TRUE(WaitForReady(true)) << DumpJson(daemon_->Status());
  }
  testing::KubeletClaim Prepare(const std::string& device, const Json& config = Json::array()) {
    const auto claim = MakeClaim("c1", {device}, config);
    const testing::KubeletReply reply = kubelet_->PrepareResources(kDriver, {claim});
    EXPECT_TRUE(reply.verdict.ok()) << reply.verdict;
    return claim;
  }
  void Delete(const testing::KubeletClaim& claim) {
    EXPECT_TRUE(api_->store().Delete(kube::ResourceClaims(), "ns1", claim.name, {}).ok());
  }
  std::string Plugin(const std::string& path) const {
    return directory_.Path(absl::StrCat("kubelet/plugins/", kDriver, "/", path));
  }
  Json Card(const std::string& name) {
    const auto text = fs_.ReadFile(directory_.Path("state/hardware.json"));
    if (!text.ok()) return Json::object();
    const auto hardware = ParseJsonObject(*text, "hardware");
    return hardware.ok() ? (*hardware)["cards"][name] : Json::object();
  }
  static Json LongSlices() {
    return Json::array({Json{
        {"source", "FromClaim"},
        {"opaque",
         {{"driver", kDriver},
          {"parameters",
           {{"apiVersion", "gpu.resource.example.com/v1alpha1"},
            {"kind", "GpuConfig"},
            {"sharing",
             {{"strategy", "TimeSlicing"}, {"timeSlicingConfig", {{"interval", "Long"}}}}}}}}}}});
  }
};
using Ckp08 = Care;
using Net04 = Care;

TEST_F(Ckp08, TheDaemonReleasesAClaimThatIsGoneOnceItsDeviceIsIdle) {
  Control({{"busy", {{"gpu-1", "busy"}}}});
  StartCaringNode();
  const auto claim = Prepare("gpu-1");
  Delete(claim);
  ASSERT_TRUE(WaitUntil([&] { return HookCalls("busy") >= 2; }));
  EXPECT_THAT(Records(), SizeIs(1));
  EXPECT_EQ(HookCalls("unprepare"), 0);
  Control(Json::object());
  ASSERT_TRUE(WaitUntil([&] { return Records().empty(); }));
  EXPECT_THAT(CdiFiles(), IsEmpty());
  EXPECT_EQ(HookCalls("unprepare"), 1);
  // The kubelet comes late, and the device is free for the next claim.
  EXPECT_TRUE(kubelet_->UnprepareResources(kDriver, {claim}).verdict.ok());
  const auto next = MakeClaim("c2", {"gpu-1"});
  EXPECT_TRUE(kubelet_->PrepareResources(kDriver, {next}).verdict.ok());
}

TEST_F(Care, ADeviceThatIsLostToItsClaimIsUnhealthyForTheKubeletUntilTheClaimEnds) {
  StartNode();
  const auto claim = Prepare("gpu-1");
  ASSERT_TRUE(kubelet_->WaitForHealth(kDriver, kNode, "gpu-1", testing::KubeletHealth::kHealthy));
  StopDaemon();
  // Another card in the slot, which is well: neither discovery nor health has anything to say against it.
  Control({{"cards", {{"gpu-1", {{"replaced", 1}}}}}});
  for (const char* start : {"finds it", "reads it from the record"}) {
    SCOPED_TRACE(start);
    StartDaemon();
    EXPECT_TRUE(
        kubelet_->WaitForHealth(kDriver, kNode, "gpu-1", testing::KubeletHealth::kUnhealthy));
    if (std::string(start) == "finds it") StopDaemon();
  }
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  EXPECT_TRUE(kubelet_->UnprepareResources(kDriver, {claim}).verdict.ok());
  EXPECT_TRUE(kubelet_->WaitForHealth(kDriver, kNode, "gpu-1", testing::KubeletHealth::kHealthy));
}

TEST_F(Care, ADeviceThatWasLostAndIsPreparedAgainIsHealthy) {
  StartNode();
  const auto claim = Prepare("gpu-1");
  StopDaemon();
  Control({{"cards", {{"gpu-1", {{"absent", true}}}}}});
  StartDaemon();
  ASSERT_TRUE(kubelet_->WaitForHealth(kDriver, kNode, "gpu-1", testing::KubeletHealth::kUnhealthy));
  Control(Json::object());
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  EXPECT_TRUE(WaitUntil([&] { return kubelet_->PrepareResources(kDriver, {claim}).verdict.ok(); }));
  EXPECT_TRUE(kubelet_->WaitForHealth(kDriver, kNode, "gpu-1", testing::KubeletHealth::kHealthy));
  EXPECT_TRUE(kubelet_->UnprepareResources(kDriver, {claim}).verdict.ok());
}

TEST_F(Care, A404ThatIsNotAboutTheClaimReleasesNothing) {
  StartCaringNode();
  Prepare("gpu-1");
  testing::RequestMatcher reads;
  reads.verb = "get";
  reads.resource = "resourceclaims";
  testing::ApiFault fault;
  fault.match = reads;
  fault.times = 0;
  fault.code = 404;
  fault.kind = testing::ApiFault::Kind::kHtml;
  api_->traffic().Inject(fault);
  int before = api_->traffic().Count(reads);
  EXPECT_TRUE(api_->traffic().WaitForCount(reads, before + 4));
  api_->traffic().ClearFaults();
  fault.kind = testing::ApiFault::Kind::kStatus;
  fault.reason = "NotFound";
  fault.message = "the server could not find the requested resource";
  api_->traffic().Inject(fault);
  before = api_->traffic().Count(reads);
  EXPECT_TRUE(api_->traffic().WaitForCount(reads, before + 4));
  EXPECT_THAT(Records(), SizeIs(1));
  EXPECT_EQ(HookCalls("busy"), 0);
}

TEST_F(Care, HardwareThatLostItsSettingIsPreparedAgainForARunningPod) {
  StartNode();
  Prepare("gpu-1", LongSlices());
  StopDaemon();
  ASSERT_EQ(HookCalls("prepare"), 1);
  const int reconciled = HookCalls("reconcile_end");
  ASSERT_TRUE(fs_.Remove(directory_.Path("state/hardware.json")).ok());
  StartNode();
  ASSERT_TRUE(WaitUntil([&] { return HookCalls("prepare") == 2; }));
  ASSERT_TRUE(WaitUntil([&] { return CdiFiles().size() == 1; }));
  EXPECT_EQ(HookCalls("reconcile_end"), reconciled + 1);
  EXPECT_EQ(HookCalls("unprepare"), 0);
  EXPECT_EQ(Card("gpu-1")["sharing"]["interval"], "Long");
}

TEST_F(Net04, WhatNoRecordNamesGoesHomeAtStart) {
  StartNode();
  const auto claim = Prepare("gpu-1", LongSlices());
  StopDaemon();
  ASSERT_EQ(Card("gpu-1")["writes"], 1);
  ASSERT_TRUE(fs_.Remove(Plugin(absl::StrCat("claims/", claim.uid, ".json"))).ok());
  for (const std::string& file : CdiFiles()) {
    ASSERT_TRUE(fs_.Remove(directory_.Path("cdi/" + file)).ok());
  }
  StartNode();
  ASSERT_TRUE(WaitUntil([&] { return Card("gpu-1")["writes"] == 2; }));
  EXPECT_TRUE(kubelet_->UnprepareResources(kDriver, {claim}).verdict.ok());
}

TEST_F(Care, ALostRecordIsWrittenAnewByTheWordOfKubeletAndApi) {
  StartNode();
  const auto claim = Prepare("gpu-1");
  StopDaemon();
  ASSERT_TRUE(RemoveTree(fs_, Plugin("claims")).ok());
  ASSERT_TRUE(RemoveTree(fs_, Plugin("held")).ok());
  const Json data = {{"kind", "DRACheckpoint"},
                     {"apiVersion", "checkpoint.dra.kubelet.k8s.io/v1"},
                     {"ClaimInfoStateList",
                      {{{"ClaimUID", claim.uid},
                        {"ClaimName", claim.name},
                        {"Namespace", "ns1"},
                        {"DriverState", {{kDriver, Json::object()}}}}}}};
  ASSERT_TRUE(WriteFileAtomically(fs_, directory_.Path("kubelet/dra_manager_state"),
                                  DumpJson({{"Data", DumpJson(data)}, {"Checksum", 1}}), 0600,
                                  Durability::kVolatile)
                  .ok());
  StartNode();
  ASSERT_TRUE(WaitUntil([&] { return Records().size() == 1; }));
  const auto other = MakeClaim("c2", {"gpu-1"});
  EXPECT_THAT(CdiFiles(), SizeIs(1));
  EXPECT_TRUE(kubelet_->UnprepareResources(kDriver, {claim}).verdict.ok());
  EXPECT_THAT(Records(), IsEmpty());
  EXPECT_THAT(CdiFiles(), IsEmpty());
  EXPECT_TRUE(kubelet_->PrepareResources(kDriver, {other}).verdict.ok());
}

}  // namespace
}  // namespace dra::driver
