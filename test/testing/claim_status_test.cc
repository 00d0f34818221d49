#include "dra/testing/object_store.h"
#include "gtest/gtest.h"
#include "test/testing/test_objects.h"

namespace dra::testing {
namespace {

using kube::ResourceClaims;

class ClaimStatus : public ::testing::Test {
 protected:
  ClaimStatus() { claim_ = store_.Put(AllocatedClaim("c", {Result("gpu-0"), Result("gpu-1")})); }

  absl::StatusOr<Json> Apply(const std::string& manager, const Json& devices, bool force = true,
                             const std::string& uid = "") {
    return store_.Apply(ResourceClaims(), "default", "c", "status", manager, force,
                        StatusApply("c", devices, uid));
  }
  Json Devices() {
    return store_.Find(ResourceClaims(), "default", "c")
        ->at("status")
        .value("devices", Json::array());
  }

  ObjectStore store_;
  Json claim_;
};

Json WithData(Json entry, const std::string& text) {
  entry["data"] = {{"text", text}};
  return entry;
}

TEST_F(ClaimStatus, EachManagerOwnsItsEntries) {
  ASSERT_TRUE(Apply("one", Json::array({DeviceStatus("gpu-0")})).ok());
  ASSERT_TRUE(Apply("two", Json::array({DeviceStatus("gpu-1")})).ok());
  EXPECT_EQ(Devices().size(), 2u);
  ASSERT_TRUE(Apply("one", Json::array()).ok());
  EXPECT_EQ(Devices(), Json::array({DeviceStatus("gpu-1")}));
}

TEST_F(ClaimStatus, AnApplyDropsTheEntriesItNoLongerLists) {
  ASSERT_TRUE(Apply("one", Json::array({DeviceStatus("gpu-0"), DeviceStatus("gpu-1")})).ok());
  ASSERT_TRUE(Apply("one", Json::array({DeviceStatus("gpu-1")})).ok());
  EXPECT_EQ(Devices(), Json::array({DeviceStatus("gpu-1")}));
}

TEST_F(ClaimStatus, AnApplyReplacesItsOwnEntry) {
  ASSERT_TRUE(Apply("one", Json::array({WithData(DeviceStatus("gpu-0"), "a")})).ok());
  ASSERT_TRUE(Apply("one", Json::array({DeviceStatus("gpu-0")})).ok());
  EXPECT_EQ(Devices(), Json::array({DeviceStatus("gpu-0")}));
}

TEST_F(ClaimStatus, AnotherManagersEntryIsAConflictWithoutForce) {
  ASSERT_TRUE(Apply("one", Json::array({WithData(DeviceStatus("gpu-0"), "a")})).ok());
  const kube::ApiError error =
      ErrorOf(Apply("two", Json::array({WithData(DeviceStatus("gpu-0"), "b")}), false).status());
  EXPECT_EQ(error.http_code, 409);
  ASSERT_EQ(error.causes.size(), 1u);
  EXPECT_EQ(error.causes[0].reason, "FieldManagerConflict");
  ASSERT_TRUE(Apply("two", Json::array({WithData(DeviceStatus("gpu-0"), "b")}), true).ok());
  EXPECT_EQ(Devices()[0]["data"]["text"], "b");
}

TEST_F(ClaimStatus, TheSameApplyAgainIsNoWrite) {
  ASSERT_TRUE(Apply("one", Json::array({DeviceStatus("gpu-0")})).ok());
  const int64_t revision = store_.revision();
  ASSERT_TRUE(Apply("one", Json::array({DeviceStatus("gpu-0")})).ok());
  EXPECT_EQ(store_.revision(), revision);
}

TEST_F(ClaimStatus, AnotherUidInTheBodyIsAConflict) {
  const kube::ApiError error =
      ErrorOf(Apply("one", Json::array({DeviceStatus("gpu-0")}), true, "another-uid").status());
  EXPECT_EQ(error.http_code, 409);
  EXPECT_EQ(error.reason, "Conflict");
  EXPECT_TRUE(
      Apply("one", Json::array({DeviceStatus("gpu-0")}), true, claim_["metadata"]["uid"]).ok());
}

TEST_F(ClaimStatus, RefusesADeviceThatIsNotAllocated) {
  EXPECT_EQ(ErrorOf(Apply("one", Json::array({DeviceStatus("gpu-7")})).status()).http_code, 422);
}

TEST_F(ClaimStatus, RefusesDataOver10KiB) {
  EXPECT_EQ(
      ErrorOf(Apply("one", Json::array({WithData(DeviceStatus("gpu-0"), std::string(10241, 'x'))}))
                  .status())
          .http_code,
      422);
}

TEST_F(ClaimStatus, RefusesAnApplyWithoutManagerOrOfAMissingClaim) {
  EXPECT_EQ(ErrorOf(Apply("", Json::array({DeviceStatus("gpu-0")})).status()).http_code, 400);
  store_.Erase(ResourceClaims(), "default", "c");
  EXPECT_EQ(ErrorOf(Apply("one", Json::array({DeviceStatus("gpu-0")})).status()).http_code, 404);
}

TEST_F(ClaimStatus, EntriesGoWithTheAllocation) {
  ASSERT_TRUE(Apply("one", Json::array({DeviceStatus("gpu-0")})).ok());
  Json claim = *store_.Find(ResourceClaims(), "default", "c");
  claim["status"].erase("allocation");
  claim["status"].erase("reservedFor");
  ASSERT_TRUE(store_.Update(ResourceClaims(), "default", "c", "status", claim).ok());
  EXPECT_TRUE(Devices().empty());
}

TEST_F(ClaimStatus, AnAllocationIsOnlyClearedNeverChanged) {
  Json claim = claim_;
  claim["status"]["allocation"]["devices"]["results"][0]["device"] = "gpu-5";
  EXPECT_EQ(
      ErrorOf(store_.Update(ResourceClaims(), "default", "c", "status", claim).status()).http_code,
      422);
}

TEST_F(ClaimStatus, RefusesAReservationWithoutAllocation) {
  Json claim = claim_;
  claim["status"].erase("allocation");
  EXPECT_EQ(
      ErrorOf(store_.Update(ResourceClaims(), "default", "c", "status", claim).status()).http_code,
      422);
}

TEST_F(ClaimStatus, TheMainResourceDoesNotWriteStatusAndTheSpecIsImmutable) {
  Json claim = claim_;
  claim.erase("status");
  ASSERT_TRUE(store_.Update(ResourceClaims(), "default", "c", "", claim).ok());
  claim = *store_.Find(ResourceClaims(), "default", "c");
  EXPECT_TRUE(claim.contains("status"));
  claim["spec"]["devices"]["requests"][0]["name"] = "other";
  EXPECT_EQ(ErrorOf(store_.Update(ResourceClaims(), "default", "c", "", claim).status()).http_code,
            422);
}

TEST_F(ClaimStatus, ACreatedClaimHasNoStatusAndItsDefaults) {
  const absl::StatusOr<Json> created = store_.Create(
      ResourceClaims(), "default", AllocatedClaim("d", Json::array({Result("gpu-0")})));
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_FALSE(created->contains("status"));
  EXPECT_EQ((*created)["spec"]["devices"]["requests"][0]["exactly"]["count"], 1);
}

TEST_F(ClaimStatus, RefusesARequestWithoutClassAndTwoOfOneName) {
  Json claim = Claim("d");
  claim["spec"]["devices"]["requests"][0]["exactly"].erase("deviceClassName");
  EXPECT_EQ(ErrorOf(store_.Create(ResourceClaims(), "default", claim).status()).http_code, 422);
  claim = Claim("d");
  claim["spec"]["devices"]["requests"].push_back(claim["spec"]["devices"]["requests"][0]);
  EXPECT_EQ(ErrorOf(store_.Create(ResourceClaims(), "default", claim).status()).http_code, 422);
}

}  // namespace
}  // namespace dra::testing
