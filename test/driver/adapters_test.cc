#include "driver/adapters.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dra::driver {
namespace {

using ::testing::_;
using ::testing::Return;

class MockClaims : public claims::ClaimManager {
 public:
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  MOCK_METHOD(void, Prepare, (const loader::ClaimIdentity&, const Call&, PrepareDone), (override));
  MOCK_METHOD(void, Unprepare, (const loader::ClaimIdentity&, const Call&, UnprepareDone),
              (override));
  MOCK_METHOD(void, Restore, (const Call&), (override));
  MOCK_METHOD(absl::Status, Reconcile, (const Call&), (override));
  MOCK_METHOD(int, PrepareAgain, (const Call&), (override));
  MOCK_METHOD(claims::OrphanReport, CollectOrphans, (const Call&), (override));
  MOCK_METHOD(std::vector<claims::ClaimSummary>, Claims, (), (const, override));
  MOCK_METHOD(Pairs, HeldDevices, (), (const, override));
  MOCK_METHOD(std::vector<std::string>, HeldIdentities, (), (const, override));
  MOCK_METHOD(absl::Status, SaveUndo, (absl::string_view, absl::string_view), (override));
  MOCK_METHOD(absl::Status, UpdateDevice,
              (absl::string_view, absl::string_view, absl::string_view, absl::string_view,
               const Json&),
              (override));
  MOCK_METHOD(absl::StatusOr<std::string>, NoteGet, (absl::string_view, absl::string_view),
              (override));
  MOCK_METHOD(absl::Status, NotePut, (absl::string_view, absl::string_view, absl::string_view),
              (override));
  MOCK_METHOD(absl::StatusOr<std::vector<loader::OtherClaim>>, Held,
              (absl::string_view, absl::string_view, absl::string_view), (override));
  MOCK_METHOD(absl::StatusOr<std::string>, ClaimDirectory, (absl::string_view), (override));
  MOCK_METHOD(absl::StatusOr<std::string>, SharedFile, (absl::string_view, absl::string_view),
              (override));
  MOCK_METHOD(void, Shutdown, (absl::Duration), (override));
};

auto Is(const char* text) { return ::testing::Eq(absl::string_view(text)); }

// A backend knows the suffix of a pool's name (abi.h), records and allocations have the whole name.
TEST(HostAdapter, APoolsSuffixBecomesItsName) {
  const auto claims = std::make_shared<MockClaims>();
  HostAdapter host(Logger(), "node-1");
  host.Connect(claims, nullptr);
  EXPECT_CALL(*claims, UpdateDevice(Is("uid"), Is("node-1"), Is("d0"), Is("share"), _))
      .WillOnce(Return(absl::OkStatus()));
  EXPECT_CALL(*claims, UpdateDevice(Is("uid"), Is("node-1/fast"), Is("d0"), Is(""), _))
      .WillOnce(Return(absl::OkStatus()));
  EXPECT_CALL(*claims, Held(Is("uid"), Is("node-1"), Is("d0")))
      .WillOnce(Return(std::vector<loader::OtherClaim>()));
  EXPECT_CALL(*claims, Held(Is("uid"), Is("node-1/fast"), Is("d1")))
      .WillOnce(Return(std::vector<loader::OtherClaim>()));
  EXPECT_TRUE(host.UpdateDevice("uid", "", "d0", "share", Json::object()).ok());
  EXPECT_TRUE(host.UpdateDevice("uid", "fast", "d0", "", Json::object()).ok());
  EXPECT_TRUE(host.Held("uid", "", "d0").ok());
  EXPECT_TRUE(host.Held("uid", "fast", "d1").ok());
}

}  // namespace
}  // namespace dra::driver
