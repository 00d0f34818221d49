// 10,000 watch events at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "test/fault/fault_fixture.h"

namespace dra::driver {
namespace {

// Resident memory of this process.
int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  statm >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

testing::RequestMatcher Match(const std::string& verb, const std::string& resource) {
  testing::RequestMatcher matcher;
  matcher.verb = verb;
  matcher.resource = resource;
  return matcher;
}

class Burst : public FaultFixture {};

constexpr int kEvents = 10000;

// Stores the slice so many times, each time a little different.
Json Touch(testing::ObjectStore& store, Json slice) {
  for (int i = 0; i < kEvents; ++i) {
    slice["metadata"]["annotations"]["touched"] = absl::StrCat(i);
    slice = store.Put(std::move(slice));
  }
  return slice;
}

TEST_F(Burst, TenThousandEventsOfOurOwnSlicesCostNoWriteAndNoMemory) {
  StartFaultyNode({{"numDevices", 1}});
  ASSERT_TRUE(api_->store().WaitForWatches(1));
  // What the history of a store costs, without a driver.
  testing::ObjectStore alone;
  int64_t before = ResidentBytes();
  Touch(alone, Slices().at(0));
  const int64_t history = ResidentBytes() - before;

  api_->traffic().ResetLog();
  before = ResidentBytes();
  const Json slice = Touch(api_->store(), Slices().at(0));
  // The last event is one that needs an answer: when it comes, the others have been read.
  const std::string name = StringOr(slice["metadata"], "name");
  ASSERT_TRUE(api_->store().Erase(kube::ResourceSlices(), "", name));
  EXPECT_TRUE(WaitForDevices([](const auto& devices) { return devices.size() == 1; }));
  int writes = 0;
  for (const char* verb : {"create", "update", "patch", "delete"}) {
    testing::RequestMatcher wet = Match(verb, "resourceslices");
    wet.include_dry_run = false;
    writes += api_->traffic().Count(wet);
  }
  EXPECT_LE(writes, 3);
  EXPECT_LE(api_->traffic().Count(Match("list", "resourceslices")), 5);
  EXPECT_LE(ResidentBytes() - before, history + (int64_t{48} << 20));
  const auto claim = MakeClaim("c1", {"gpu-0"});
  EXPECT_EQ(ErrorOf(Prepare(claim)), "");
  EXPECT_EQ(ErrorOf(Unprepare(claim)), "");
}

}  // namespace
}  // namespace dra::driver
