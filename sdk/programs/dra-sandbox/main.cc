// dra-sandbox: a node in a box. Runs pods on a backend without a cluster, and shows what their containers get.

#include <unistd.h>

#include <csignal>
#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "dra/base/file_system.h"
#include "dra/base/status.h"
#include "dra/driver/version.h"
#include "dra/driver/yaml.h"
#include "run.h"

namespace dra::sandbox {
namespace {

// The program beside this one, as they are installed.
std::string DefaultDriverProgram() {
  PosixFileSystem fs;
  const absl::StatusOr<std::string> self = fs.ReadLink("/proc/self/exe");
  return self.ok() ? JoinPath(DirectoryName(*self), "dra-driver") : "dra-driver";
}

std::string Absolute(const std::string& path) {
  if (!path.empty() && path[0] == '/') return path;
  char buffer[4096];
  return ::getcwd(buffer, sizeof(buffer)) == nullptr ? path : JoinPath(buffer, path);
}

absl::StatusOr<Json> ReadBackendConfig(const std::string& file) {
  if (file.empty()) return Json::object();
  PosixFileSystem fs;
  DRA_ASSIGN_OR_RETURN(const std::string text, fs.ReadFile(file));
  DRA_ASSIGN_OR_RETURN(const std::vector<Json> documents, driver::YamlToJson(text, file));
  if (documents.size() != 1 || !documents[0].is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": must be one YAML mapping"));
  }
  return documents[0];
}

int Main(int argc, char** argv) {
  CLI::App app(
      "A node in a box: API server double, kubelet double, dra-driver with a backend, and a "
      "container view.");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("dra-sandbox ") + driver::kVersion);
  CLI::App* run =
      app.add_subcommand("run", "run the pods of manifests and show what their containers get");
  RunOptions options;
  options.box.driver_program = DefaultDriverProgram();
  options.box.driver_name = "gpu.example.com";
  std::string config_file;
  double patience_seconds = 30;
  run->add_option("--backend", options.box.library, "the backend library")->required();
  run->add_option(
         "--apply", options.files,
         "a file of DeviceClass, ResourceClaim, ResourceClaimTemplate and Pod; may be repeated")
      ->required();
  run->add_option("--backend-config", config_file,
                  "YAML or JSON file with the backend's configuration");
  run->add_option("--driver", options.box.driver_name, "the DRA driver name")
      ->capture_default_str();
  run->add_option("--node", options.box.node_name, "the node's name")->capture_default_str();
  run->add_option("--dra-driver", options.box.driver_program,
                  "the daemon's program; default: beside this one");
  run->add_option("--patience", patience_seconds, "seconds to wait for the driver to get ready")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  std::signal(SIGPIPE, SIG_IGN);
  options.patience = absl::Seconds(patience_seconds);
  options.box.library = Absolute(options.box.library);
  const absl::StatusOr<Json> config = ReadBackendConfig(config_file);
  if (!config.ok()) {
    std::cerr << "dra-sandbox: " << std::string(config.status().message()) << "\n";
    return 1;
  }
  options.box.backend_config = *config;
  return RunSandbox(options, std::cout);
}

}  // namespace
}  // namespace dra::sandbox

int main(int argc, char** argv) { return dra::sandbox::Main(argc, argv); }
