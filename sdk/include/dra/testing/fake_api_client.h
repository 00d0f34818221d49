#pragma once

#include <functional>
#include <memory>

#include "dra/kube/api_client.h"
#include "dra/testing/api_traffic.h"
#include "dra/testing/object_store.h"

namespace dra::testing {

// The API client over an ObjectStore in memory, for unit tests: the same rules and faults as FakeApiServer, no sockets.
// Any thread.
class FakeApiClient final : public kube::ApiClient {
 public:
  // With a store of its own.
  explicit FakeApiClient(ServerProfile profile = {}, Clock* clock = nullptr);
  // Over another's store, which outlives this.
  explicit FakeApiClient(ObjectStore* store);
  ~FakeApiClient() override;

  ObjectStore& store() { return *store_; }
  ApiTraffic& traffic() { return traffic_; }

  absl::StatusOr<Json> Get(const kube::Resource& resource, absl::string_view namespace_name,
                           absl::string_view name, const Call& call) override;
  absl::StatusOr<kube::ListResult> List(const kube::Resource& resource,
                                        absl::string_view namespace_name,
                                        const kube::ListOptions& options,
                                        const Call& call) override;
  absl::Status Watch(const kube::Resource& resource, absl::string_view namespace_name,
                     const kube::WatchOptions& options,
                     const std::function<void(const kube::WatchEvent&)>& on_event,
                     const Call& call) override;
  absl::StatusOr<Json> Create(const kube::Resource& resource, absl::string_view namespace_name,
                              const Json& object, const kube::WriteOptions& options,
                              const Call& call) override;
  absl::StatusOr<Json> Update(const kube::Resource& resource, absl::string_view namespace_name,
                              absl::string_view name, const Json& object,
                              const kube::WriteOptions& options, const Call& call) override;
  absl::Status Delete(const kube::Resource& resource, absl::string_view namespace_name,
                      absl::string_view name, const kube::DeleteOptions& options,
                      const Call& call) override;
  absl::StatusOr<Json> Apply(const kube::Resource& resource, absl::string_view namespace_name,
                             absl::string_view name, absl::string_view subresource,
                             absl::string_view field_manager, const Json& object,
                             const Call& call) override;

 private:
  // Logs the request, plays a fault or does `function`.
  absl::StatusOr<Json> Run(RequestRecord record, const Call& call,
                           const std::function<absl::StatusOr<Json>()>& function);

  std::unique_ptr<ObjectStore> owned_store_;
  ObjectStore* const store_;
  ApiTraffic traffic_;
};

}  // namespace dra::testing
