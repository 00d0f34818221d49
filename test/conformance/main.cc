// dra-backend-conformance <library> [--config FILE] [--driver NAME] [--show]: asks a backend everything that dra-driver may
// ask of it, and says what it found. Exit code: 0 no failure, 1 failures, 2 it could not be run.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "dra/base/file_system.h"
#include "dra/loader/loader.h"
#include "test/conformance/subject.h"

namespace dra::conformance {
namespace {

// Each device that the backend finds on this machine, as one line of JSON.
absl::Status ShowDevices(const Options& options) {
  MemoryHost host(options.scratch_directory);
  auto backend = loader::LoadBackend(options.library);
  if (!backend.ok()) return backend.status();
  const absl::Status created = (*backend)->Create(options.config_json, &host, Subject::LongCall());
  if (!created.ok()) return created;
  const auto found = DiscoverWith(**backend, loader::FieldSupport::kKept);
  if (!found.ok()) return found.status();
  for (const loader::DiscoverItem& item : found->items) {
    if (item.device) std::cout << item.device->device.dump() << "\n";
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace dra::conformance

int main(int argc, char** argv) {
  CLI::App app("Asks a backend everything that dra-driver may ask of it");
  dra::conformance::Options options;
  std::string config_file;
  app.add_option("library", options.library, "the backend's shared library")->required();
  app.add_option("--config", config_file, "JSON file with the backend's configuration");
  app.add_option("--driver", options.driver_name, "driver name of the allocations it is given");
  app.add_option("--max-devices", options.max_devices,
                 "prepare at most so many devices one by one");
  bool show = false;
  app.add_flag("--show", show,
               "print each device that is found as a line of JSON, after the report");
  CLI11_PARSE(app, argc, argv);

  dra::PosixFileSystem fs;
  std::error_code error;
  options.library = std::filesystem::absolute(options.library, error).string();
  if (!config_file.empty()) {
    const auto text = fs.ReadFile(std::filesystem::absolute(config_file, error).string(), 1 << 20);
    if (!text.ok()) {
      std::cerr << "configuration: " << text.status().ToString() << "\n";
      return 2;
    }
    options.config_json = *text;
  }
  std::string scratch =
      (std::filesystem::temp_directory_path(error) / "dra-conformance-XXXXXX").string();
  if (error || mkdtemp(scratch.data()) == nullptr) {
    std::cerr << "cannot make a temporary directory " << scratch << "\n";
    return 2;
  }
  options.scratch_directory = scratch;
  const auto findings = dra::conformance::RunSuite(options);
  std::cout << dra::conformance::Report(findings);
  if (show) {
    const absl::Status shown = dra::conformance::ShowDevices(options);
    if (!shown.ok()) std::cerr << "devices: " << shown.ToString() << "\n";
  }
  const absl::Status removed = dra::RemoveTree(fs, scratch);
  if (!removed.ok()) std::cerr << "warning: " << removed.ToString() << "\n";
  return dra::conformance::Passed(findings) ? 0 : 1;
}
