#include "driver/kubelet_checkpoint.h"

#include <gtest/gtest.h>

#include "dra/base/json.h"
#include "dra/testing/temp_directory.h"
#include "nlohmann/json.hpp"

namespace dra::driver {
namespace {

constexpr char kDriver[] = "gpu.sdk.test";

Json Entry(const std::string& uid, const std::string& driver) {
  return {{"ClaimUID", uid},
          {"ClaimName", "c-" + uid},
          {"Namespace", "ns1"},
          {"PodUIDs", {{"P1", Json::object()}}},
          {"DriverState",
           {{driver,
             {{"Devices",
               {{{"PoolName", "n1"}, {"DeviceName", "d0"}, {"CDIDeviceIDs", {"v/c=d"}}}}}}}}}};
}

std::string Checkpoint(const Json& entries,
                       const std::string& version = "checkpoint.dra.kubelet.k8s.io/v1") {
  const Json data = {
      {"kind", "DRACheckpoint"}, {"apiVersion", version}, {"ClaimInfoStateList", entries}};
  return DumpJson({{"Data", DumpJson(data)}, {"Checksum", 123}});
}

TEST(KubeletCheckpoint, TellsTheClaimsOfOurDriver) {
  Json without = Entry("U3", kDriver);
  without.erase("DriverState");
  const auto claims = ParseKubeletCheckpoint(
      Checkpoint({Entry("U1", kDriver), Entry("U2", "other.sdk.test"), without}), kDriver);
  ASSERT_TRUE(claims.ok()) << claims.status();
  ASSERT_EQ(claims->size(), 2u);
  EXPECT_EQ((*claims)[0].uid, "U1");
  EXPECT_EQ((*claims)[0].name, "c-U1");
  EXPECT_EQ((*claims)[0].namespace_name, "ns1");
  EXPECT_EQ((*claims)[1].uid, "U3") << "whose it is is not said";
  EXPECT_TRUE(ParseKubeletCheckpoint(Checkpoint(nullptr), kDriver)->empty());
}

TEST(KubeletCheckpoint, WhatIsNotUnderstoodIsAnErrorAndNeverAnEmptyList) {
  Json nameless = Entry("U1", kDriver);
  nameless["ClaimName"] = "";
  const std::pair<const char*, std::string> cases[] = {
      {"empty", ""},
      {"cut short", Checkpoint(Json::array({Entry("U1", kDriver)})).substr(0, 40)},
      {"no Data", R"({"Checksum":1})"},
      {"Data is an object", R"({"Data":{}})"},
      {"Data is no JSON", R"({"Data":"{"})"},
      {"list is an object", Checkpoint(Json::object())},
      {"an entry without a name", Checkpoint(Json::array({nameless}))},
      {"an entry that is none", Checkpoint(Json::array({1}))},
      {"another version", Checkpoint(Json::array(), "checkpoint.dra.kubelet.k8s.io/v9")},
  };
  for (const auto& [name, text] : cases) {
    SCOPED_TRACE(name);
    EXPECT_FALSE(ParseKubeletCheckpoint(text, kDriver).ok());
  }
}

TEST(KubeletCheckpoint, AnAbsentFileIsUnknown) {
  testing::TempDirectory directory;
  PosixFileSystem fs;
  KubeletCheckpoint state(&fs, directory.path(), kDriver);
  EXPECT_TRUE(absl::IsNotFound(state.PreparedClaims().status()));
  ASSERT_TRUE(WriteFileAtomically(fs, directory.Path("dra_manager_state"),
                                  Checkpoint(Json::array({Entry("U1", kDriver)})), 0600,
                                  Durability::kVolatile)
                  .ok());
  const auto claims = state.PreparedClaims();
  ASSERT_TRUE(claims.ok()) << claims.status();
  EXPECT_EQ(claims->size(), 1u);
}

}  // namespace
}  // namespace dra::driver
