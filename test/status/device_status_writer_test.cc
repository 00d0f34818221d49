#include "dra/status/device_status_writer.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dra/testing/fake_api_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "status/status_entries.h"

namespace dra::status {
namespace {

using testing::ApiFault;
using ::testing::HasSubstr;

constexpr char kDriver[] = "gpu.sdk.test";

bool WaitUntil(const std::function<bool()>& condition) {
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

Json Entry(const std::string& device, const char* driver = kDriver) {
  return {{"driver", driver},
          {"pool", "n1"},
          {"device", device},
          {"conditions",
           {{{"type", "Ready"}, {"status", "True"}, {"reason", "Prepared"}, {"message", ""}}}}};
}

testing::RequestMatcher Patches() {
  testing::RequestMatcher matcher;
  matcher.verb = "patch";
  matcher.resource = "resourceclaims";
  return matcher;
}

class StatusTest : public ::testing::Test {
 protected:
  StatusTest() { PutClaim("U1"); }

  // Claim ns1/c1 with d0 to d7 of ours and x0 of another driver, which has written its own status.
  void PutClaim(const std::string& uid) {
    Json results = Json::array();
    for (int i = 0; i < 8; ++i) {
      results.push_back({{"request", "r0"},
                         {"driver", kDriver},
                         {"pool", "n1"},
                         {"device", absl::StrCat("d", i)}});
    }
    results.push_back(
        {{"request", "r1"}, {"driver", "net.other"}, {"pool", "n1"}, {"device", "x0"}});
    api_.store().Put({{"apiVersion", "resource.k8s.io/v1"},
                      {"kind", "ResourceClaim"},
                      {"metadata", {{"name", "c1"}, {"namespace", "ns1"}, {"uid", uid}}},
                      {"spec", Json::object()},
                      {"status", {{"allocation", {{"devices", {{"results", results}}}}}}}});
  }
  void MakeWriter() { writer_ = DeviceStatusWriter::Create(&api_, &clock_, Logger(), kDriver); }
  bool Settled() {
    return WaitUntil([this] { return writer_->Pending() == 0; });
  }
  Json Devices() {
    const auto claim = api_.store().Find(kube::ResourceClaims(), "ns1", "c1");
    return claim.has_value() ? (*claim)["status"].value("devices", Json::array()) : Json();
  }
  int Applies() { return api_.traffic().Count(Patches()); }

  SystemClock clock_;
  testing::FakeApiClient api_;
  std::unique_ptr<DeviceStatusWriter> writer_;
  const ClaimKey claim_{"ns1", "c1", "U1"};
};

class Net03 : public StatusTest {};
class DeviceStatus : public StatusTest {};

TEST_F(Net03, OneApplyShowsAllEightDevicesAndLeavesTheOtherDriversEntry) {
  ASSERT_TRUE(
      api_.Apply(kube::ResourceClaims(), "ns1", "c1", "status", "net.other",
                 ApplyBody(claim_, NormalizeEntries({Entry("x0", "net.other")}, absl::Now())),
                 Call())
          .ok());
  MakeWriter();
  std::vector<Json> entries;
  for (int i = 0; i < 8; ++i) entries.push_back(Entry(absl::StrCat("d", i)));
  entries.push_back(Entry("d3"));
  writer_->Submit(claim_, entries);
  ASSERT_TRUE(Settled());
  EXPECT_EQ(Devices().size(), 9u);
  EXPECT_EQ(Applies(), 2) << "the other driver's and one of ours";
  writer_->Withdraw(claim_);
  ASSERT_TRUE(WaitUntil([this] { return Devices().size() == 1; }));
  EXPECT_EQ(Devices()[0]["driver"], "net.other");
}

TEST_F(DeviceStatus, IsCoalescedAndTheNewestWins) {
  MakeWriter();
  for (int i = 0; i < 50; ++i) {
    Json entry = Entry("d0");
    entry["data"] = {{"n", i}};
    writer_->Submit(claim_, {entry});
  }
  ASSERT_TRUE(Settled());
  EXPECT_LE(Applies(), 3);
  EXPECT_EQ(Devices()[0]["data"]["n"], 49);
  EXPECT_FALSE(Devices()[0]["conditions"][0]["lastTransitionTime"].get<std::string>().empty());
}

TEST_F(DeviceStatus, IsSentAgainUntilItIsStored) {
  ApiFault fault;
  fault.match = Patches();
  fault.code = 503;
  fault.times = 2;
  api_.traffic().Inject(fault);
  MakeWriter();
  writer_->Submit(claim_, {Entry("d0")});
  ASSERT_TRUE(Settled());
  EXPECT_EQ(Applies(), 3);
  EXPECT_EQ(Devices().size(), 1u);
}

TEST_F(DeviceStatus, EndsWhenTheClaimIsGone) {
  api_.store().Erase(kube::ResourceClaims(), "ns1", "c1");
  MakeWriter();
  writer_->Submit(claim_, {Entry("d0")});
  ASSERT_TRUE(Settled());
  EXPECT_EQ(Applies(), 1);
}

TEST_F(DeviceStatus, NeverTouchesAClaimOfTheSameNameWithAnotherUid) {
  PutClaim("U2");
  MakeWriter();
  writer_->Submit(claim_, {Entry("d0")});
  ASSERT_TRUE(Settled());
  EXPECT_EQ(Devices(), Json::array());
  EXPECT_EQ(Applies(), 1);
}

void Collect(void* context, absl::string_view line) {
  static absl::Mutex mutex(absl::kConstInit);
  absl::MutexLock lock(&mutex);
  static_cast<std::string*>(context)->append(line.data(), line.size());
}

TEST_F(DeviceStatus, EndsWithAHintWhenThePermissionIsMissing) {
  ApiFault fault;
  fault.match = Patches();
  fault.code = 422;
  fault.reason = "Invalid";
  fault.causes = {{"FieldValueForbidden", "status.devices", "Forbidden: may not"}};
  api_.traffic().Inject(fault);
  std::string log;
  writer_ = DeviceStatusWriter::Create(
      &api_, &clock_, Logger::ToFunction(LogLevel::kWarn, LogFormat::kText, Collect, &log),
      kDriver);
  writer_->Submit(claim_, {Entry("d0")});
  ASSERT_TRUE(Settled());
  writer_.reset();
  EXPECT_EQ(Applies(), 1);
  EXPECT_THAT(log, HasSubstr("resourceclaims/driver"));
}

TEST_F(DeviceStatus, WithdrawingWhatWasNeverSentWritesNothing) {
  MakeWriter();
  writer_->Withdraw(claim_);
  writer_->Submit(claim_, {Entry("d0")});
  writer_->Withdraw(claim_);
  ASSERT_TRUE(Settled());
  // Either the apply had not begun, or it was undone: nothing stays.
  ASSERT_TRUE(WaitUntil([this] { return Devices().empty(); }));
}

TEST_F(DeviceStatus, EndsAtOnceWhileTheServerIsSilent) {
  ApiFault fault;
  fault.kind = ApiFault::Kind::kBlackHole;
  fault.times = 0;
  api_.traffic().Inject(fault);
  MakeWriter();
  writer_->Submit(claim_, {Entry("d0")});
  ASSERT_TRUE(WaitUntil([this] { return Applies() == 1; }));
  EXPECT_EQ(writer_->Pending(), 1u);
  writer_.reset();
}

TEST(StatusEntries, KeepGivenTimesAndDropDoubles) {
  Json timed = Entry("d0");
  timed["conditions"][0]["lastTransitionTime"] = "2025-01-01T00:00:00Z";
  const auto entries =
      NormalizeEntries({Entry("d0"), Entry("d1"), timed}, absl::FromUnixSeconds(0));
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0]["conditions"][0]["lastTransitionTime"], "2025-01-01T00:00:00Z");
  EXPECT_EQ(entries[1]["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
}

}  // namespace
}  // namespace dra::status
