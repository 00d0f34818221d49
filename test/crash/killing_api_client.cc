#include "test/crash/killing_api_client.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dra::crash {
namespace {

class KillingApiClient final : public kube::ApiClient {
 public:
  KillingApiClient(std::unique_ptr<kube::ApiClient> base, KillPoints* points)
      : base_(std::move(base)), points_(points) {}

  absl::StatusOr<Json> Get(const kube::Resource& resource, absl::string_view namespace_name,
                           absl::string_view name, const Call& call) override {
    return Pass(Label("get", resource),
                [&] { return base_->Get(resource, namespace_name, name, call); });
  }
  absl::StatusOr<kube::ListResult> List(const kube::Resource& resource,
                                        absl::string_view namespace_name,
                                        const kube::ListOptions& options,
                                        const Call& call) override {
    return Pass(Label("list", resource),
                [&] { return base_->List(resource, namespace_name, options, call); });
  }
  absl::Status Watch(const kube::Resource& resource, absl::string_view namespace_name,
                     const kube::WatchOptions& options,
                     const std::function<void(const kube::WatchEvent&)>& on_event,
                     const Call& call) override {
    const std::string label = Label("watch", resource);
    kube::WatchOptions with_point = options;
    with_point.on_open = [&] {
      Reach(label, "after");
      if (options.on_open != nullptr) options.on_open();
    };
    Reach(label, "before");
    return base_->Watch(resource, namespace_name, with_point, on_event, call);
  }
  absl::StatusOr<Json> Create(const kube::Resource& resource, absl::string_view namespace_name,
                              const Json& object, const kube::WriteOptions& options,
                              const Call& call) override {
    return Pass(Label("create", resource, options.dry_run),
                [&] { return base_->Create(resource, namespace_name, object, options, call); });
  }
  absl::StatusOr<Json> Update(const kube::Resource& resource, absl::string_view namespace_name,
                              absl::string_view name, const Json& object,
                              const kube::WriteOptions& options, const Call& call) override {
    return Pass(Label("update", resource, options.dry_run), [&] {
      return base_->Update(resource, namespace_name, name, object, options, call);
    });
  }
  absl::Status Delete(const kube::Resource& resource, absl::string_view namespace_name,
                      absl::string_view name, const kube::DeleteOptions& options,
                      const Call& call) override {
    return Pass(Label("delete", resource),
                [&] { return base_->Delete(resource, namespace_name, name, options, call); });
  }
  absl::StatusOr<Json> Apply(const kube::Resource& resource, absl::string_view namespace_name,
                             absl::string_view name, absl::string_view subresource,
                             absl::string_view field_manager, const Json& object,
                             const Call& call) override {
    std::string label = Label("apply", resource);
    if (!subresource.empty()) absl::StrAppend(&label, "/", subresource);
    return Pass(label, [&] {
      return base_->Apply(resource, namespace_name, name, subresource, field_manager, object, call);
    });
  }
  absl::StatusOr<Json> GetRaw(absl::string_view path, const Call& call) override {
    return base_->GetRaw(path, call);
  }

 private:
  static std::string Label(absl::string_view verb, const kube::Resource& resource,
                           bool dry_run = false) {
    return absl::StrCat("api ", verb, dry_run ? " (dry run) " : " ", resource.plural);
  }
  void Reach(const std::string& label, absl::string_view when) {
    if (points_->armed()) points_->Reach(absl::StrCat(label, " ", when));
  }
  template <typename Function>
  auto Pass(const std::string& label, Function function) -> decltype(function()) {
    Reach(label, "before");
    auto result = function();
    Reach(label, "after");
    return result;
  }

  const std::unique_ptr<kube::ApiClient> base_;
  KillPoints* const points_;
};

}  // namespace

std::unique_ptr<kube::ApiClient> MakeKillingApiClient(std::unique_ptr<kube::ApiClient> base,
                                                      KillPoints* points) {
  return std::make_unique<KillingApiClient>(std::move(base), points);
}

}  // namespace dra::crash
