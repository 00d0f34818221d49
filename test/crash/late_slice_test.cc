// The owner of publishing dies while the API server has its request and has not acted on it: the server does so when the
// successor has published already.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "test/crash/crash_node.h"

namespace dra::crash {
namespace {

class LateSlice : public ::testing::Test {
 protected:
  // Starts an owner whose first request of this verb reaches the server and hangs there, and kills it. Gives the
  // request.
  testing::RequestRecord DieWaitingFor(const std::string& verb) {
    testing::ApiFault fault;
    fault.kind = testing::ApiFault::Kind::kBlackHole;
    fault.match.verb = verb;
    fault.match.resource = "resourceslices";
    fault.match.include_dry_run = false;
    node_.api().traffic().Inject(fault);
    const std::unique_ptr<Child> owner = node_.StartChild();
    EXPECT_NE(owner, nullptr);
    (void)WaitFor([&] { return owner == nullptr || node_.api().traffic().Count(fault.match) > 0; });
    const std::vector<testing::RequestRecord> sent = node_.api().traffic().Requests(fault.match);
    EXPECT_EQ(sent.size(), 1u) << node_.LogTail();
    if (owner != nullptr) owner->Kill();
    node_.api().traffic().ClearFaults();
    return sent.empty() ? testing::RequestRecord() : sent[0];
  }

  // The publisher hears of the slice by its watch; its next sync is at most some seconds after that.
  std::string WaitForSlices() {
    const absl::Time limit = absl::Now() + absl::Seconds(10);
    std::string wrong = node_.CheckSlices();
    while (!wrong.empty() && absl::Now() < limit) {
      absl::SleepFor(absl::Milliseconds(5));
      wrong = node_.CheckSlices();
    }
    return wrong;
  }

  CrashNode node_{/*keeps_undo=*/true};
};

TEST_F(LateSlice, ACreateThatIsCarriedOutAfterTheSuccessorsIsTakenBack) {
  const testing::RequestRecord create = DieWaitingFor("create");
  ASSERT_TRUE(node_.api().store().All(kube::ResourceSlices()).empty());
  const std::unique_ptr<Child> successor = node_.StartChild();
  ASSERT_NE(successor, nullptr);
  ASSERT_TRUE(node_.WaitForReady(successor.get())) << node_.LogTail();

  const auto created = node_.api().store().Create(kube::ResourceSlices(), "", create.body);
  ASSERT_TRUE(created.ok()) << created.status();
  ASSERT_NE(node_.CheckSlices(), "") << "the devices are offered twice now";
  EXPECT_EQ(WaitForSlices(), "") << node_.LogTail();
  EXPECT_TRUE(node_.WaitForReady(successor.get())) << node_.Describe(successor.get());
}

TEST_F(LateSlice, AnUpdateThatIsCarriedOutAfterTheSuccessorsIsRefused) {
  std::unique_ptr<Child> first = node_.StartChild();
  ASSERT_NE(first, nullptr);
  ASSERT_TRUE(node_.WaitForReady(first.get())) << node_.LogTail();
  first->Kill();
  for (Json slice : node_.api().store().All(kube::ResourceSlices())) {
    slice["spec"]["devices"].erase(0);
    node_.api().store().Put(std::move(slice));
  }
  const testing::RequestRecord update = DieWaitingFor("update");
  const std::unique_ptr<Child> successor = node_.StartChild();
  ASSERT_NE(successor, nullptr);
  ASSERT_TRUE(node_.WaitForReady(successor.get())) << node_.LogTail();

  const auto updated =
      node_.api().store().Update(kube::ResourceSlices(), "", update.name, "", update.body);
  EXPECT_TRUE(absl::IsAborted(updated.status())) << updated.status();
  EXPECT_EQ(node_.CheckSlices(), "");
}

}  // namespace
}  // namespace dra::crash
