#include "dra/testing/fake_api_client.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "nlohmann/json.hpp"
#include "testing/api_errors.h"

namespace dra::testing {
namespace {

constexpr absl::Duration kDefaultTimeout = absl::Seconds(30);  // as kube::ApiClient says

RequestRecord Record(absl::string_view verb, const kube::Resource& resource,
                     absl::string_view namespace_name, absl::string_view name) {
  RequestRecord record;
  record.verb = std::string(verb);
  record.resource = resource.plural;
  record.namespace_name = std::string(namespace_name);
  record.name = std::string(name);
  return record;
}

kube::ApiError NoAnswer(absl::string_view message) {
  kube::ApiError error;
  error.message = std::string(message);
  return error;
}

// The status of a fault, as a client makes it of such an answer.
absl::Status FaultStatus(const ApiFault& fault) {
  kube::ApiError error;
  switch (fault.kind) {
    case ApiFault::Kind::kStatus:
      error = {fault.code, fault.reason, fault.message, fault.causes, fault.retry_after};
      break;
    case ApiFault::Kind::kPlainText:
    case ApiFault::Kind::kHtml:
    case ApiFault::Kind::kEmpty:
      if (fault.code < 300) return absl::DataLossError("api server: the answer is no JSON object");
      error = {fault.code, "", fault.message, {}, fault.retry_after};
      break;
    case ApiFault::Kind::kOtherKind:
    case ApiFault::Kind::kGarbage:
      return absl::DataLossError("api server: the answer is not the wanted kind");
    default:
      error = NoAnswer("connection closed before the answer");
      break;
  }
  return kube::MakeApiStatus(error, "api server");
}

int CodeOf(const absl::Status& status) {
  if (status.ok()) return 200;
  const std::optional<kube::ApiError> error = kube::ApiErrorOf(status);
  return error.has_value() ? error->http_code : 0;
}

kube::WatchEvent::Type TypeOf(absl::string_view type) {
  if (type == "ADDED") return kube::WatchEvent::Type::kAdded;
  if (type == "DELETED") return kube::WatchEvent::Type::kDeleted;
  if (type == "BOOKMARK") return kube::WatchEvent::Type::kBookmark;
  return kube::WatchEvent::Type::kModified;
}

}  // namespace

FakeApiClient::FakeApiClient(ServerProfile profile, Clock* clock)
    : owned_store_(std::make_unique<ObjectStore>(std::move(profile), clock)),
      store_(owned_store_.get()) {}
FakeApiClient::FakeApiClient(ObjectStore* store) : store_(store) {}
FakeApiClient::~FakeApiClient() = default;

absl::StatusOr<Json> FakeApiClient::Run(RequestRecord record, const Call& call,
                                        const std::function<absl::StatusOr<Json>()>& function) {
  DRA_RETURN_IF_ERROR(call.Check("api server"));
  const auto [number, fault] = traffic_.Begin(std::move(record));
  absl::StatusOr<Json> result = Json();
  if (!fault.has_value()) {
    result = function();
  } else {
    if (fault->carry_out) result = function();
    if (fault->kind == ApiFault::Kind::kDelay || fault->kind == ApiFault::Kind::kBlackHole) {
      const absl::Duration left = std::min(call.Remaining(), kDefaultTimeout);
      const bool hole = fault->kind == ApiFault::Kind::kBlackHole;
      traffic_.Hold(hole ? left : std::min(left, fault->delay), call.stop);
      absl::Status over = call.Check("api server");
      if (over.ok() && hole) over = absl::DeadlineExceededError("api server: no answer");
      if (!over.ok()) {
        traffic_.End(number, 0);
        return over;
      }
      if (!fault->carry_out) result = function();
    } else {
      result = FaultStatus(*fault);
    }
  }
  traffic_.End(number, CodeOf(result.status()));
  return result;
}

absl::StatusOr<Json> FakeApiClient::Get(const kube::Resource& resource,
                                        absl::string_view namespace_name, absl::string_view name,
                                        const Call& call) {
  return Run(Record("get", resource, namespace_name, name), call,
             [&] { return store_->Get(resource, namespace_name, name); });
}

absl::StatusOr<kube::ListResult> FakeApiClient::List(const kube::Resource& resource,
                                                     absl::string_view namespace_name,
                                                     const kube::ListOptions& options,
                                                     const Call& call) {
  RequestRecord record = Record("list", resource, namespace_name, "");
  record.field_selector = options.field_selector;
  record.label_selector = options.label_selector;
  kube::ListResult list;
  const absl::StatusOr<Json> done = Run(std::move(record), call, [&]() -> absl::StatusOr<Json> {
    StoreQuery query;
    query.field_selector = options.field_selector;
    query.label_selector = options.label_selector;
    DRA_ASSIGN_OR_RETURN(StoreList stored, store_->List(resource, namespace_name, query));
    list.resource_version = std::move(stored.resource_version);
    list.items = std::move(stored.items);
    return Json();
  });
  if (!done.ok()) return done.status();
  return list;
}

absl::Status FakeApiClient::Watch(const kube::Resource& resource, absl::string_view namespace_name,
                                  const kube::WatchOptions& options,
                                  const std::function<void(const kube::WatchEvent&)>& on_event,
                                  const Call& call) {
  RequestRecord record = Record("watch", resource, namespace_name, "");
  record.field_selector = options.field_selector;
  record.label_selector = options.label_selector;
  record.resource_version = options.resource_version;
  const auto [number, fault] = traffic_.Begin(std::move(record));
  if (fault.has_value()) {
    const bool expired = fault->kind == ApiFault::Kind::kExpired;
    const bool cut = fault->kind == ApiFault::Kind::kCutWatch;
    if (fault->kind == ApiFault::Kind::kDelay || fault->kind == ApiFault::Kind::kBlackHole) {
      const bool hole = fault->kind == ApiFault::Kind::kBlackHole;
      traffic_.Hold(hole ? std::min(call.Remaining(), kDefaultTimeout) : fault->delay, call.stop);
      absl::Status over = call.Check("watch");
      if (over.ok() && hole) over = absl::DeadlineExceededError("watch: silent");
      if (!over.ok()) {
        traffic_.End(number, 0);
        return over;
      }
    } else {
      traffic_.End(number, expired || cut ? 200 : fault->code);
      if (expired) return ExpiredError("too old resource version");
      return cut ? absl::OkStatus() : FaultStatus(*fault);
    }
  }
  StoreQuery query;
  query.field_selector = options.field_selector;
  query.label_selector = options.label_selector;
  query.resource_version = options.resource_version;
  query.bookmarks = true;
  absl::StatusOr<std::unique_ptr<StoreWatch>> watch =
      store_->Watch(resource, namespace_name, query);
  traffic_.End(number, CodeOf(watch.status()));
  if (!watch.ok()) return watch.status();
  for (;;) {
    DRA_RETURN_IF_ERROR(call.Check("watch"));
    absl::StatusOr<std::optional<StoreEvent>> event =
        (*watch)->Next(std::min(call.Remaining(), absl::Hours(1)), call.stop);
    if (!event.ok()) {
      // A watch that was cut ends as an orderly end of the stream does.
      return absl::IsCancelled(event.status()) ? absl::OkStatus() : event.status();
    }
    if (event->has_value()) on_event({TypeOf((*event)->type), std::move((*event)->object)});
  }
}

absl::StatusOr<Json> FakeApiClient::Create(const kube::Resource& resource,
                                           absl::string_view namespace_name, const Json& object,
                                           const kube::WriteOptions& options, const Call& call) {
  RequestRecord record = Record("create", resource, namespace_name, "");
  if (const Json* metadata = Find(object, "metadata"); metadata != nullptr)
    record.name = StringOr(*metadata, "name");
  record.dry_run = options.dry_run;
  record.body = object;
  return Run(std::move(record), call,
             [&] { return store_->Create(resource, namespace_name, object, options.dry_run); });
}

absl::StatusOr<Json> FakeApiClient::Update(const kube::Resource& resource,
                                           absl::string_view namespace_name, absl::string_view name,
                                           const Json& object, const kube::WriteOptions& options,
                                           const Call& call) {
  RequestRecord record = Record("update", resource, namespace_name, name);
  record.dry_run = options.dry_run;
  record.body = object;
  return Run(std::move(record), call, [&] {
    return store_->Update(resource, namespace_name, name, "", object, options.dry_run);
  });
}

absl::Status FakeApiClient::Delete(const kube::Resource& resource, absl::string_view namespace_name,
                                   absl::string_view name, const kube::DeleteOptions& options,
                                   const Call& call) {
  return Run(Record("delete", resource, namespace_name, name), call,
             [&]() -> absl::StatusOr<Json> {
               DRA_RETURN_IF_ERROR(store_->Delete(resource, namespace_name, name, options));
               return Json();
             })
      .status();
}

absl::StatusOr<Json> FakeApiClient::Apply(const kube::Resource& resource,
                                          absl::string_view namespace_name, absl::string_view name,
                                          absl::string_view subresource,
                                          absl::string_view field_manager, const Json& object,
                                          const Call& call) {
  RequestRecord record = Record("patch", resource, namespace_name, name);
  record.subresource = std::string(subresource);
  record.field_manager = std::string(field_manager);
  record.body = object;
  return Run(std::move(record), call, [&] {
    return store_->Apply(resource, namespace_name, name, subresource, field_manager, true, object);
  });
}

}  // namespace dra::testing
