#include "test/bench/api.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"
#include "dra/kube/http_api_client.h"
#include "dra/testing/api_server.h"
#include "kube/request_path.h"
#include "kube/response.h"

namespace dra::bench {
namespace {

constexpr char kNamespace[] = "default";
constexpr int kWriters = 8;
constexpr absl::Duration kTimeout = absl::Seconds(60);

Json Allocation(const ClaimKind& kind, int index) {
  Json result = {
      {"request", "r"},
      {"driver", kind.driver},
      {"pool", kind.pool},
      {"device", absl::StrCat("gpu-", kind.first_device + index % std::max(kind.devices, 1))}};
  if (kind.shared) {
    result["shareID"] = NewUuid();
    result["consumedCapacity"] = {{"memory", "1Gi"}, {"compute", "1"}};
  }
  Json devices = {{"results", Json::array({result})}};
  if (kind.configured) {
    const Json parameters = {
        {"apiVersion", "gpu.resource.example.com/v1alpha1"},
        {"kind", "GpuConfig"},
        {"sharing", {{"strategy", "TimeSlicing"}, {"timeSlicingConfig", {{"interval", "Long"}}}}}};
    devices["config"] =
        Json::array({Json{{"source", "FromClaim"},
                          {"opaque", {{"driver", kind.driver}, {"parameters", parameters}}}}});
  }
  return {{"devices", std::move(devices)}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Api>> Api::StartDouble(const std::string& self,
                                                      const std::string& kubeconfig_path) {
  std::unique_ptr<Api> api(new Api());
  Process::Options options;
  options.command = {self, kServeDouble};
  options.pipes = true;
  DRA_ASSIGN_OR_RETURN(api->double_, Process::Start(options));
  DRA_ASSIGN_OR_RETURN(const std::string text, api->double_.ReadAll());
  if (text.empty()) return absl::InternalError("the API double did not start");
  DRA_RETURN_IF_ERROR(
      WriteFileAtomically(api->fs_, kubeconfig_path, text, 0600, Durability::kVolatile));
  api->kubeconfig_ = kubeconfig_path;
  DRA_RETURN_IF_ERROR(api->Connect());
  return api;
}

absl::StatusOr<std::unique_ptr<Api>> Api::UseServer(const std::string& kubeconfig_path) {
  std::unique_ptr<Api> api(new Api());
  api->kubeconfig_ = kubeconfig_path;
  DRA_RETURN_IF_ERROR(api->Connect());
  return api;
}

Api::~Api() = default;

absl::Status Api::Connect() {
  DRA_ASSIGN_OR_RETURN(const kube::ClusterConfig config,
                       kube::LoadKubeConfig(fs_, kubeconfig_, ""));
  const kube::HttpOptions options;
  DRA_ASSIGN_OR_RETURN(client_, kube::MakeHttpApiClient(config, options, &clock_, Logger()));
  credentials_ = std::make_unique<kube::CredentialSource>(
      config, options.credentials_reload, options.exec_timeout, &fs_, &clock_, Logger());
  DRA_ASSIGN_OR_RETURN(transport_, kube::Transport::Create(config, options));
  absl::string_view server = config.server;
  if (absl::ConsumePrefix(&server, "http://127.0.0.1:") &&
      !absl::SimpleAtoi(absl::StripSuffix(server, "/"), &http_port_)) {
    http_port_ = 0;
  }
  return absl::OkStatus();
}

absl::Status Api::EnsureNode(const std::string& node) {
  const Call call = Call::WithTimeout(kTimeout);
  const absl::StatusOr<Json> present = client_->Get(kube::Nodes(), "", node, call);
  if (present.ok() || !absl::IsNotFound(present.status())) return present.status();
  const Json object = {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", node}}}};
  DRA_RETURN_IF_ERROR(client_->Create(kube::Nodes(), "", object, {}, call).status());
  made_node_ = node;
  return absl::OkStatus();
}

absl::StatusOr<Json> Api::PutStatus(const std::string& name, const Json& object) {
  const Call call = Call::WithTimeout(kTimeout);
  DRA_ASSIGN_OR_RETURN(std::shared_ptr<const kube::Credentials> credentials,
                       credentials_->Current(call));
  const kube::HttpRequest request{
      "PUT", kube::ResourcePath(kube::ResourceClaims(), kNamespace, name, "status"),
      "application/json", DumpJson(object)};
  DRA_ASSIGN_OR_RETURN(const kube::HttpResponse response,
                       transport_->Fetch(request, std::move(credentials), call));
  return kube::ObjectOfResponse(response, "ResourceClaim", absl::StrCat("allocate claim ", name));
}

absl::StatusOr<Claim> Api::MakeClaim(const ClaimKind& kind, int index, int number) {
  const std::string name = absl::StrCat("dra-bench-", ::getpid(), "-", number);
  const Json request = {
      {"name", "r"},
      {"exactly",
       {{"deviceClassName", kind.driver}, {"allocationMode", "ExactCount"}, {"count", 1}}}};
  const Json object = {{"apiVersion", "resource.k8s.io/v1"},
                       {"kind", "ResourceClaim"},
                       {"metadata", {{"name", name}, {"namespace", kNamespace}}},
                       {"spec", {{"devices", {{"requests", Json::array({request})}}}}}};
  DRA_ASSIGN_OR_RETURN(Json stored, client_->Create(kube::ResourceClaims(), kNamespace, object, {},
                                                    Call::WithTimeout(kTimeout)));
  stored["status"] = {{"allocation", Allocation(kind, index)},
                      {"reservedFor", Json::array({Json{{"resource", "pods"},
                                                        {"name", absl::StrCat("pod-", number)},
                                                        {"uid", NewUuid()}}})}};
  DRA_RETURN_IF_ERROR(PutStatus(name, stored).status());
  return Claim{kNamespace, name, StringOr(stored["metadata"], "uid")};
}

absl::StatusOr<std::vector<Claim>> Api::MakeClaims(const ClaimKind& kind, int count) {
  std::vector<Claim> claims(static_cast<size_t>(count));
  const int first = std::exchange(next_number_, next_number_ + count);
  std::atomic<int> next = 0;
  std::mutex mutex;
  absl::Status failed;
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < kWriters; ++i) {
      writers.emplace_back([&] {
        for (int n = next++; n < count; n = next++) {
          absl::StatusOr<Claim> claim = MakeClaim(kind, n, first + n);
          const std::lock_guard<std::mutex> lock(mutex);
          if (claim.ok()) {
            made_.push_back(*claim);
            claims[static_cast<size_t>(n)] = *std::move(claim);
          } else {
            failed = claim.status();
          }
        }
      });
    }
  }
  DRA_RETURN_IF_ERROR(failed);
  return claims;
}

absl::Status Api::DeleteClaims(const std::vector<Claim>& claims) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  absl::Status failed;
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < kWriters; ++i) {
      writers.emplace_back([&] {
        for (size_t n = next++; n < claims.size(); n = next++) {
          const absl::Status deleted =
              client_->Delete(kube::ResourceClaims(), claims[n].namespace_name, claims[n].name, {},
                              Call::WithTimeout(kTimeout));
          const std::lock_guard<std::mutex> lock(mutex);
          if (!deleted.ok() && !absl::IsNotFound(deleted)) failed = deleted;
        }
      });
    }
  }
  std::erase_if(made_, [&](const Claim& made) {
    return std::any_of(claims.begin(), claims.end(),
                       [&](const Claim& claim) { return claim.uid == made.uid; });
  });
  return failed;
}

