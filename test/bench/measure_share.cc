// The driver's own share of a prepare, and whether it grows with what is held: both by measuring in turn, call by call,
// so that whatever else the machine does hits every side alike.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/file_system.h"
#include "dra/base/status.h"
#include "kube/request_path.h"
#include "test/bench/floor.h"
#include "test/bench/scenarios.h"

namespace dra::bench {
namespace {

constexpr double kOwnShareMs = 0.3;
constexpr double kGrowth = 1.1;
constexpr size_t kUsualRecordBytes = 2048;
constexpr int kFillers = 16;
constexpr double kQuiet = 0.1;

struct Series {
  std::vector<double> prepare, unprepare, get, write, info;
};

// One claim at a time: prepare, GET of the same claim, durable write of a record's size, GetInfo, unprepare.
absl::StatusOr<Series> MeasureInTurn(Bench& bench, Node& node, int rounds) {
  constexpr int kDevices = 8;
  ClaimKind kind = bench.Kind();
  kind.devices = kDevices;
  DRA_ASSIGN_OR_RETURN(const std::vector<Claim> claims, bench.api->MakeClaims(kind, kDevices));
  std::optional<BareHttpClient> bare;
  if (bench.api->http_port() != 0) {
    DRA_ASSIGN_OR_RETURN(bare, BareHttpClient::Connect(bench.api->http_port()));
  }
  const std::string scratch = JoinPath(node.directory(), "scratch");
  PosixFileSystem fs;
  DRA_RETURN_IF_ERROR(fs.MakeDirectory(scratch, 0700));
  size_t record_bytes = kUsualRecordBytes;
  Series series;
  for (int i = 0; i < rounds; ++i) {
    const Claim& claim = claims[static_cast<size_t>(i) % claims.size()];
    DRA_ASSIGN_OR_RETURN(const Load prepared, node.service().Run(Verb::kPrepare, {claim}, 1));
    if (i == 0 && node.RecordBytes() > 0) record_bytes = node.RecordBytes();
    if (bare.has_value()) {
      DRA_ASSIGN_OR_RETURN(
          const double get,
          bare->Get(kube::ResourcePath(kube::ResourceClaims(), claim.namespace_name, claim.name)));
      series.get.push_back(get);
    } else {
      const absl::Time start = absl::Now();
      DRA_RETURN_IF_ERROR(bench.api->GetClaim(claim));
      series.get.push_back(absl::ToDoubleMilliseconds(absl::Now() - start));
    }
    DRA_ASSIGN_OR_RETURN(const double write, DurableWrite(scratch, record_bytes));
    DRA_ASSIGN_OR_RETURN(const double info, node.registration().GetInfo());
    DRA_ASSIGN_OR_RETURN(const Load unprepared, node.service().Run(Verb::kUnprepare, {claim}, 1));
    series.prepare.push_back(prepared.milliseconds.front());
    series.unprepare.push_back(unprepared.milliseconds.front());
    series.write.push_back(write);
    series.info.push_back(info);
  }
  return series;
}

double Median(const std::vector<double>& values) { return Quantile(values, 0.5); }

double OwnShare(const Series& series, double p, bool durable) {
  return Quantile(series.prepare, p) - Quantile(series.get, p) -
         (durable ? Quantile(series.write, p) : 0);
}

}  // namespace

absl::Status MeasureOwnShare(Bench& bench) {
  constexpr int kDevices = 8;
  Figures& figures = *bench.figures;
  {
    DRA_ASSIGN_OR_RETURN(std::unique_ptr<Node> node, bench.StartNode(bench.directory, kDevices));
    DRA_ASSIGN_OR_RETURN(const Series series,
                         MeasureInTurn(bench, *node, bench.extent.share_rounds));
    DRA_RETURN_IF_ERROR(bench.Finish(std::move(node)));
    figures.Add("floor", "GET of a claim on a kept connection: p50", Median(series.get), "ms",
                bench.api->http_port() != 0
                    ? "a bare HTTP client, in turn with the prepares"
                    : "the SDK's own client, in turn with the prepares: the server speaks TLS");
    figures.Add("floor", "one durable write of a record's size: p50", Median(series.write), "ms",
                "write, fsync, rename, fsync of the directory, in turn with the prepares");
    figures.Add("floor", "GetInfo in turn with the prepares: p50", Median(series.info), "ms");
    figures.Add("own share", "prepare, in turn with the floor: p50", Median(series.prepare), "ms");
    figures.AddAtMost("own share", "driver's own share of prepare: p50",
                      OwnShare(series, 0.5, true), "ms", kOwnShareMs,
                      "p50 of prepare - p50 of the bare GET - p50 of the durable write; gRPC and "
                      "the HTTP client count as the driver's");
    figures.Add("own share", "the same without a gRPC round trip: p50",
                OwnShare(series, 0.5, true) - Median(series.info), "ms",
                "p50 of GetInfo taken off as well: two threads woken on an idle machine, and gRPC");
    figures.Add("own share", "driver's own share of prepare: p10", OwnShare(series, kQuiet, true),
                "ms", "the same in quiet moments: what a busy machine adds is mostly left out");
    figures.Add("own share", "unprepare, in turn with the floor: p50", Median(series.unprepare),
                "ms");
  }
  if (bench.tmpfs.empty()) return absl::OkStatus();
  DRA_ASSIGN_OR_RETURN(std::unique_ptr<Node> node, bench.StartNode(bench.tmpfs, kDevices));
  const absl::Duration before = CpuTime(node->pid());
  DRA_ASSIGN_OR_RETURN(const Series series, MeasureInTurn(bench, *node, bench.extent.share_rounds));
  const double cpu = absl::ToDoubleMilliseconds(CpuTime(node->pid()) - before) /
                     static_cast<double>(series.prepare.size());
  DRA_RETURN_IF_ERROR(bench.Finish(std::move(node)));
  figures.Add("own share", "the same with the data on tmpfs: p50", OwnShare(series, 0.5, false),
              "ms", "a cross-check: without a disk there is no durable write to subtract");
  figures.Add("own share", "unprepare with the data on tmpfs: p50", Median(series.unprepare), "ms");
  figures.Add("own share", "CPU of a prepare, a GetInfo and an unprepare", cpu, "ms");
  return absl::OkStatus();
}

absl::Status MeasureGrowth(Bench& bench) {
  const Extent& extent = bench.extent;
  constexpr int kFree = 8;
  const std::string other = "b.";
  const int devices = extent.many_claims + kFree;
  DRA_ASSIGN_OR_RETURN(std::unique_ptr<Node> empty, bench.StartNode(bench.directory, devices));
  DRA_ASSIGN_OR_RETURN(std::unique_ptr<Node> full,
                       bench.StartNode(bench.directory, devices, Json::object(), other));
  ClaimKind filler = bench.Kind(other);
  filler.first_device = kFree;
  filler.devices = devices;
  DRA_ASSIGN_OR_RETURN(const std::vector<Claim> held,
                       bench.api->MakeClaims(filler, extent.many_claims));
  DRA_RETURN_IF_ERROR(full->service().Run(Verb::kPrepare, held, kFillers).status());
  struct Side {
    Node* node;
    std::vector<Claim> claims;
    std::vector<double> prepare, unprepare;
  };
  Side sides[2] = {{empty.get(), {}, {}, {}}, {full.get(), {}, {}, {}}};
  for (size_t s = 0; s < 2; ++s) {
    ClaimKind kind = bench.Kind(s == 0 ? "" : other);
    kind.devices = kFree;
    DRA_ASSIGN_OR_RETURN(sides[s].claims, bench.api->MakeClaims(kind, kFree));
  }
  for (int i = 0; i < extent.growth_rounds; ++i) {
    // The order changes too: who comes second finds warmer caches.
    for (const size_t s : {static_cast<size_t>(i) % 2, 1 - static_cast<size_t>(i) % 2}) {
      Side& side = sides[s];
      const Claim& claim = side.claims[static_cast<size_t>(i / 2) % side.claims.size()];
      DRA_ASSIGN_OR_RETURN(const Load prepared,
                           side.node->service().Run(Verb::kPrepare, {claim}, 1));
      DRA_ASSIGN_OR_RETURN(const Load unprepared,
                           side.node->service().Run(Verb::kUnprepare, {claim}, 1));
      side.prepare.push_back(prepared.milliseconds.front());
      side.unprepare.push_back(unprepared.milliseconds.front());
    }
  }
  DRA_RETURN_IF_ERROR(full->service().Run(Verb::kUnprepare, held, kFillers).status());
  DRA_RETURN_IF_ERROR(bench.Finish(std::move(empty)));
  DRA_RETURN_IF_ERROR(bench.Finish(std::move(full), other));
  const std::string how = "two drivers side by side, call by call in turn; ratio of the p50s";
  bench.figures->AddAtMost(
      "growth", absl::StrCat("prepare, ", extent.many_claims, " held / 0 held"),
      Median(sides[1].prepare) / std::max(Median(sides[0].prepare), 1e-6), "x", kGrowth, how);
  bench.figures->AddAtMost(
      "growth", absl::StrCat("unprepare, ", extent.many_claims, " held / 0 held"),
      Median(sides[1].unprepare) / std::max(Median(sides[0].unprepare), 1e-6), "x", kGrowth, how);
  return absl::OkStatus();
}

}  // namespace dra::bench
