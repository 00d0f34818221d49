// Prepare, prepare again and unprepare, at several parallelisms and with claims held beside.

#include <algorithm>
#include <csignal>
#include <iostream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "test/bench/scenarios.h"

namespace dra::bench {
namespace {

// A peer's rate with 50 calls at once on this class of machine, and what is wanted: ten times that.
constexpr double kPeerRate = 178;
constexpr double kRateFactor = 10;
constexpr double kUnprepareMs = 0.5;
constexpr int kRounds = 3;
constexpr int kFillers = 16;

// perf on a process while a row runs.
class Profile {
 public:
  Profile(const Bench& bench, const std::string& row, pid_t pid) {
    if (bench.profile.empty() || !absl::StrContains(row, bench.profile)) return;
    Process::Options options;
    options.command = {"perf", "record",         "-q", "-g", "-F", "2999", "-o", bench.profile_file,
                       "-p",   absl::StrCat(pid)};
    absl::StatusOr<Process> started = Process::Start(options);
    if (started.ok()) {
      perf_ = *std::move(started);
    } else {
      std::cerr << "no profile: " << started.status().ToString() << "\n";
    }
  }
  ~Profile() { (void)perf_.Stop(SIGINT, absl::Seconds(20)); }

 private:
  Process perf_;
};

struct Rounds {
  std::vector<double> milliseconds;  // of all rounds
  double best_rate = 0;
};

void Take(Rounds& rounds, const Load& load) {
  rounds.milliseconds.insert(rounds.milliseconds.end(), load.milliseconds.begin(),
                             load.milliseconds.end());
  rounds.best_rate = std::max(rounds.best_rate, load.Rate());
}

void Report(Bench& bench, const std::string& row, const Rounds& rounds, bool wanted_rate,
            bool wanted_unprepare) {
  Figures& figures = *bench.figures;
  const double p50 = Quantile(rounds.milliseconds, 0.5);
  if (wanted_unprepare) {
    figures.AddAtMost("calls", absl::StrCat(row, ": p50"), p50, "ms", kUnprepareMs);
  } else {
    figures.Add("calls", absl::StrCat(row, ": p50"), p50, "ms");
  }
  figures.Add("calls", absl::StrCat(row, ": p99"), Quantile(rounds.milliseconds, 0.99), "ms");
  const std::string rate = absl::StrCat(row, ": rate");
  if (wanted_rate) {
    figures.AddAtLeast(
        "calls", rate, rounds.best_rate, "/s", kPeerRate * kRateFactor,
        absl::StrCat(absl::SixDigits(rounds.best_rate / kPeerRate), " times the peer's 178/s"));
  } else {
    figures.Add("calls", rate, rounds.best_rate, "/s");
  }
}

// The three rows of one combination. The claims are prepared and unprepared kRounds times.
absl::Status MeasureRows(Bench& bench, Node& node, const std::vector<Claim>& claims, bool undo,
                         int held, int parallel) {
  const std::string rest =
      absl::StrCat(undo ? ", undo" : "", ", ", parallel, " at once, ", held, " held");
  Rounds prepare;
  Rounds again;
  Rounds unprepare;
  double cpu_prepare = 0;
  double cpu_unprepare = 0;
  for (int round = 0; round < kRounds; ++round) {
    const absl::Duration before = CpuTime(node.pid());
    {
      const Profile profile(bench, absl::StrCat("prepare", rest), node.pid());
      DRA_ASSIGN_OR_RETURN(const Load load, node.service().Run(Verb::kPrepare, claims, parallel));
      Take(prepare, load);
    }
    const absl::Duration between = CpuTime(node.pid());
    {
      const Profile profile(bench, absl::StrCat("again", rest), node.pid());
      DRA_ASSIGN_OR_RETURN(const Load load, node.service().Run(Verb::kPrepare, claims, parallel));
      Take(again, load);
    }
    const absl::Duration late = CpuTime(node.pid());
    {
      const Profile profile(bench, absl::StrCat("unprepare", rest), node.pid());
      DRA_ASSIGN_OR_RETURN(const Load load, node.service().Run(Verb::kUnprepare, claims, parallel));
      Take(unprepare, load);
    }
    cpu_prepare += absl::ToDoubleMilliseconds(between - before);
    cpu_unprepare += absl::ToDoubleMilliseconds(CpuTime(node.pid()) - late);
  }
  Report(bench, absl::StrCat("prepare", rest), prepare, parallel == 50 && held == 0 && !undo,
         false);
  Report(bench, absl::StrCat("prepare again", rest), again, false, false);
  Report(bench, absl::StrCat("unprepare", rest), unprepare, false,
         parallel == 1 && held == 0 && !undo);
  const double calls = static_cast<double>(claims.size()) * kRounds;
  bench.figures->Add("calls", absl::StrCat("prepare", rest, ": CPU"), cpu_prepare / calls, "ms");
  bench.figures->Add("calls", absl::StrCat("unprepare", rest, ": CPU"), cpu_unprepare / calls,
                     "ms");
  return absl::OkStatus();
}

absl::Status MeasureFloor(Bench& bench, Node& node) {
  const Extent& extent = bench.extent;
  for (const int parallel : {1, 10, 50}) {
    const int count = parallel == 1 ? extent.calls_alone : extent.calls_together;
    DRA_ASSIGN_OR_RETURN(const Load load, node.registration().GetInfoLoad(count, parallel));
    bench.figures->Add("floor",
                       absl::StrCat("GetInfo, ", parallel, " at once: p50 (gRPC both ways alone)"),
                       Quantile(load.milliseconds, 0.5), "ms");
    bench.figures->Add("floor", absl::StrCat("GetInfo, ", parallel, " at once: rate"), load.Rate(),
                       "/s");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureCalls(Bench& bench) {
  const Extent& extent = bench.extent;
  const int most = std::max(extent.calls_alone, extent.calls_together);
  int most_held = 0;
  for (const int held : extent.held) most_held = std::max(most_held, held);
  // Every claim has a device to itself: what is held beside must not matter.
  const int devices = most + most_held;
  DRA_ASSIGN_OR_RETURN(std::unique_ptr<Node> node, bench.StartNode(bench.directory, devices));
  DRA_RETURN_IF_ERROR(MeasureFloor(bench, *node));
  for (const bool undo : {false, true}) {
    ClaimKind kind = bench.Kind();
    kind.configured = undo;
    kind.devices = devices;
    DRA_ASSIGN_OR_RETURN(const std::vector<Claim> claims, bench.api->MakeClaims(kind, most));
    std::vector<Claim> held;
    for (const int wanted : extent.held) {
      ClaimKind filler = bench.Kind();
      filler.first_device = most + static_cast<int>(held.size());
      filler.devices = devices;
      DRA_ASSIGN_OR_RETURN(
          const std::vector<Claim> more,
          bench.api->MakeClaims(filler, std::max(0, wanted - static_cast<int>(held.size()))));
      DRA_RETURN_IF_ERROR(node->service().Run(Verb::kPrepare, more, kFillers).status());
      held.insert(held.end(), more.begin(), more.end());
      for (const int parallel : {1, 10, 50}) {
        const int count = parallel == 1 ? extent.calls_alone : extent.calls_together;
        const std::vector<Claim> part(claims.begin(), claims.begin() + count);
        DRA_RETURN_IF_ERROR(
            MeasureRows(bench, *node, part, undo, static_cast<int>(held.size()), parallel));
      }
    }
    DRA_RETURN_IF_ERROR(node->service().Run(Verb::kUnprepare, held, kFillers).status());
    DRA_RETURN_IF_ERROR(bench.api->DeleteClaims(held));
    DRA_RETURN_IF_ERROR(bench.api->DeleteClaims(claims));
  }
  return bench.Finish(std::move(node));
}

}  // namespace dra::bench