absl::Status Api::GetClaim(const Claim& claim) {
  return client_
      ->Get(kube::ResourceClaims(), claim.namespace_name, claim.name, Call::WithTimeout(kTimeout))
      .status();
}

absl::StatusOr<std::vector<Json>> Api::Slices(const std::string& driver) {
  kube::ListOptions options;
  options.field_selector = absl::StrCat("spec.driver=", driver);
  DRA_ASSIGN_OR_RETURN(kube::ListResult list, client_->List(kube::ResourceSlices(), "", options,
                                                            Call::WithTimeout(kTimeout)));
  return std::move(list.items);
}

absl::Status Api::CleanUp(const std::string& driver) {
  absl::Status result = DeleteClaims(std::vector<Claim>(made_));
  const Call call = Call::WithTimeout(kTimeout);
  const absl::StatusOr<std::vector<Json>> slices = Slices(driver);
  if (!slices.ok()) return slices.status();
  for (const Json& slice : *slices) {
    const absl::Status deleted = client_->Delete(kube::ResourceSlices(), "",
                                                 StringOr(slice.at("metadata"), "name"), {}, call);
    if (!deleted.ok() && !absl::IsNotFound(deleted)) result = deleted;
  }
  return result;
}

absl::Status Api::RemoveNode() {
  if (made_node_.empty()) return absl::OkStatus();
  const absl::Status deleted = client_->Delete(kube::Nodes(), "", std::exchange(made_node_, ""), {},
                                               Call::WithTimeout(kTimeout));
  return absl::IsNotFound(deleted) ? absl::OkStatus() : deleted;
}

int ServeDouble() {
  const auto server = testing::FakeApiServer::Start();
  if (!server.ok()) {
    std::cerr << server.status().ToString() << "\n";
    return 1;
  }
  const std::string text = (*server)->KubeConfig();
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (wrote <= 0) return 1;
    done += static_cast<size_t>(wrote);
  }
  ::close(STDOUT_FILENO);
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

}  // namespace dra::bench
