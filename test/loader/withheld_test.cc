#include "loader/withheld.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace dra::loader {
namespace {

std::string Scrubbed(const Withheld& withheld, const std::string& text) {
  return std::string(withheld.Scrub(absl::InternalError(text)).message());
}

TEST(Withheld, AreTheStringsOfParametersWhereverTheyStand) {
  Withheld withheld;
  withheld.AddParameters({{"password", "hunter-2-hunter"},
                          {"list", {{{"deep", "s3cret-of-a-list"}}, "an \"entry\" 12"}}});
  EXPECT_EQ(Scrubbed(withheld, "hook prepare: hunter-2-hunter, s3cret-of-a-list!"),
            "hook prepare: [withheld], [withheld]!");
  EXPECT_EQ(Scrubbed(withheld, R"(an "entry" 12, "an \"entry\" 12")"),
            R"([withheld], "[withheld]")");
}

TEST(Withheld, AreNotTheNamesOfModesAndKindsNorShortTextsNorNumbers) {
  Withheld withheld;
  withheld.AddParameters({{"apiVersion", "gpu.example.com/v1alpha1"},
                          {"kind", "GpuConfig2024"},
                          {"strategy", "TimeSlicing"},
                          {"short", "gpu-0"},
                          {"number", 123456789}});
  const std::string text =
      "gpu.example.com/v1alpha1 GpuConfig2024: TimeSlicing on gpu-0 for 123456789";
  EXPECT_EQ(Scrubbed(withheld, text), text);
}

TEST(Withheld, TakesTheLongestFirstAndABeginningAtTheEnd) {
  Withheld withheld;
  withheld.AddParameters({{"a", "12345678"}, {"b", "12345678-and-more"}});
  EXPECT_EQ(Scrubbed(withheld, "12345678-and-more"), "[withheld]");
  EXPECT_EQ(Scrubbed(withheld, "cut: 12345678-an"), "cut: [withheld]");
  EXPECT_EQ(Scrubbed(withheld, "cut: 1234567"), "cut: 1234567");
}

TEST(Withheld, IsUndoAsAWholeAndTheConfigurationOfEachDevice) {
  Withheld withheld;
  withheld.AddDevices(
      R"([{"configs": [{"source": "FromClaim", "parameters": {"key": "s3cret-of-a-claim"}}]}, {}])");
  withheld.AddUndo("undo-of-a-card-7");
  EXPECT_EQ(Scrubbed(withheld, "FromClaim s3cret-of-a-claim undo-of-a-card-7"),
            "FromClaim [withheld] [withheld]");
}

TEST(Withheld, KeepsCodeAndPayloads) {
  Withheld withheld;
  withheld.AddUndo("undo-of-a-card-7");
  absl::Status status = absl::UnavailableError("undo-of-a-card-7");
  status.SetPayload("type", absl::Cord("payload"));
  const absl::Status scrubbed = withheld.Scrub(status);
  EXPECT_EQ(scrubbed.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(scrubbed.GetPayload("type"), absl::Cord("payload"));
  EXPECT_TRUE(withheld.Scrub(absl::OkStatus()).ok());
}

}  // namespace
}  // namespace dra::loader
