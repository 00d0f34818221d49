#include "loader/host_table.h"

#include <string>

#include "dra/backend/host.h"
#include "gmock/gmock.h"
#include "loader/manifest.h"
#include "loader/payload.h"
#include "test/loader/support.h"

namespace dra::loader {
namespace {

using ::testing::HasSubstr;

// Calls the host as a backend's author does, while a call of claim u1 runs.
class HostTableTest : public ::testing::Test {
 protected:
  HostTableTest() { table_->Begin(hook_); }

  dra_code CodeOf(const std::function<void()>& function) {
    try {
      function();
    } catch (const BackendError& error) {
      text_ = error.what();
      return error.code();
    }
    return DRA_OK;
  }

  FakeServices services_;
  HostTable* const table_ = HostTable::Make(&services_);
  const std::shared_ptr<RunningHook> hook_ = std::make_shared<RunningHook>(
      "u1", [](Withheld& withheld) { withheld.AddUndo("s3cret-of-a-claim"); },
      std::chrono::steady_clock::now() + std::chrono::minutes(5), std::stop_token());
  const Host host_{table_->table()};
  const HookCall call_{hook_->call()};
  std::string text_;
};

TEST_F(HostTableTest, CarriesEachFunctionToTheServices) {
  host_.Log(Severity::kWarn, "hello\xff");
  host_.InventoryChanged();
  host_.HealthChanged();
  host_.RequestRestart("vendor library was replaced");
  host_.UpdateDevice("u1", "", "d0", "", {{"data", {{"a", 1}}}});
  EXPECT_THAT(services_.events(),
              ::testing::ElementsAre("log 3 hello?", "inventory_changed", "health_changed",
                                     "restart vendor library was replaced",
                                     "update u1 d0 {\"data\":{\"a\":1}}"));
  host_.SaveUndo(call_, "undo");
  EXPECT_EQ(services_.undo().at("u1"), "undo");
  EXPECT_EQ(host_.NoteGet("serial", "k"), std::nullopt);
  host_.NotePut("serial", "k", "v");
  EXPECT_EQ(host_.Held(call_, "", "d0"),
            Json::parse(R"([{"claimUID":"not-u1","device":"d0","adminAccess":true}])"));
  EXPECT_EQ(host_.ClaimDirectory(call_), "/files/u1");
  EXPECT_EQ(host_.SharedFile(call_, "#!"), "/shared");
  const HelperOutput helper = host_.RunHelper(call_, {"/bin/echo", "hi"});
  EXPECT_EQ(helper.exit_code, 0);
  EXPECT_EQ(helper.output, "hi\n");
  EXPECT_EQ(host_.GetExtension("dra.nri.v1"), nullptr);
}

TEST_F(HostTableTest, RefusesWhatIsTooLargeOrWrong) {
  EXPECT_EQ(CodeOf([&] { host_.SaveUndo(call_, std::string(kMaxUndoBytes + 1, 'x')); }),
            DRA_INVALID_ARGUMENT);
  EXPECT_EQ(CodeOf([&] { host_.NotePut("id", "Not A Key", "v"); }), DRA_INVALID_ARGUMENT);
  EXPECT_EQ(CodeOf([&] { host_.RunHelper(call_, {}); }), DRA_INVALID_ARGUMENT);
  EXPECT_EQ(CodeOf([&] { host_.UpdateDevice("u1", "", "d0", "", Json::array()); }),
            DRA_INVALID_ARGUMENT);
}

TEST_F(HostTableTest, WhatAServiceThrowsStaysOnTheHostsSide) {
  EXPECT_EQ(CodeOf([&] { host_.NoteGet("id", "throws"); }), DRA_INTERNAL);
  EXPECT_THAT(text_, HasSubstr("host function threw"));
}

TEST_F(HostTableTest, PerCallFunctionsEndWithTheCall) {
  hook_->Abandon();
  EXPECT_TRUE(call_.cancelled());
  EXPECT_EQ(CodeOf([&] { host_.SaveUndo(call_, "x"); }), DRA_DEADLINE_EXCEEDED);
  table_->End(call_.id());
  EXPECT_EQ(CodeOf([&] { host_.SaveUndo(call_, "x"); }), DRA_FAILED_PRECONDITION);
  EXPECT_EQ(CodeOf([&] { host_.Held(call_, "", "d0"); }), DRA_FAILED_PRECONDITION);
}

TEST_F(HostTableTest, ALogLineShowsNoSecretOfACallThatRuns) {
  host_.SaveUndo(call_, "undo-of-this-call");
  host_.Log(Severity::kInfo, "card says s3cret-of-a-claim, undo-of-this-call");
  host_.RequestRestart("undo-of-this-call");
  table_->End(call_.id());
  host_.Log(Severity::kInfo, "over");
  EXPECT_THAT(services_.events(), ::testing::ElementsAre("log 2 card says [withheld], [withheld]",
                                                         "restart [withheld]", "log 2 over"));
}

TEST_F(HostTableTest, ADetachedTableRefusesEverything) {
  table_->Detach();
  host_.Log(Severity::kInfo, "nobody hears");
  host_.InventoryChanged();
  EXPECT_EQ(CodeOf([&] { host_.NoteGet("id", "k"); }), DRA_FAILED_PRECONDITION);
  EXPECT_TRUE(services_.events().empty());
}

TEST(ParseManifest, NamesTheMemberThatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "is empty"},
      {"[]", "must be a JSON object"},
      {R"({"version": "1"})", "name"},
      {R"({"name": "x"})", "version"},
      {R"({"name": "x", "version": "1", "parallel": "yes"})", "parallel"},
      {R"({"name": "x", "version": "1", "hook_limits": {"prepare": 0}})", "hook_limits.prepare"},
      {R"({"name": "x", "version": "1", "attributes": [{"name": "a", "type": "float"}]})",
       "attributes[0].type"},
      {R"({"name": "x", "version": "1", "config_kinds": [{"apiVersion": "v1", "kind": "K"}]})",
       "config_kinds[0].apiVersion"},
      {R"({"name": "x", "version": "1", "min_host_minor": 3})", "needs backend interface 1.3"},
  };
  for (const auto& [text, problem] : cases) {
    EXPECT_THAT(std::string(ParseManifest(text).status().message()), HasSubstr(problem)) << text;
  }
}

TEST(ParseManifest, ReadsLimitsAndFallsBackToTheDefaults) {
  const auto manifest = ParseManifest(
      R"({"name": "x", "version": "1", "hook_limits": {"prepare": 1.5, "of_a_newer_host": 1}, "new": 1})");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->HookLimit("prepare"), absl::Milliseconds(1500));
  EXPECT_EQ(manifest->HookLimit("unprepare"), absl::Seconds(40));
  EXPECT_EQ(manifest->HookLimit("busy"), absl::Seconds(5));
}

}  // namespace
}  // namespace dra::loader
