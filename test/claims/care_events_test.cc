#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dra/observe/events.h"
#include "dra/records/claim_files.h"
#include "dra/testing/fake_api_client.h"
#include "dra/testing/object_store.h"
#include "test/claims/claims_rig.h"

namespace dra::claims {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CareEvents : public ::testing::Test {
 protected:
  CareEvents()
      : events_(std::make_unique<observe::EventRecorder>(&api_, &rig_.clock_, &rig_.metrics_,
                                                         Logger(), "dra", "n1")) {
    rig_.events_ = events_.get();
    rig_.Boot();
    rig_.Allocate("u1", {Result("d0")});
    EXPECT_TRUE(rig_.Prepare("u1").ok());
  }
  // Ends the manager, and what it has said of claims.
  std::vector<std::string> Said() {
    rig_.manager_.reset();
    rig_.events_ = nullptr;
    events_.reset();  // writes what is queued
    std::vector<std::string> said;
    for (const Json& event : api_.store().All(kube::Events())) {
      said.push_back(
          absl::StrCat(StringOr(event, "reason"), " ", StringOr(event["regarding"], "name")));
    }
    return said;
  }

  ClaimsRig rig_;
  testing::FakeApiClient api_;
  std::unique_ptr<observe::EventRecorder> events_;
};

TEST_F(CareEvents, AnOrphanThatIsKeptIsSaidOnceAndNotWithEachPass) {
  rig_.claims_.Erase(Identity("u1"));
  rig_.backend_.SetBusy(loader::Busy::kBusy);
  rig_.manager_->CollectOrphans({});
  rig_.clock_.Advance(absl::Minutes(5));
  for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(rig_.manager_->CollectOrphans({}).kept, 1);
  EXPECT_THAT(Said(), ElementsAre("OrphanKept claim-u1"));
}

TEST_F(CareEvents, ALostDeviceIsSaidOnce) {
  rig_.backend_.OnReconcile([](const loader::ReconcileRecord&) {
    loader::ReconcileResult result;
    result.verdict = loader::ReconcileVerdict::kLost;
    return result;
  });
  EXPECT_TRUE(rig_.manager_->Reconcile({}).ok());
  EXPECT_TRUE(rig_.manager_->Reconcile({}).ok());
  EXPECT_THAT(Said(), ElementsAre("DeviceLost claim-u1"));
}

TEST_F(CareEvents, ALostRecordIsSaid) {
  rig_.manager_.reset();
  ASSERT_TRUE(rig_.posix_.Remove(rig_.RecordPath("u1")).ok());
  rig_.Boot();
  rig_.kubelet_.Set(std::vector<loader::ClaimIdentity>{Identity("u1")});
  rig_.manager_->Restore({});
  rig_.manager_->Restore({});
  EXPECT_THAT(Said(), ElementsAre("RecordLost claim-u1"));
}

// A helper that serves a shared device belongs to the device's claims together.
TEST(Cfg06, WhatSharesUseTogetherGoesWithTheLastOfThem) {
  ClaimsRig rig;
  int running = 0;
  int starts = 0;
  rig.catalog_.Put("s0", {{"card-s", "shared"}}, {{"allowMultipleAllocations", true}});
  rig.backend_.OnPrepare([&](const loader::PrepareArgs& args, const Call&) {
    EXPECT_TRUE(rig.manager_->SharedFile(args.claim.uid, "helper").ok());
    if (args.others.empty()) ++running, ++starts;
    return FakeBackend::Plain(args);
  });
  rig.backend_.OnUnprepare([&](const loader::UnprepareArgs& args, const Call&) {
    if (args.others.empty()) --running;
    return absl::OkStatus();
  });
  const auto share = [](const char* id) { return Result("s0", "r0", {{"shareID", id}}); };
  rig.Allocate("u1", {share("6f1c2a34-0d1b-4c58-8a53-1f1f3f0f9e77")});
  rig.Allocate("u2", {share("7f1c2a34-0d1b-4c58-8a53-1f1f3f0f9e77")});
  ASSERT_TRUE(rig.Prepare("u1").ok());
  ASSERT_TRUE(rig.Prepare("u2").ok());
  ASSERT_TRUE(rig.Unprepare("u1").ok());
  EXPECT_EQ(starts, 1);
  EXPECT_EQ(running, 1);
  const std::string helper = rig.directory_.Path(
      absl::StrCat("data/shared-files/", records::ClaimFiles::SharedName("helper"), "/file"));
  rig.manager_->Restore({});
  EXPECT_TRUE(rig.posix_.Stat(helper, false).ok());
  ASSERT_TRUE(rig.Unprepare("u2").ok());
  EXPECT_EQ(running, 0);
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
}

}  // namespace
}  // namespace dra::claims
