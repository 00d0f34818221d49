#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "test/crash/crash_node.h"

namespace dra::crash {
namespace {

std::string Undo(const char* event, const char* undo) {
  return absl::StrCat(R"({"event":")", event, R"(","claim":"A","undo":")", undo, "\"}\n");
}

std::string Begin(const char* hook, const char* undo) {
  return absl::StrCat(R"({"event":"begin","hook":")", hook, R"(","claim":"A","undo":")", undo,
                      R"(","devices":["d0"]})", "\n");
}

TEST(HookCheck, ExpectsTheUndoDataThatWasSavedLast) {
  const std::string saved =
      absl::StrCat(Begin("prepare", ""), Undo(kSaving, "x"), Undo(kSaved, "x"));
  EXPECT_EQ(FindHookViolation(saved + Begin("prepare", "x") + Begin("unprepare", "x")), "");
  for (const char* hook : {"prepare", "unprepare", "reconcile_record"}) {
    for (const char* wrong : {"", "y"})
      EXPECT_TRUE(absl::StrContains(FindHookViolation(saved + Begin(hook, wrong)), "undo data"));
  }
}

TEST(HookCheck, TakesEitherAfterASaveThatWasCutShort) {
  const std::string saving = absl::StrCat(Begin("prepare", ""), Undo(kSaving, "x"));
  EXPECT_EQ(FindHookViolation(saving + Begin("unprepare", "")), "");
  EXPECT_EQ(FindHookViolation(saving + Begin("unprepare", "x")), "");
  // Once one is seen, it stays.
  EXPECT_NE(FindHookViolation(saving + Begin("unprepare", "x") + Begin("unprepare", "")), "");
}

}  // namespace
}  // namespace dra::crash
