// What the process costs: its start, its memory, its idling, its traffic, its file calls.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "dra/base/file_system.h"
#include "dra/base/status.h"
#include "test/bench/file_calls.h"
#include "test/bench/relay.h"
#include "test/bench/scenarios.h"

namespace dra::bench {
namespace {

constexpr int kUsualDevices = 100;
constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr absl::Duration kPoll = absl::Milliseconds(2);
constexpr double kGetInfoMs = 50;
constexpr double kRssMb = 25;
constexpr double kAnonymousMb = 8;
constexpr int kFillers = 16;
constexpr double kSecondsOfAnHour = 3600;
// The fake looks at its control file 20 times a second by default; that is not the driver's idling.
constexpr int kRarely = 60000;
// The driver gives free memory back each 10 s.
constexpr absl::Duration kSettled = absl::Seconds(15);

double MillisecondsBetween(absl::Time from, absl::Time to) {
  return absl::ToDoubleMilliseconds(to - from);
}

void ReportUse(Figures& figures, const std::string& when, const ProcessUse& use, bool wanted) {
  if (wanted) {
    figures.AddAtMost("process", absl::StrCat("RSS, ", when), use.rss_mb, "MB", kRssMb);
    figures.AddAtMost("process", absl::StrCat("anonymous memory, ", when), use.anonymous_mb, "MB",
                      kAnonymousMb);
  } else {
    figures.Add("process", absl::StrCat("RSS, ", when), use.rss_mb, "MB");
    figures.Add("process", absl::StrCat("anonymous memory, ", when), use.anonymous_mb, "MB");
  }
  figures.Add("process", absl::StrCat("threads, ", when), use.threads, "");
}

}  // namespace

absl::Status MeasureStart(Bench& bench) {
  std::vector<double> answered;
  std::vector<double> published;
  const Json config = {{"numDevices", kUsualDevices}};
  for (int i = 0; i < bench.extent.starts; ++i) {
    const absl::Time start = absl::Now();
    DRA_ASSIGN_OR_RETURN(std::unique_ptr<Node> node,
                         Node::Start(bench.MakeOptions(bench.directory, config, "")));
    DRA_RETURN_IF_ERROR(node->registration().Connect(kPatience));
    DRA_RETURN_IF_ERROR(node->registration().GetInfo().status());
    answered.push_back(MillisecondsBetween(start, absl::Now()));
    for (;;) {
      DRA_ASSIGN_OR_RETURN(const std::vector<Json> slices, bench.api->Slices(bench.driver_name));
      if (!slices.empty()) break;
      if (absl::Now() - start > kPatience)
        return absl::DeadlineExceededError(absl::StrCat("no slice; ", node->LogTail()));
      absl::SleepFor(kPoll);
    }
    published.push_back(MillisecondsBetween(start, absl::Now()));
    DRA_RETURN_IF_ERROR(bench.Finish(std::move(node)));
  }
  const std::string how = absl::StrCat("from the start of the process, ", bench.extent.starts,
                                       " starts, ", kUsualDevices, " devices");
  Figures& figures = *bench.figures;
  figures.AddAtMost("start", "registration socket answers GetInfo: p50", Quantile(answered, 0.5),
                    "ms", kGetInfoMs, how);
  figures.Add("start", "registration socket answers GetInfo: best", Quantile(answered, 0), "ms");
  figures.Add("start", "first slice stored: p50", Quantile(published, 0.5), "ms", how);
  figures.Add("start", "first slice stored: best", Quantile(published, 0), "ms");
  return absl::OkStatus();
}

absl::Status MeasureMemoryAndIdle(Bench& bench) {
  const Extent& extent = bench.extent;
  Figures& figures = *bench.figures;
  const Json quiet = {{"pollMilliseconds", kRarely}};
  DRA_ASSIGN_OR_RETURN(std::unique_ptr<Node> node,
                       bench.StartNode(bench.directory, kUsualDevices, quiet));
  const absl::Duration before = CpuTime(node->pid());
  absl::SleepFor(extent.idle);
  const absl::Duration used = CpuTime(node->pid()) - before;
  DRA_ASSIGN_OR_RETURN(const ProcessUse idle, ReadUse(node->pid()));
  ReportUse(figures, absl::StrCat("idle, ", kUsualDevices, " devices"), idle, true);
  const double seconds = absl::ToDoubleSeconds(extent.idle);
  figures.Add("process", "CPU in an idle hour",
              absl::ToDoubleSeconds(used) / seconds * kSecondsOfAnHour, "s",
              absl::StrCat("extrapolated from ", seconds, " s"));

  DRA_RETURN_IF_ERROR(bench.Finish(std::move(node)));

  // Shares of shared devices, as the peer's figures were taken.
  DRA_ASSIGN_OR_RETURN(node, bench.StartNode(bench.directory, kUsualDevices,
                                             {{"shared", true}, {"pollMilliseconds", kRarely}}));
  absl::SleepFor(absl::Seconds(1));  // until the server is known to keep what sharing leans on
  ClaimKind kind = bench.Kind();
  kind.devices = kUsualDevices;
  kind.shared = true;
  DRA_ASSIGN_OR_RETURN(const std::vector<Claim> claims,
                       bench.api->MakeClaims(kind, extent.many_claims));
  DRA_RETURN_IF_ERROR(node->service().Run(Verb::kPrepare, claims, kFillers).status());
  DRA_ASSIGN_OR_RETURN(const ProcessUse full, ReadUse(node->pid()));
  ReportUse(figures, absl::StrCat(claims.size(), " claims"), full, false);
  DRA_RETURN_IF_ERROR(node->service().Run(Verb::kUnprepare, claims, kFillers).status());
  absl::SleepFor(std::min(extent.idle, kSettled));
  DRA_ASSIGN_OR_RETURN(const ProcessUse after, ReadUse(node->pid()));
  ReportUse(figures, absl::StrCat("after ", claims.size(), " claims came and went"), after, false);
  return bench.Finish(std::move(node));
}

absl::Status MeasureChangedDevice(Bench& bench) {
  Figures& figures = *bench.figures;
  if (bench.api->http_port() == 0) {
    figures.Add("publication", "one changed device: not measured", 0, "",
                "the relay that counts needs a plain-HTTP server on 127.0.0.1");
    return absl::OkStatus();
  }
  DRA_ASSIGN_OR_RETURN(const std::unique_ptr<Relay> relay, Relay::Start(bench.api->http_port()));
  const int count = bench.extent.changed_devices;
  const std::string inventory = JoinPath(bench.directory, "inventory.json");
  const std::string kubeconfig = JoinPath(bench.directory, "relay.kubeconfig");
  PosixFileSystem fs;
  const auto write_inventory = [&](const std::string& changed) {
    Json devices = Json::array();
    for (int i = 0; i < count; ++i) {
      devices.push_back({{"device",
                          {{"name", absl::StrCat("d", i)},
                           {"attributes",
                            {{"model", {{"string", "A1"}}},
                             {"uuid", {{"string", absl::StrCat("serial-", i)}}},
                             {"firmware", {{"string", i == count / 2 ? changed : "1.0.0"}}}}},
                           {"capacity", {{"memory", {{"value", "80Gi"}}}}}}}});
    }
    return WriteFileAtomically(fs, inventory, DumpJson({{"devices", devices}}), 0600,
                               Durability::kVolatile);
  };
  DRA_RETURN_IF_ERROR(write_inventory("1.0.0"));
  const Json cluster = {{"server", absl::StrCat("http://127.0.0.1:", relay->port())}};
  const Json text = {
      {"apiVersion", "v1"},
      {"kind", "Config"},
      {"current-context", "relay"},
      {"clusters", Json::array({Json{{"name", "relay"}, {"cluster", cluster}}})},
      {"users", Json::array({Json{{"name", "relay"}, {"user", Json::object()}}})},
      {"contexts", Json::array({Json{{"name", "relay"},
                                     {"context", {{"cluster", "relay"}, {"user", "relay"}}}}})}};
  DRA_RETURN_IF_ERROR(
      WriteFileAtomically(fs, kubeconfig, DumpJson(text), 0600, Durability::kVolatile));
  NodeOptions options = bench.MakeOptions(bench.directory, {{"inventoryFile", inventory}}, "");
  options.kubeconfig = kubeconfig;
  DRA_ASSIGN_OR_RETURN(std::unique_ptr<Node> node, Node::Start(options));
  DRA_RETURN_IF_ERROR(node->WaitUntilReady(*bench.api, count, kPatience));
  const Traffic first = relay->Take();
  figures.Add("publication", absl::StrCat("API calls to publish ", count, " devices at start"),
              first.Total(), "", absl::StrJoin(first.calls, ", ", absl::PairFormatter(": ")));
  absl::SleepFor(absl::Seconds(1));  // what the first pass still asks for is not the change's
  (void)relay->Take();
  const absl::Time start = absl::Now();
  DRA_RETURN_IF_ERROR(write_inventory("2.0.0"));
  for (bool stored = false; !stored;) {
    DRA_ASSIGN_OR_RETURN(const std::vector<Json> slices, bench.api->Slices(bench.driver_name));
    stored = std::any_of(slices.begin(), slices.end(), [](const Json& slice) {
      return DumpJson(slice).find("2.0.0") != std::string::npos;
    });
    if (absl::Now() - start > kPatience)
      return absl::DeadlineExceededError(absl::StrCat("change not published; ", node->LogTail()));
    absl::SleepFor(kPoll);
  }
  const double took = MillisecondsBetween(start, absl::Now());
  absl::SleepFor(absl::Seconds(1));  // and what follows the change is
  const Traffic traffic = relay->Take();
  figures.Add("publication", absl::StrCat("API calls to publish 1 changed device of ", count),
              traffic.Total(), "", absl::StrJoin(traffic.calls, ", ", absl::PairFormatter(": ")));
  constexpr double kKilo = 1000;
  figures.Add("publication", "bytes to the API server for it", traffic.bytes_up / kKilo, "kB");
  figures.Add("publication", "bytes from the API server for it", traffic.bytes_down / kKilo, "kB",
              "with the answer of the write and its echo in the watch");
  figures.Add("publication", "from the file's change to the stored slice", took, "ms",
              "the fake backend looks at its file each 50 ms");
  return bench.Finish(std::move(node));
}

absl::Status MeasureFileCalls(Bench& bench) {
  Figures& figures = *bench.figures;
  const std::string trace = JoinPath(bench.directory, "trace");
  const std::vector<std::string> prefix = TracePrefix(trace);
  if (prefix.empty()) {
    figures.Add("file calls", "not counted", 0, "", "there is no strace on this machine");
    return absl::OkStatus();
  }
  const int count = bench.extent.traced_claims;
  NodeOptions options = bench.MakeOptions(bench.directory, {{"numDevices", count}}, "");
  options.prefix = prefix;
  DRA_ASSIGN_OR_RETURN(std::unique_ptr<Node> node, Node::Start(options));
  DRA_RETURN_IF_ERROR(node->WaitUntilReady(*bench.api, count, kPatience));
  const std::vector<std::string> directories = {node->data_directory(), node->cdi_directory()};
  for (const bool undo : {false, true}) {
    ClaimKind kind = bench.Kind();
    kind.devices = count;
    kind.configured = undo;
    DRA_ASSIGN_OR_RETURN(const std::vector<Claim> claims, bench.api->MakeClaims(kind, count));
    for (const Verb verb : {Verb::kPrepare, Verb::kUnprepare}) {
      const size_t from = FileSize(trace);
      DRA_RETURN_IF_ERROR(node->service().Run(verb, claims, 1).status());
      const auto calls = CountFileCalls(trace, from, directories);
      const std::string row =
          absl::StrCat(verb == Verb::kPrepare ? "prepare" : "unprepare", undo ? ", undo" : "");
      const auto each = [&](const std::string& call) {
        const auto found = calls.find(call);
        return found == calls.end() ? 0 : static_cast<double>(found->second) / count;
      };
      std::string rest;
      for (const auto& [call, number] : calls)
        absl::StrAppend(&rest, rest.empty() ? "" : ", ", call, " ",
                        static_cast<double>(number) / count);
      figures.Add("file calls", absl::StrCat(row, ": writes a claim"), each("write"), "");
      figures.Add(
          "file calls", absl::StrCat(row, ": fsyncs a claim"), each("fsync"), "",
          absl::StrCat("of files and directories, the CDI directory's on tmpfs too; all: ", rest));
    }
    DRA_RETURN_IF_ERROR(bench.api->DeleteClaims(claims));
  }
  return bench.Finish(std::move(node));
}

}  // namespace dra::bench
