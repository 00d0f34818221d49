// The driver's instances as processes, on one node: rolling updates, kills, stops.
#include <fcntl.h>
#include <signal.h>

#include <thread>

#include "absl/strings/match.h"
#include "dra/base/unique_fd.h"
#include "gmock/gmock.h"
#include "test/handover/node.h"

namespace dra::handover {
namespace {

using ::testing::HasSubstr;

class TwoInstances : public NodeTest {};

TEST_F(TwoInstances, WhenTheOwnerIsKilledAnotherOfThreeWritesOn) {
  auto a = StartReady();
  ASSERT_TRUE(a->WaitForOwner());
  auto b = StartReady();
  ASSERT_TRUE(b->WaitForOwner());
  auto c = StartReady();
  ASSERT_TRUE(c->WaitForOwner());
  EXPECT_FALSE(a->IsOwner());
  EXPECT_FALSE(b->IsOwner());
  EXPECT_EQ(a->Status()["publication"]["otherInstances"], 2);
  EXPECT_EQ(SliceWrites(), 1) << "the same inventory is taken over without a write";
  c->Kill();
  ASSERT_TRUE(WaitUntil([&] { return a->IsOwner() || b->IsOwner(); }));
  EXPECT_TRUE(WaitUntil([&] { return kubelet_->KnownHealth(kDriver) == kDevices; }))
      << "the kubelet has forgotten them with c's stream and is told again";
  Control({{"cards", {{"gpu-3", {{"absent", true}}}}}});
  EXPECT_TRUE(WaitUntil([&] { return PublishedDevices() == kDevices - 1; }));
  EXPECT_NE(a->IsOwner(), b->IsOwner());
  EXPECT_EQ(SliceWrites(), 2);
}

TEST_F(TwoInstances, NobodyWritesBesideAStoppedOwner) {
  auto a = StartReady();
  ASSERT_TRUE(a->WaitForOwner());
  a->Signal(SIGSTOP);
  auto b = Start();
  ASSERT_TRUE(b->WaitForReady()) << "the pool is complete: " << b->Log();
  Control({{"cards", {{"gpu-3", {{"absent", true}}}}}});
  ASSERT_TRUE(WaitUntil([&] {
    const Json status = b->Status();
    return status.contains("inventory") &&
           status["inventory"]["pools"][0]["devices"].size() == kDevices - 1;
  }));
  ASSERT_TRUE(WaitUntil([&] {
    return absl::StrContains(b->Status().dump(), "its process is stopped or hangs");
  })) << b->Status().dump();
  EXPECT_EQ(PublishedDevices(), static_cast<size_t>(kDevices));
  EXPECT_EQ(SliceWrites(), 1);
  a->Signal(SIGCONT);
  ASSERT_TRUE(b->WaitForOwner());
  EXPECT_TRUE(WaitUntil([&] { return PublishedDevices() == kDevices - 1; }));
  EXPECT_FALSE(a->IsOwner());
  EXPECT_TRUE(WaitUntil([&] { return BoolOr(a->Status()["publication"], "published"); }));
  EXPECT_EQ(Slices().size(), 1u);
}

TEST_F(TwoInstances, AWholeFileLockOfAnotherProcessHoldsAPrepareUp) {
  auto a = StartReady();
  const std::string path =
      directory_.Path(std::string("kubelet/plugins/") + kDriver + "/serialize.lock");
  UniqueFd other(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  ASSERT_TRUE(WaitUntil([&] { return ::fcntl(other.get(), F_OFD_SETLK, &whole) == 0; }));
  const testing::KubeletClaim claim = MakeClaim("gpu-0", true);
  testing::KubeletReply reply;
  std::thread caller([&] { reply = kubelet_->PrepareResources(kDriver, {claim}); });
  testing::RequestMatcher gets;
  gets.verb = "get";
  gets.resource = "resourceclaims";
  EXPECT_TRUE(api_->traffic().WaitForCount(gets, 1, kPatience));
  const auto prepares = [this] {
    int begun = 0;
    for (const Json& event : Hooks()) begun += StringOr(event, "hook") == "prepare" ? 1 : 0;
    return begun;
  };
  EXPECT_EQ(prepares(), 0);
  EXPECT_TRUE(fs_.List(directory_.Path("cdi"))->empty());
  other.Reset();
  caller.join();
  EXPECT_TRUE(reply.verdict.ok()) << reply.verdict;
  EXPECT_GT(prepares(), 0);
}

}  // namespace
}  // namespace dra::handover
