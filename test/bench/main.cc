// dra-bench: measures a dra-driver process over its sockets. README.md says how each figure comes about.

#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "dra/base/file_system.h"
#include "dra/base/status.h"
#include "test/bench/scenarios.h"

namespace dra::bench {
namespace {

constexpr long kTmpfsMagic = 0x01021994;

struct Flags {
  std::string driver_program;
  std::string library;
  std::string directory = "/tmp";
  std::string tmpfs = "/dev/shm";
  std::string kubeconfig;
  std::string node_name = "bench-node";
  std::string json_file;
  std::string profile;
  std::string profile_file = "dra-bench.perf.data";
  std::vector<std::string> only;
  double idle_seconds = 0;
  int rounds = 0;
  bool quick = false;
};

Extent QuickExtent() {
  Extent extent;
  extent.starts = 2;
  extent.calls_alone = 10;
  extent.calls_together = 60;
  extent.held = {0, 20};
  extent.share_rounds = 20;
  extent.growth_rounds = 10;
  extent.many_claims = 50;
  extent.traced_claims = 4;
  extent.changed_devices = 300;
  extent.idle = absl::Seconds(1);
  return extent;
}

// A short, fresh directory; removed at the end.
struct ScratchDirectory {
  explicit ScratchDirectory(const std::string& parent) {
    std::string name = JoinPath(parent, "drb-XXXXXX");
    if (::mkdtemp(name.data()) != nullptr) path = name;
  }
  ~ScratchDirectory() {
    std::error_code error;
    if (!path.empty()) std::filesystem::remove_all(path, error);
  }
  std::string path;
};

Json Conditions(const Flags& flags) {
  utsname machine{};
  ::uname(&machine);
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  return {{"quick", flags.quick},
          {"kernel", machine.release},
          {"cpus", std::thread::hardware_concurrency()},
          {"loadAtStart", load},
          {"directory", flags.directory},
          {"apiServer", flags.kubeconfig.empty() ? "double" : "real"},
          {"driver", flags.driver_program}};
}

absl::Status RunAll(const Flags& flags, const std::string& self, Figures& figures) {
  const ScratchDirectory disk(flags.directory);
  if (disk.path.empty())
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make a directory in ", flags.directory));
  struct statfs info {};
  const bool has_tmpfs = ::statfs(flags.tmpfs.c_str(), &info) == 0 && info.f_type == kTmpfsMagic;
  const ScratchDirectory tmpfs(has_tmpfs ? flags.tmpfs : flags.directory);

  Bench bench;
  bench.driver_program = flags.driver_program;
  bench.library = flags.library;
  bench.node_name = flags.node_name;
  bench.directory = disk.path;
  bench.tmpfs = has_tmpfs ? tmpfs.path : "";
  bench.profile = flags.profile;
  bench.profile_file = flags.profile_file;
  bench.figures = &figures;
  if (flags.quick) bench.extent = QuickExtent();
  if (flags.idle_seconds > 0) bench.extent.idle = absl::Seconds(flags.idle_seconds);
  if (flags.rounds > 0) bench.extent.share_rounds = bench.extent.growth_rounds = flags.rounds;
  std::unique_ptr<Api> api;
  if (flags.kubeconfig.empty()) {
    DRA_ASSIGN_OR_RETURN(api, Api::StartDouble(self, JoinPath(disk.path, "kubeconfig")));
  } else {
    DRA_ASSIGN_OR_RETURN(api, Api::UseServer(flags.kubeconfig));
  }
  bench.api = api.get();
  DRA_RETURN_IF_ERROR(api->EnsureNode(flags.node_name));

  struct Step {
    const char* name;
    absl::Status (*measure)(Bench&);
  };
  const Step steps[] = {{"start", MeasureStart},         {"process", MeasureMemoryAndIdle},
                        {"own-share", MeasureOwnShare},  {"calls", MeasureCalls},
                        {"growth", MeasureGrowth},       {"publication", MeasureChangedDevice},
                        {"file-calls", MeasureFileCalls}};
  absl::Status result;
  for (const Step& step : steps) {
    if (!flags.only.empty() &&
        std::find(flags.only.begin(), flags.only.end(), step.name) == flags.only.end())
      continue;
    std::cerr << step.name << std::endl;
    const absl::Status measured = step.measure(bench);
    if (measured.ok()) continue;
    result = Annotate(measured, step.name);
    // Whatever was left on a real server is ours to remove.
    (void)api->CleanUp(bench.driver_name);
    break;
  }
  const absl::Status removed = api->RemoveNode();
  return result.ok() ? removed : result;
}

int Main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == kServeDouble) return ServeDouble();
  CLI::App app;
  Flags flags;
  app.description("Measures a dra-driver process with the fake backend over its sockets.");
  app.add_option("--driver-program", flags.driver_program, "path of dra-driver")->required();
  app.add_option("--backend", flags.library, "path of dra-backend-fake.so")->required();
  app.add_option("--kubeconfig", flags.kubeconfig,
                 "a real API server; claims, slices and the node are made and removed there");
  app.add_option("--node-name", flags.node_name, "made unless it is there");
  app.add_option("--directory", flags.directory, "on the disk that is to be measured");
  app.add_option("--tmpfs", flags.tmpfs, "for CDI files, and data without a disk");
  app.add_option("--json", flags.json_file, "write the figures to this file");
  app.add_option("--only", flags.only,
                 "start, process, own-share, calls, growth, publication, file-calls");
  app.add_option("--idle-seconds", flags.idle_seconds, "how long idling is watched");
  app.add_option("--rounds", flags.rounds, "how often own-share and growth repeat their turn");
  app.add_option("--profile", flags.profile,
                 "run perf on the driver during rows of 'calls' whose name has this in it");
  app.add_option("--profile-file", flags.profile_file, "where perf writes");
  app.add_flag("--quick", flags.quick, "little of everything: shows that it works");
  CLI11_PARSE(app, argc, argv);

  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  flags.driver_program = std::filesystem::absolute(flags.driver_program, error).string();
  flags.library = std::filesystem::absolute(flags.library, error).string();
  Figures figures;
  const Json conditions = Conditions(flags);
  const absl::Status status = RunAll(flags, self, figures);
  std::cout << figures.Table();
  if (!flags.json_file.empty()) {
    std::ofstream(flags.json_file) << figures.ToJson(conditions).dump(2) << "\n";
  }
  if (status.ok()) return 0;
  std::cerr << "dra-bench: " << status.ToString() << "\n";
  return 1;
}

}  // namespace
}  // namespace dra::bench

int main(int argc, char** argv) { return dra::bench::Main(argc, argv); }
