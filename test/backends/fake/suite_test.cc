// The conformance suite itself: it finds what is wrong with a backend.

#include "test/conformance/suite.h"

#include "test/backends/fake/fixture.h"

namespace dra {
namespace {

using ::testing::HasSubstr;

std::string ReportFor(const Json& inventory) {
  FakeBackendFixture fake;  // for its directory
  fake.Write("inventory.json", inventory.dump());
  conformance::Options options;
  options.library = FAKE_BACKEND;
  options.config_json = Json({{"inventoryFile", fake.Path("inventory.json")}}).dump();
  options.scratch_directory = fake.Path("");
  return conformance::Report(conformance::RunSuite(options));
}

Json Entry(const Json& device, const std::string& identity = "") {
  Json entry = {{"device", device}, {"edits", {{"env", Json::array({"A=b"})}}}};
  if (!identity.empty()) entry["identity"] = identity;
  return entry;
}

TEST(ConformanceSuite, FindsEachFaultOfADevice) {
  const std::pair<Json, std::string> cases[] = {
      {Json::array({Entry({{"name", "Bad_Name"}})}), "FAIL discover answers: device Bad_Name"},
      {Json::array(
           {Entry({{"name", "d0"}, {"attributes", {{"model", {{"version", "1.2.3.4"}}}}}})}),
       "FAIL the API server would take every device: device d0 attributes[model]"},
      {Json::array({Entry({{"name", "d0"}}, "same"), Entry({{"name", "d1"}}, "same")}),
       "FAIL device names and identities are unique: d1 and d0"},
      {Json::array({Entry({{"name", "d0"}, {"allowMultipleAllocations", true}})}),
       "FAIL nothing leans on fields that the server is known to drop: device d0"},
      {Json::array({{{"device", {{"name", "d0"}}}}}), "gave nothing to inject"},
      {Json::array(
           {{{"device", {{"name", "d0"}}}, {"edits", {{"env", Json::array({"no-equals"})}}}}}),
       "FAIL each device is prepared and unprepared, twice each: edits"},
      {Json::array({{{"device", {{"name", "d0"}}},
                     {"edits", Json::array({{{"env", Json::array({"A=1"})}},
                                            {{"env", Json::array({"A=2"})}}})}}}),
       "repeated prepare of d0 gave other edits"},
  };
  for (const auto& [devices, expected] : cases) {
    SCOPED_TRACE(expected);
    EXPECT_THAT(ReportFor({{"devices", devices}}), HasSubstr(expected));
  }
}

TEST(Inv03, AVolatileAttributeIsAWarning) {
  EXPECT_THAT(
      ReportFor({{"devices", Json::array({Entry(
                                 {{"name", "d0"}, {"attributes", {{"index", {{"int", 0}}}}}})})}}),
      HasSubstr("volatile attribute: index"));
}

TEST(ConformanceSuite, SaysWhyALibraryCannotBeUsed) {
  conformance::Options options;
  options.library = "/nowhere/dra-backend-none.so";
  const auto findings = conformance::RunSuite(options);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_FALSE(conformance::Passed(findings));
  EXPECT_THAT(conformance::Report(findings), HasSubstr("/nowhere/dra-backend-none.so"));
}

}  // namespace
}  // namespace dra
