#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "dra/kube/api_client.h"
#include "dra/observe/events.h"
#include "dra/testing/fake_api_client.h"
#include "test/claims/claims_rig.h"

// Every cell of the table in docs/claim-states.md, read from that file.
namespace dra::claims {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kRows = 7;
constexpr size_t kColumns = 11;
constexpr char kTableUndo[] = "saved undo";

struct Cell {
  std::string phase;
  std::string event;
  std::string text;
};

std::vector<std::string> Columns(absl::string_view line) {
  std::vector<std::string> columns;
  for (const absl::string_view column : absl::StrSplit(line, '|')) {
    columns.emplace_back(absl::StripAsciiWhitespace(column));
  }
  // Before the first and after the last bar there is nothing.
  return columns.size() < 2 ? columns
                            : std::vector<std::string>(columns.begin() + 1, columns.end() - 1);
}

std::vector<Cell> ReadTable() {
  PosixFileSystem fs;
  const absl::StatusOr<std::string> page =
      fs.ReadFile(JoinPath(DRA_SOURCE_DIR, "docs/claim-states.md"));
  std::vector<Cell> cells;
  std::vector<std::string> head;
  for (const absl::string_view line : absl::StrSplit(page.value_or(""), '\n')) {
    if (absl::StartsWith(line, "| phase |")) {
      head = Columns(line);
    } else if (!head.empty() && !absl::StartsWith(line, "|")) {
      break;
    } else if (!head.empty() && !absl::StartsWith(line, "|-")) {
      const std::vector<std::string> row = Columns(line);
      for (size_t i = 1; i < row.size(); ++i) {
        cells.push_back({row[0], i < head.size() ? head[i] : "no such column", row[i]});
      }
    }
  }
  return cells;
}

std::string TestName(const ::testing::TestParamInfo<Cell>& tested) {
  std::string name;
  bool upper = true;
  for (const char c : absl::StrCat(tested.param.phase, " __ ", tested.param.event)) {
    if (c == '_') {
      name.push_back('_');
    } else if (!std::isalnum(static_cast<unsigned char>(c))) {
      upper = true;
    } else {
      name.push_back(upper ? absl::ascii_toupper(static_cast<unsigned char>(c)) : c);
      upper = false;
    }
  }
  return name;
}

class StateTable : public ::testing::TestWithParam<Cell> {
 protected:
  StateTable()
      : events_(std::make_unique<observe::EventRecorder>(&api_, &rig_.clock_, &rig_.metrics_,
                                                         Logger(), "dra", "n1")) {
    rig_.events_ = events_.get();
    rig_.Boot();
    rig_.backend_.manifest.name = "fake";
    rig_.backend_.manifest.version = "2.0.0";
    rig_.Allocate("u1", {Result("d0")});
  }
  ~StateTable() override { rig_.manager_.reset(); }

  bool MakePhase(const std::string& phase);
  // Plays the event; false if there is no such event. What a call answered is in `answer_`.
  bool Play(const std::string& event);
  void Check(const std::vector<std::string>& actions, const std::string& phase);

  void SaveUndoInPrepare() {
    rig_.backend_.OnPrepare([](const loader::PrepareArgs& args, const Call&) {
      loader::PrepareResult result = FakeBackend::Plain(args);
      result.undo = kTableUndo;
      result.has_undo = true;
      return result;
    });
  }
  void Absent() {
    const absl::Status absent = absl::FailedPreconditionError("the backend is not loaded");
    rig_.backend_.manifest_error = absent;
    rig_.backend_.OnPrepare([=](const loader::PrepareArgs&, const Call&) { return absent; });
    rig_.backend_.OnUnprepare([=](const loader::UnprepareArgs&, const Call&) { return absent; });
  }
  void Prepare(const Call& call = {}) { prepared_ = rig_.Prepare("u1", call); }
  absl::Status Answer() const {
    if (unprepared_.has_value()) return *unprepared_;
    return prepared_.has_value() ? prepared_->status() : absl::OkStatus();
  }
  // The hooks since the phase was made: "prepare u1, unprepare u1".
  std::string Hooks() const {
    const std::string order = rig_.backend_.Order().substr(before_.size());
    return absl::StartsWith(order, ", ") ? order.substr(2) : order;
  }

