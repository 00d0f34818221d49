// A kubeconfig file.
#include "dra/kube/kube_config.h"
#include "test/fuzz/absent_file_system.h"
#include "test/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr char kPath[] = "/etc/dra/kubeconfig";
  dra::fuzz::AbsentFileSystem fs(kPath, std::string(dra::fuzz::Text(data, size)));
  const auto config = dra::kube::LoadKubeConfig(fs, kPath, "");
  if (!config.ok()) {
    dra::fuzz::Require(config.status().message().find(kPath) != absl::string_view::npos,
                       "a refused kubeconfig is named");
    return 0;
  }
  dra::fuzz::Require(!config->server.empty(), "a kubeconfig has a server");
  (void)dra::kube::ValidateClusterConfig(*config);
  return 0;
}
