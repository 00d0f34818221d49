#include "dra/driver/preflight.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dra/base/status.h"
#include "dra/base/trusted_directory.h"
#include "dra/inventory/inventory.h"
#include "dra/kube/discovery.h"
#include "dra/kube/http_api_client.h"
#include "dra/kube/kube_config.h"
#include "dra/loader/loader.h"
#include "driver/path_safety.h"
#include "driver/runtime_cdi.h"

namespace dra::driver {
namespace {

constexpr absl::Duration kApiTimeout = absl::Seconds(10);

CheckResult FromStatus(std::string subject, const absl::Status& status,
                       std::string message_when_ok) {
  return {std::move(subject), status.ok(),
          status.ok() ? std::move(message_when_ok) : std::string(status.message())};
}

// A directory is writable if a file can be made and removed there.
absl::Status CheckWritable(FileSystem& fs, const std::string& directory, DirectoryUse use) {
  DRA_RETURN_IF_ERROR(CheckTrustedDirectory(fs, directory, use));
  const std::string probe = JoinPath(directory, ".dra-driver-check.tmp");
  DRA_RETURN_IF_ERROR(RemoveIfExists(fs, probe));
  DRA_RETURN_IF_ERROR(fs.CreateFile(probe, "", 0600, /*sync=*/false));
  return fs.Remove(probe);
}

void CheckPaths(const DaemonConfig& config, FileSystem& fs, std::vector<CheckResult>* results) {
  const std::string registry = JoinPath(config.kubelet_root, "plugins_registry");
  results->push_back(FromStatus(absl::StrCat("kubelet registry ", registry),
                                CheckWritable(fs, registry, DirectoryUse::kAbove), "writable"));
  const std::string plugins = JoinPath(config.kubelet_root, "plugins");
  results->push_back(FromStatus(absl::StrCat("kubelet plugins ", plugins),
                                CheckWritable(fs, plugins, DirectoryUse::kAbove), "writable"));
  for (const DriverConfig& driver : config.drivers) {
    results->push_back(FromStatus(absl::StrCat("directories of ", driver.name),
                                  CheckDriverPaths(fs, config, driver.name),
                                  "only root and this user can change what is in them"));
  }
  absl::Status cdi = CheckWritable(fs, config.cdi_directory, DirectoryUse::kShared);
  if (absl::IsNotFound(cdi)) {
    const absl::Status made = MakeDirectories(fs, config.cdi_directory, 0755);
    cdi = made.ok() ? CheckWritable(fs, config.cdi_directory, DirectoryUse::kShared) : made;
  }
  results->push_back(
      FromStatus(absl::StrCat("CDI directory ", config.cdi_directory), cdi,
                 "writable; the container runtime must name it in its cdi_spec_dirs"));
  const absl::StatusOr<FileInfo> static_directory = fs.Stat("/etc/cdi", /*follow=*/true);
  results->push_back(
      {"CDI directory /etc/cdi", true,
       static_directory.ok()
           ? "there"
           : "not there: runtimes older than 2023 ignore all CDI files then; mkdir it"});
  for (CheckResult& result : CheckRuntimeCdi(fs, "", config.cdi_directory)) {
    results->push_back(std::move(result));
  }
}

void CheckCluster(const DaemonConfig& config, FileSystem& fs, Clock& clock,
                  std::vector<CheckResult>* results) {
  absl::StatusOr<kube::ClusterConfig> cluster =
      kube::FindClusterConfig(fs, config.kubeconfig, "", kube::GetEnvironment);
  results->push_back(FromStatus("credentials", cluster.status(),
                                cluster.ok() ? absl::StrCat("from ", cluster->source) : ""));
  if (!cluster.ok()) return;
  const std::string server = cluster->server;
  const absl::StatusOr<std::unique_ptr<kube::ApiClient>> api =
      kube::MakeHttpApiClient(*std::move(cluster), {}, &clock, Logger());
  if (!api.ok()) {
    results->push_back(FromStatus(absl::StrCat("API server ", server), api.status(), ""));
    return;
  }
  const Call call = Call::WithTimeout(kApiTimeout);
  results->push_back(FromStatus(absl::StrCat("API server ", server),
                                kube::CheckServesResourceApi(**api, call),
                                "serves resource.k8s.io/v1"));
  const absl::StatusOr<Json> node = (*api)->Get(kube::Nodes(), "", config.node_name, call);
  results->push_back(FromStatus(absl::StrCat("node ", config.node_name), node.status(),
                                "known to the API server"));
  kube::ListOptions ours;
  ours.field_selector = absl::StrCat("spec.nodeName=", config.node_name);
  const absl::StatusOr<kube::ListResult> slices =
      (*api)->List(kube::ResourceSlices(), "", ours, call);
  results->push_back(
      FromStatus("list resourceslices", slices.status(),
                 slices.ok() ? absl::StrCat(slices->items.size(), " on this node") : ""));
}

absl::StatusOr<std::string> TryBackend(const DaemonConfig& config, const DriverConfig& driver,
                                       Clock& clock) {
  DRA_ASSIGN_OR_RETURN(const std::unique_ptr<loader::BackendHandle> backend,
                       loader::LoadBackend(config.LibraryPath(driver), loader::LoadOptions()));
  const Call call;
  DRA_RETURN_IF_ERROR(
      Annotate(backend->Create(DumpJson(driver.backend_config), nullptr, call), "create"));
  const auto manifest = backend->GetManifest();
  const absl::StatusOr<loader::DiscoverResult> discovered =
      manifest.ok() ? backend->Discover(loader::ServerFields(), {}, call) : manifest.status();
  backend->Destroy();
  DRA_RETURN_IF_ERROR(manifest.status());
  DRA_RETURN_IF_ERROR(Annotate(discovered.status(), "discover"));
  inventory::Inventory inventory({driver.name, config.node_name, (*manifest)->never_tainted, ""},
                                 &clock, Logger());
  const std::shared_ptr<const inventory::Snapshot> snapshot =
      inventory.Update(*discovered, loader::ServerFields(), {});
  size_t devices = 0;
  for (const inventory::Pool& pool : snapshot->pools) devices += pool.devices.size();
  std::string text =
      absl::StrCat((*manifest)->name, " ", (*manifest)->version, ", ", devices, " devices");
  for (const inventory::Finding& finding : snapshot->findings) {
    absl::StrAppend(&text, "\n    ", finding.device, " ", finding.field, ": ", finding.problem,
                    "; ", finding.action);
  }
  return text;
}

}  // namespace

std::vector<CheckResult> RunChecks(const DaemonConfig& config, FileSystem& fs, Clock& clock) {
  std::vector<CheckResult> results;
  const absl::Status valid = ValidateDaemonConfig(config);
  results.push_back(
      FromStatus("configuration", valid, absl::StrCat(config.drivers.size(), " drivers")));
  if (!valid.ok()) return results;
  CheckPaths(config, fs, &results);
  CheckCluster(config, fs, clock, &results);
  for (const DriverConfig& driver : config.drivers) {
    const absl::StatusOr<std::string> tried = TryBackend(config, driver, clock);
    results.push_back(
        FromStatus(absl::StrCat("backend of ", driver.name, " ", config.LibraryPath(driver)),
                   tried.status(), tried.ok() ? *tried : ""));
  }
  return results;
}

}  // namespace dra::driver
