// Somebody else's test program on the installed doubles: an API server and a kubelet, no driver.
#include <cstdio>

#include "dra/testing/api_server.h"
#include "dra/testing/kubelet_double.h"
#include "dra/testing/temp_directory.h"

int main() {
  auto server = dra::testing::FakeApiServer::Start();
  if (!server.ok()) return 1;
  (*server)->store().Put({{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "n1"}}}});
  const dra::testing::TempDirectory directory;
  dra::testing::KubeletOptions options;
  options.root = directory.path();
  options.node_name = "n1";
  auto kubelet = dra::testing::FakeKubelet::Start(options, &(*server)->store());
  if (!kubelet.ok() || !(*kubelet)->Plugins().empty()) return 2;
  std::printf("doubles run at %s\n", (*server)->url().c_str());
  return 0;
}
