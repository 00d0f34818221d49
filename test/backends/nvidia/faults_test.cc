#include "faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>

namespace nvidia {
namespace {

using dra::FaultSeverity;

// What the backend reports: every class that has a name.
std::map<std::string, FaultClass> NamedClasses() {
  std::map<std::string, FaultClass> classes;
  const auto add = [&](const FaultClass& fault) { classes.emplace(fault.name, fault); };
  for (uint64_t xid = 0; xid < 1000; ++xid) {
    const std::optional<FaultClass> fault = FaultOfXid(xid, {});
    if (fault && fault->name != "xid-" + std::to_string(xid)) add(*fault);
  }
  for (unsigned action = 0; action < 100; ++action) {
    if (const auto fault = FaultOfRecoveryAction(action)) add(*fault);
  }
  for (const auto& make : {UncorrectableEcc, LostGpu, MissingGpu, ResetRequired, RepairPending,
                           RepairFailed, FabricNotReady, FabricFailed, DriverMismatch}) {
    add(make("text"));
  }
  return classes;
}

TEST(Faults, EveryClassHasASeverityAndARemedyAndIsALabelValue) {
  const std::map<std::string, FaultClass> classes = NamedClasses();
  for (const auto& [name, fault] : classes) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(Severities().contains(name));
    EXPECT_NE(SeverityOf(fault), FaultSeverity::kUnset);
    EXPECT_FALSE(fault.remedy.empty());
    EXPECT_TRUE(std::regex_match(name, std::regex("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")));
  }
  for (const auto& [name, severity] : Severities()) {
    EXPECT_TRUE(classes.contains(name)) << name << " is reported by nothing";
  }
}

TEST(Faults, SeveritiesAreThoseOfNvidiasMeanings) {
  const std::pair<uint64_t, FaultSeverity> cases[] = {
      {79, FaultSeverity::kCritical},  {95, FaultSeverity::kCritical},
      {119, FaultSeverity::kCritical}, {48, FaultSeverity::kMajor},
      {63, FaultSeverity::kMajor},     {94, FaultSeverity::kMinor},
      {777, FaultSeverity::kMajor}};  // one that nobody knows
  for (const auto& [xid, severity] : cases) {
    SCOPED_TRACE(xid);
    EXPECT_EQ(SeverityOf(*FaultOfXid(xid, {})), severity);
  }
}

TEST(Faults, TheMoreSevereIsWorseAndOfTwoAlikeTheOneThatAsksForMore) {
  const FaultClass lost = LostGpu("l"), failed = RepairFailed("f"), pending = RepairPending("p");
  EXPECT_TRUE(IsWorse(lost, failed));
  EXPECT_FALSE(IsWorse(failed, lost));
  EXPECT_TRUE(AsksForMore(failed, lost));
  EXPECT_TRUE(IsWorse(failed, pending));
  EXPECT_FALSE(IsWorse(pending, failed));
  EXPECT_FALSE(IsWorse(lost, lost));
}

// The table of the README has a row for each class, with its severity and what ends it, and no other.
TEST(Faults, TheReadmeNamesEveryClass) {
  std::ifstream file(NVIDIA_README);
  ASSERT_TRUE(file) << NVIDIA_README;
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::map<FaultSeverity, std::string> words = {{FaultSeverity::kMinor, "minor"},
                                                      {FaultSeverity::kMajor, "major"},
                                                      {FaultSeverity::kCritical, "critical"}};
  // | `class` | source | severity | remedy | ends with |
  std::map<std::string, std::pair<std::string, std::string>> rows;
  const std::regex row(
      R"(\n\| `([^`]+)` \|[^|]*\| (minor|major|critical) \|[^|]*\| ([^|]*) (?=\|))");
  for (std::sregex_iterator at(text.begin(), text.end(), row), end; at != end; ++at) {
    rows[(*at)[1]] = {(*at)[2], (*at)[3]};
  }
  std::map<std::string, FaultClass> classes = NamedClasses();
  classes["xid-<n>"] = *FaultOfXid(777, {});
  for (const auto& [name, fault] : classes) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(rows.contains(name)) << "not in the table";
    EXPECT_EQ(rows[name].first, words.at(SeverityOf(fault)));
    EXPECT_EQ(rows[name].second, fault.clears_with.empty() ? "itself" : fault.clears_with);
  }
  EXPECT_EQ(rows.size(), classes.size());
}

}  // namespace
}  // namespace nvidia
