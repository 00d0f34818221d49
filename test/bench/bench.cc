// What the scenarios share: nodes on directories of their own.

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "dra/base/file_system.h"
#include "dra/base/status.h"
#include "test/bench/scenarios.h"

namespace dra::bench {
namespace {

constexpr absl::Duration kReady = absl::Seconds(60);

}  // namespace

NodeOptions Bench::MakeOptions(const std::string& parent, const Json& backend_config,
                               const std::string& name_suffix) {
  NodeOptions options;
  options.driver_program = driver_program;
  options.library = library;
  options.directory = JoinPath(parent, absl::StrCat("n", next_directory++));
  options.cdi_parent = tmpfs;
  options.kubeconfig = api->kubeconfig();
  options.node_name = node_name;
  options.driver_name = name_suffix + driver_name;
  options.backend_config = {{"nodeName", node_name}};
  options.backend_config.update(backend_config);
  return options;
}

absl::StatusOr<std::unique_ptr<Node>> Bench::StartNode(const std::string& parent, int devices,
                                                       const Json& extra_config,
                                                       const std::string& name_suffix) {
  Json config = {{"numDevices", devices}};
  config.update(extra_config);
  DRA_ASSIGN_OR_RETURN(std::unique_ptr<Node> node,
                       Node::Start(MakeOptions(parent, config, name_suffix)));
  DRA_RETURN_IF_ERROR(node->WaitUntilReady(*api, devices, kReady));
  return node;
}

absl::Status Bench::Finish(std::unique_ptr<Node> node, const std::string& name_suffix) {
  DRA_RETURN_IF_ERROR(node->Stop());
  node = nullptr;
  return api->CleanUp(name_suffix + driver_name);
}

ClaimKind Bench::Kind(const std::string& name_suffix) const {
  ClaimKind kind;
  kind.driver = name_suffix + driver_name;
  kind.pool = node_name;
  return kind;
}

}  // namespace dra::bench
