// Two instances of a driver: one publishes, the other watches.
#include <thread>

#include "absl/synchronization/notification.h"
#include "dra/publisher/publisher.h"
#include "gmock/gmock.h"
#include "publisher/completeness.h"
#include "test/publisher/fixture.h"

namespace dra::publisher {
namespace {

using testing::ApiFault;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class PublisherTurn : public PublisherTest {
 protected:
  // Another instance's publisher, in the same process.
  std::unique_ptr<Publisher> MakeOther() {
    auto other = Publisher::Create(MakeOptions(), &api_, &clock_, nullptr, &metrics_, Logger(),
                                   [this](const loader::ServerFields& fields) {
                                     absl::MutexLock lock(&mutex_);
                                     other_fields_.push_back(fields);
                                   });
    other->SetWriting(false);
    other->Start();
    return other;
  }
  static bool Published(const Publisher& publisher, bool published = true) {
    return WaitUntil([&] { return publisher.GetState().published == published; });
  }

  std::vector<loader::ServerFields> other_fields_ ABSL_GUARDED_BY(mutex_);
};

std::vector<Json> Many(int count, int value = 0) {
  std::vector<Json> devices;
  for (int i = 0; i < count; ++i) devices.push_back(PlainDevice("d" + std::to_string(i), value));
  return devices;
}

TEST_F(PublisherTurn, WithoutItNothingIsWrittenAndTheServerIsStillAsked) {
  const auto other = MakeOther();
  other->SetInventory(SnapshotOf({PlainDevice("d0")}));
  ASSERT_TRUE(WaitUntil([&] {
    absl::MutexLock lock(&mutex_);
    return !other_fields_.empty();
  }));
  EXPECT_EQ(other_fields_.front().counters, loader::FieldSupport::kKept);
  EXPECT_EQ(Writes(), 0);
  EXPECT_FALSE(other->GetState().published);
  other->SetWriting(true);
  ASSERT_TRUE(Published(*other));
  EXPECT_EQ(Writes(), 1);
}

TEST_F(PublisherTurn, ACompletePoolOfAnotherInstanceCountsAsPublished) {
  const auto other = MakeOther();
  other->SetInventory(SnapshotOf({PlainDevice("d0", 7)}));
  Start();
  Publish(SnapshotOf({PlainDevice("d0")}));
  ASSERT_TRUE(Published(*other));
  EXPECT_EQ(OnlySpec()["devices"][0]["attributes"]["value"]["int"], 0);
  // A slice that somebody deletes is not this one's to restore.
  publisher_->Stop();
  api_.store().Erase(kube::ResourceSlices(), "", Slices()[0]["metadata"]["name"]);
  ASSERT_TRUE(Published(*other, false));
  EXPECT_TRUE(Slices().empty());
}

TEST_F(PublisherTurn, TheSameInventoryIsTakenOverWithoutAWrite) {
  std::vector<Json> devices = Many(150);
  devices[3] = Tainted("d3");
  const auto other = MakeOther();
  other->SetInventory(SnapshotOf(devices));
  Start();
  Publish(SnapshotOf(devices));
  const std::vector<Json> before = Slices();
  const int writes = Writes();
  for (int i = 0; i < 3; ++i) {
    publisher_->SetWriting(false);
    other->SetWriting(true);
    ASSERT_TRUE(Published(*other));
    other->SetWriting(false);
    publisher_->SetWriting(true);
    ASSERT_TRUE(Published(*publisher_));
  }
  EXPECT_EQ(Writes(), writes);
  EXPECT_EQ(Slices(), before);
}

TEST_F(PublisherTurn, AnotherInventoryIsWrittenOnceByTheNewOwner) {
  const auto other = MakeOther();
  other->SetInventory(SnapshotOf({PlainDevice("d0"), PlainDevice("new")}));
  Start();
  Publish(SnapshotOf({PlainDevice("d0"), PlainDevice("old")}));
  const int before = Writes();
  publisher_->SetWriting(false);
  other->SetWriting(true);
  ASSERT_TRUE(Published(*other));
  EXPECT_EQ(Writes(), before + 1);
  EXPECT_THAT(PublishedDevices(), UnorderedElementsAre("d0", "new"));
  // The older one sees the other inventory and leaves it.
  publisher_->Resync();
  ASSERT_TRUE(Published(*publisher_));
  EXPECT_EQ(Writes(), before + 1);
}

TEST_F(PublisherTurn, EndsOnlyWithTheWriteThatIsUnderWay) {
  ApiFault slow;
  slow.match = Stored("create");
  slow.kind = ApiFault::Kind::kDelay;
  slow.delay = absl::Milliseconds(300);
  api_.traffic().Inject(slow);
  Start();
  publisher_->SetInventory(SnapshotOf({PlainDevice("d0")}));
  ASSERT_TRUE(WaitUntil([&] { return api_.traffic().Count(Stored("create")) == 1; }));
  publisher_->SetWriting(false);
  const int writes = Writes();
  EXPECT_EQ(Slices().size(), 1u) << "the write that was sent is in the store";
  publisher_->SetInventory(SnapshotOf({PlainDevice("d1")}));
  publisher_->Resync();
  ASSERT_TRUE(Published(*publisher_));
  EXPECT_EQ(Writes(), writes);
  EXPECT_THAT(PublishedDevices(), ElementsAre("d0"));
}

// The watch of the newcomer hangs; what the other wrote last is known to it only by a list.
TEST_F(PublisherTurn, ANewOwnerListsBeforeItsFirstWrite) {
  const auto other = MakeOther();
  other->SetInventory(SnapshotOf({PlainDevice("d0")}));
  ASSERT_TRUE(WaitUntil([&] {
    absl::MutexLock lock(&mutex_);
    return !other_fields_.empty();
  }));
  ApiFault deaf;
  deaf.match = On("watch");
  deaf.kind = ApiFault::Kind::kBlackHole;
  deaf.times = 1;
  api_.traffic().Inject(deaf);
  api_.store().CutWatches();
  ASSERT_TRUE(WaitUntil([&] { return api_.traffic().Count(On("watch")) == 2; }));
  Start();
  publisher_->SetInventory(SnapshotOf({PlainDevice("d0")}));
  ASSERT_TRUE(Published(*publisher_));
  publisher_->SetWriting(false);
  other->SetWriting(true);
  ASSERT_TRUE(Published(*other));
  EXPECT_EQ(Slices().size(), 1u);
  EXPECT_EQ(api_.traffic().Count(Stored("create")), 1);
  api_.traffic().ClearFaults();
}

TEST_F(PublisherTurn, AWithdrawnNodeIsPublishedWhenNothingIsStored) {
  const auto other = MakeOther();
  other->SetWithdrawn(true);
  ASSERT_TRUE(Published(*other));
  Start();
  Publish(SnapshotOf({PlainDevice("d0")}));
  EXPECT_TRUE(Published(*other, false));
}

Json Slice(const std::string& pool, int generation, int count, const std::vector<Json>& devices) {
  return {{"metadata", {{"name", pool}}},
          {"spec",
           {{"pool", {{"name", pool}, {"generation", generation}, {"resourceSliceCount", count}}},
            {"devices", devices}}}};
}

TEST(Slc06Completeness, CompleteIsAsManySlicesOfTheNewestGenerationAsTheySay) {
  const Json a = Slice("n1", 2, 2, {PlainDevice("d0")});
  const Json b = Slice("n1", 2, 2, {PlainDevice("d1")});
  const Json old = Slice("n1", 1, 1, {PlainDevice("d0")});
  EXPECT_TRUE(AreComplete({a, b}, {"n1"}));
  EXPECT_TRUE(AreComplete({a, old, b}, {"n1"})) << "an older generation does not count";
  EXPECT_FALSE(AreComplete({a}, {"n1"}));
  EXPECT_FALSE(AreComplete({a, b, Slice("n1", 2, 2, {})}, {"n1"}));
  EXPECT_FALSE(AreComplete({a, b}, {"n1", "n1/other"}));
  EXPECT_FALSE(AreComplete({a, a}, {"n1"})) << "no device twice";
  EXPECT_FALSE(AreComplete({Slice("n1", 1, 0, {})}, {"n1"})) << "a count of 0";
  EXPECT_FALSE(AreComplete({a, b, Slice("n1/other", 1, 2, {})}, {"n1"}));
}

}  // namespace
}  // namespace dra::publisher
