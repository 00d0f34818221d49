// What is recorded of a prepare hook that succeeded, and what one that overran can still write.

#include "absl/status/status.h"
#include "claims/prepare_steps.h"
#include "claims/running_hooks.h"
#include "dra/testing/temp_directory.h"
#include "gtest/gtest.h"

namespace dra::claims {
namespace {

using records::Phase;
using records::Record;

constexpr char kOld[] = "vendor 1.0.0";
constexpr char kNew[] = "vendor 2.0.0";

Record UndecidedDraft() {
  Record draft;
  draft.phase = Phase::kPreparing;
  draft.boot_id = "boot";
  draft.claim = {"default", "claim", "uid"};
  draft.backend = kOld;
  draft.last_error = "tried before";
  draft.devices.resize(1);
  draft.devices[0].result = {{"pool", "node1"}, {"device", "gpu-0"}};
  draft.devices[0].pool = "node1";
  draft.devices[0].device = "gpu-0";
  return draft;
}

loader::PrepareResult OneDeviceResult() {
  loader::PrepareResult result;
  result.devices.resize(1);
  result.devices[0].edits = {{"env", {"A=1"}}};
  return result;
}

TEST(PreparedRecord, WithoutUndoDataIsTheRunningBackends) {
  const Record record =
      PreparedRecord(UndecidedDraft(), OneDeviceResult(), kNew, absl::UnixEpoch());
  EXPECT_EQ(record.phase, Phase::kPrepared);
  EXPECT_EQ(record.backend, kNew);
  EXPECT_EQ(record.last_error, "");
  EXPECT_FALSE(record.has_undo);
  EXPECT_EQ(record.devices[0].edits, Json({{"env", {"A=1"}}}));
}

TEST(PreparedRecord, KeepsUndoDataThatTheHookDidNotGiveAnewAndWhoWroteIt) {
  Record draft = UndecidedDraft();
  draft.has_undo = true;  // and empty: a backend may save that
  const Record record = PreparedRecord(draft, OneDeviceResult(), kNew, absl::UnixEpoch());
  EXPECT_TRUE(record.has_undo);
  EXPECT_EQ(record.backend, kOld);

  loader::PrepareResult result = OneDeviceResult();
  result.has_undo = true;
  result.undo = "new";
  const Record replaced = PreparedRecord(draft, result, kNew, absl::UnixEpoch());
  EXPECT_EQ(replaced.undo, "new");
  EXPECT_EQ(replaced.backend, kNew);
}

TEST(RunningHook, ReportsOfAHookThatOverranReachNoRecord) {
  testing::TempDirectory directory;
  PosixFileSystem fs;
  SystemClock clock;
  records::RecordStore store(&fs, directory.path() + "/claims");
  ASSERT_TRUE(store.Open().ok());
  RunningHook hook(&store, &clock, UndecidedDraft(), kNew);
  ASSERT_TRUE(hook.SaveUndo("first").ok());
  const Record draft = hook.TakeDraft();
  EXPECT_EQ(draft.undo, "first");
  EXPECT_TRUE(hook.saved());

  EXPECT_TRUE(absl::IsFailedPrecondition(hook.SaveUndo("late")));
  EXPECT_TRUE(absl::IsFailedPrecondition(hook.UpdateDevice("node1", "gpu-0", "", Json::object())));
  const absl::StatusOr<Record> stored = store.Load("uid");
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(stored->undo, "first");
}

}  // namespace
}  // namespace dra::claims
