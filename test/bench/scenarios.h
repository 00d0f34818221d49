#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "test/bench/api.h"
#include "test/bench/figures.h"
#include "test/bench/node.h"

namespace dra::bench {

// How much of everything is done. The defaults are the full run.
struct Extent {
  int starts = 7;
  int calls_alone = 200;     // claims of a round, 1 at once
  int calls_together = 400;  // claims of a round, 10 and 50 at once
  std::vector<int> held = {0, 100, 1000};
  int share_rounds = 300;    // of the driver's own share
  int growth_rounds = 2000;  // pairs of the comparison of two drivers; fewer say little
  int many_claims = 1000;    // of the memory figure and of the growth
  int traced_claims = 20;
  int changed_devices = 1000;
  absl::Duration idle = absl::Seconds(60);
};

struct Bench {
  std::string driver_program;
  std::string library;
  std::string driver_name = "gpu.example.com";
  std::string node_name = "bench-node";
  std::string directory;  // on the disk to be measured; short
  std::string tmpfs;      // a directory of a tmpfs, "" if there is none
  std::string profile;    // rows whose name contains this run under perf; "": none
  std::string profile_file = "dra-bench.perf.data";
  Extent extent;
  Api* api = nullptr;
  Figures* figures = nullptr;

  // Starts a driver on a fresh directory below `parent` and waits for its pool of `devices` devices.
  absl::StatusOr<std::unique_ptr<Node>> StartNode(const std::string& parent, int devices,
                                                  const Json& extra_config = Json::object(),
                                                  const std::string& name_suffix = "");
  NodeOptions MakeOptions(const std::string& parent, const Json& backend_config,
                          const std::string& name_suffix);
  // Stops a driver and deletes its slices, so that the next one starts on a clean server.
  absl::Status Finish(std::unique_ptr<Node> node, const std::string& name_suffix = "");
  ClaimKind Kind(const std::string& name_suffix = "") const;

  int next_directory = 0;
};

// One group of figures each. They are independent of each other and leave nothing on the API server.
absl::Status MeasureStart(Bench& bench);
absl::Status MeasureMemoryAndIdle(Bench& bench);
absl::Status MeasureCalls(Bench& bench);
absl::Status MeasureOwnShare(Bench& bench);
absl::Status MeasureGrowth(Bench& bench);
absl::Status MeasureChangedDevice(Bench& bench);
absl::Status MeasureFileCalls(Bench& bench);

}  // namespace dra::bench
