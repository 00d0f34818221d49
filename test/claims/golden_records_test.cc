#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/claims/claims_rig.h"

// test/records/golden/1.0-<phase>.json: records of release 1.0 as it wrote them, never to be changed. Every later release
// reads them and goes on from them.
namespace dra::claims {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kUndo[] = "golden undo";

struct Golden {
  const char* phase;
  const char* hooks;  // of a Prepare of the same allocation
};

// Ckp04: files kept from each release, not from this one's encoder.
class GoldenRecord : public ::testing::TestWithParam<Golden> {
 protected:
  GoldenRecord() {
    rig_.manager_.reset();
    const bool marked = std::string(GetParam().phase) == "unpreparing";
    const auto golden = rig_.posix_.ReadFile(
        absl::StrCat(DRA_SOURCE_DIR, "/test/records/golden/1.0-", GetParam().phase,
                     marked ? ".unpreparing.json" : ".json"));
    EXPECT_TRUE(golden.ok()) << golden.status();
    text_ = golden.value_or("");
    EXPECT_TRUE(WriteFileAtomically(rig_.posix_,
                                    marked ? rig_.UnpreparingPath("u1") : rig_.RecordPath("u1"),
                                    text_, 0600, Durability::kVolatile)
                    .ok());
    rig_.backend_.manifest.name = "fake";
    rig_.backend_.manifest.version = "1.0.0";
    rig_.Allocate("u1", {Result("d0")}, Json::parse(R"([{"source":"FromClaim","requests":[],
                  "opaque":{"driver":"gpu.sdk.test","parameters":{"mode":"x"}}}])"));
    rig_.Boot();
    EXPECT_TRUE(rig_.start_error_.ok()) << rig_.start_error_;
  }
  ClaimsRig rig_;
  std::string text_;
};
using Ckp04 = GoldenRecord;

TEST_P(Ckp04, IsReadHeldAndUndone) {
  EXPECT_EQ(rig_.Phase("u1"), GetParam().phase);
  EXPECT_THAT(rig_.manager_->HeldDevices(), SizeIs(1));
  ASSERT_EQ(rig_.manager_->Claims().size(), 1u);
  EXPECT_EQ(rig_.manager_->Claims()[0].claim.name, "claim-u1");
  ASSERT_TRUE(rig_.Unprepare("u1").ok());
  EXPECT_EQ(rig_.backend_.LastUnprepare().undo, kUndo);
  ASSERT_EQ(rig_.backend_.LastUnprepare().devices.size(), 1u);
  EXPECT_EQ(rig_.backend_.LastUnprepare().devices[0].identity, "serial-d0");
  EXPECT_THAT(rig_.Leftovers(), IsEmpty());
}

TEST_P(Ckp04, IsGoneOnFromByAPrepare) {
  const auto answer = rig_.Prepare("u1");
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->size(), 1u);
  EXPECT_EQ((*answer)[0].device, "d0");
  EXPECT_TRUE(rig_.cdi_.Has("u1"));
  EXPECT_EQ(rig_.backend_.Order(), GetParam().hooks);
  if (std::string(GetParam().phase) == "preparing") {
    EXPECT_EQ(rig_.backend_.LastPrepare().saved_undo, kUndo);
  }
  if (std::string(GetParam().phase) == "prepared") {
    EXPECT_EQ(*rig_.posix_.ReadFile(rig_.RecordPath("u1")), text_) << "written only for a change";
  }
  ASSERT_TRUE(rig_.Unprepare("u1").ok());
  EXPECT_THAT(rig_.Leftovers(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Release1, Ckp04,
                         ::testing::Values(Golden{"preparing", "prepare u1"},
                                           Golden{"prepared", ""},
                                           Golden{"unpreparing", "unprepare u1, prepare u1"},
                                           Golden{"dirty", "unprepare u1, prepare u1"}),
                         [](const auto& tested) { return std::string(tested.param.phase); });

}  // namespace
}  // namespace dra::claims