  ClaimsRig rig_;
  testing::FakeApiClient api_;
  std::unique_ptr<observe::EventRecorder> events_;
  std::string before_;  // hooks of making the phase
  std::vector<std::pair<std::string, std::string>> held_before_;
  bool cdi_before_ = false;
  std::optional<absl::StatusOr<std::vector<PreparedDevice>>> prepared_;
  std::optional<absl::Status> unprepared_;
};

bool StateTable::MakePhase(const std::string& phase) {
  if (phase == "none") return true;
  if (phase == "preparing") {
    // The process ends right after the backend has saved undo data.
    rig_.backend_.OnPrepare([this](const loader::PrepareArgs& args,
                                   const Call&) -> absl::StatusOr<loader::PrepareResult> {
      EXPECT_TRUE(rig_.manager_->SaveUndo(args.claim.uid, kTableUndo).ok());
      rig_.fs_.StopAt(rig_.fs_.count() + 1);
      return absl::InternalError("the process ends here");
    });
    EXPECT_FALSE(rig_.Prepare("u1").ok());
    rig_.manager_.reset();
    rig_.fs_.ClearFaults();
    rig_.backend_.OnPrepare(nullptr);
    rig_.Boot();
    return true;
  }
  SaveUndoInPrepare();
  EXPECT_TRUE(rig_.Prepare("u1").ok());
  rig_.backend_.OnPrepare(nullptr);
  if (phase == "prepared") return true;
  if (phase == "prepared, another boot") {
    rig_.Reboot();
    return true;
  }
  if (phase == "unpreparing" || phase == "dirty") {
    const bool absent = phase == "unpreparing";
    rig_.backend_.OnUnprepare([absent](const loader::UnprepareArgs&, const Call&) {
      return absent ? absl::FailedPreconditionError("not loaded") : absl::InternalError("stuck");
    });
    EXPECT_FALSE(rig_.Unprepare("u1").ok());
    rig_.backend_.OnUnprepare(nullptr);
    rig_.Boot();
    return true;
  }
  if (phase == "quarantined") {
    const std::string good = *rig_.posix_.ReadFile(rig_.RecordPath("u1"));
    EXPECT_TRUE(WriteFileAtomically(rig_.posix_, rig_.RecordPath("u1"),
                                    absl::StrReplaceAll(good, {{"serial-d0", "serial-d9"}}), 0600,
                                    Durability::kVolatile)
                    .ok());
    rig_.Boot();
    return true;
  }
  return false;
}

bool StateTable::Play(const std::string& event) {
  constexpr absl::Duration kSoon = absl::Milliseconds(300);  // for what waits until it is answered
  const bool quarantined = rig_.Phase("u1") == "quarantined";
  if (event == "Prepare") {
    Prepare();
  } else if (event == "Prepare, allocation changed") {
    rig_.Allocate("u1", {Result("d1")});
    Prepare();
  } else if (event == "Unprepare") {
    unprepared_ = rig_.Unprepare("u1");
  } else if (event == "start, same boot") {
    rig_.manager_.reset();
    {
      const absl::MutexLock lock(&rig_.cdi_.mutex_);
      rig_.cdi_.files.clear();
    }
    if (!quarantined) {
      EXPECT_TRUE(RemoveTree(rig_.posix_, rig_.directory_.Path("data/held")).ok());
    }
    rig_.Boot(rig_.boot_);
    rig_.manager_->Restore({});
  } else if (event == "start, another boot") {
    rig_.Reboot();
    rig_.manager_->Restore({});
  } else if (event == "claim gone" || event == "claim gone, device in use") {
    rig_.backend_.SetBusy(event == "claim gone" ? loader::Busy::kIdle : loader::Busy::kBusy);
    rig_.claims_.Erase(Identity("u1"));
    rig_.manager_->CollectOrphans({});
    rig_.clock_.Advance(rig_.MakeOptions("boot-1").orphan_grace);
    rig_.manager_->CollectOrphans({});
  } else if (event == "backend absent: Prepare") {
    Absent();
    Prepare(Call::WithTimeout(kSoon));
  } else if (event == "backend absent: Unprepare") {
    Absent();
    unprepared_ = rig_.Unprepare("u1");
  } else if (event == "older backend: Prepare") {
    rig_.backend_.manifest.version = "1.9.9";
    Prepare();
  } else if (event == "older backend: Unprepare") {
    rig_.backend_.manifest.version = "1.9.9";
    unprepared_ = rig_.Unprepare("u1");
  } else {
    return false;
  }
  return true;
}

void StateTable::Check(const std::vector<std::string>& actions, const std::string& phase) {
  const bool changed = GetParam().event == "Prepare, allocation changed";
  const std::string device = changed ? "d1" : "d0";
  std::vector<std::string> hooks;
  std::vector<std::pair<std::string, std::string>> held = held_before_;
  bool cdi = cdi_before_;
  bool error = false;
  bool warned = false;
  for (const std::string& action : actions) {
    if (action == "prepare" || action == "take over" || action == "answer") {
      held = {{"n1", device}};
      cdi = true;
      ASSERT_TRUE(prepared_.has_value() && prepared_->ok()) << Answer();
      ASSERT_EQ((*prepared_)->size(), 1u);
      EXPECT_EQ((**prepared_)[0].device, device);
      EXPECT_THAT((**prepared_)[0].cdi_ids, ElementsAre("k8s.gpu.sdk.test/claim=u1-" + device));
      if (action == "answer") continue;
      hooks.push_back("prepare u1");
      EXPECT_EQ(rig_.backend_.LastPrepare().saved_undo, action == "prepare" ? "" : kTableUndo);
    } else if (action == "undo" || action == "bare undo") {
      held.clear();
      cdi = false;
      hooks.push_back("unprepare u1");
      ASSERT_NE(Hooks(), "");
      EXPECT_EQ(rig_.backend_.LastUnprepare().undo, action == "undo" ? kTableUndo : "");
      // A damaged record of an earlier boot tells no devices.
      ASSERT_EQ(rig_.backend_.LastUnprepare().devices.size(), 1u);
      EXPECT_EQ(rig_.backend_.LastUnprepare().devices[0].result["device"], "d0");
    } else if (action == "warn") {
      warned = true;
    } else if (action == "hold") {
      held = {{"n1", "d0"}};
      cdi = phase == "prepared";
    } else if (action == "drop holds") {
      held.clear();
      cdi = false;
    } else if (action == "error") {
      error = true;
      if (unprepared_.has_value()) {
        cdi = false;
        hooks.push_back("unprepare u1");  // which the absent backend refuses
      }
    } else {
      ASSERT_EQ(action, "nothing") << "unknown action";
    }
  }
  EXPECT_EQ(Answer().ok(), !error) << Answer();
  if (error) {
    EXPECT_THAT(Text(Answer()), HasSubstr("claim-u1"));
  }
  EXPECT_EQ(Hooks(), absl::StrJoin(hooks, ", "));
  EXPECT_EQ(rig_.manager_->HeldDevices(), held);
  EXPECT_EQ(rig_.cdi_.Has("u1"), cdi);
  EXPECT_EQ(rig_.Phase("u1"), phase);
  if (phase == "none") {
    EXPECT_THAT(rig_.Leftovers(), IsEmpty());
  }

  rig_.events_ = nullptr;
  rig_.Boot(rig_.boot_);
  EXPECT_EQ(rig_.Phase("u1"), phase) << "after a restart";
  EXPECT_EQ(rig_.manager_->HeldDevices(), held) << "after a restart";
  events_.reset();  // writes what is queued
  std::set<std::string> reasons;
  for (const Json& event : api_.store().All(kube::Events())) {
    reasons.insert(StringOr(event, "reason"));
  }
  EXPECT_EQ(reasons.contains("BackendOlderThanUndo"), warned);
  EXPECT_EQ(reasons.contains("RecordQuarantined"), GetParam().phase == "quarantined");
}

TEST_P(StateTable, IsTrue) {
  const std::vector<std::string> sides = absl::StrSplit(GetParam().text, " -> ");
  ASSERT_EQ(sides.size(), 2u) << GetParam().text;
  const std::vector<std::string> actions = absl::StrSplit(sides[0], ", ");
  ASSERT_TRUE(MakePhase(GetParam().phase)) << "no such phase";
  before_ = rig_.backend_.Order();
  held_before_ = rig_.manager_->HeldDevices();
  cdi_before_ = rig_.cdi_.Has("u1");
  const std::string phase = GetParam().phase.substr(0, GetParam().phase.find(','));
  ASSERT_EQ(rig_.Phase("u1"), phase);
  ASSERT_TRUE(Play(GetParam().event)) << "no such event";
  Check(actions, sides[1]);
}

INSTANTIATE_TEST_SUITE_P(Cells, StateTable, ::testing::ValuesIn(ReadTable()), TestName);

TEST(StateTablePage, HasACellForEveryPhaseAndEvent) {
  const std::vector<Cell> cells = ReadTable();
  std::set<std::pair<std::string, std::string>> seen;
  std::set<std::string> phases;
  for (const Cell& cell : cells) {
    seen.emplace(cell.phase, cell.event);
    phases.insert(cell.phase);
  }
  EXPECT_EQ(cells.size(), kRows * kColumns);
  EXPECT_EQ(seen.size(), kRows * kColumns);
  for (int i = 0; i < records::kPhases; ++i) {
    const std::string name(records::PhaseName(static_cast<records::Phase>(i)));
    EXPECT_TRUE(phases.contains(name)) << name;
  }
  EXPECT_TRUE(phases.contains("none"));
}

}  // namespace
}  // namespace dra::claims
