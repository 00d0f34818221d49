#include "dra/kube/http_api_client.h"

#include <mutex>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "dra/base/status.h"
#include "kube/credentials.h"
#include "kube/request_path.h"
#include "kube/response.h"
#include "kube/transport.h"
#include "kube/watch_stream.h"
#include "nlohmann/json.hpp"

namespace dra::kube {
namespace {

constexpr size_t kMaxRemembered = 256;  // warnings and refusals that are logged once

// What one call is about, for messages, metrics and the hint on 403.
struct Subject {
  std::string verb;       // of RequestInfo
  const char* rbac_verb;  // of RBAC
  std::string group;
  std::string resource;  // "resourceclaims/status"
  std::string object;    // "ns/name", "" for collections

  std::string Text() const {
    return object.empty() ? absl::StrCat(verb, " ", resource)
                          : absl::StrCat(verb, " ", resource, " ", object);
  }
};

Subject MakeSubject(const char* verb, const char* rbac_verb, const Resource& resource,
                    absl::string_view namespace_name, absl::string_view name,
                    absl::string_view subresource = "") {
  Subject subject{verb, rbac_verb, resource.group, resource.plural, std::string(name)};
  if (!subresource.empty()) absl::StrAppend(&subject.resource, "/", subresource);
  if (!name.empty() && resource.namespaced)
    subject.object = absl::StrCat(namespace_name, "/", name);
  return subject;
}

std::string ApiVersion(const Resource& resource) {
  return resource.group.empty() ? resource.version
                                : absl::StrCat(resource.group, "/", resource.version);
}

class HttpApiClient final : public ApiClient {
 public:
  HttpApiClient(const ClusterConfig& config, const HttpOptions& options,
                std::unique_ptr<FileSystem> own_fs, FileSystem* fs, Clock* clock, Logger logger,
                RequestObserver observer, std::unique_ptr<Transport> transport)
      : options_(options),
        own_fs_(std::move(own_fs)),
        logger_(logger),
        observer_(std::move(observer)),
        credentials_(config, options.credentials_reload, options.exec_timeout, fs, clock,
                     std::move(logger)),
        transport_(std::move(transport)),
        random_(std::random_device{}()) {}

  absl::StatusOr<Json> Get(const Resource& resource, absl::string_view namespace_name,
                           absl::string_view name, const Call& call) override {
    const Subject subject = MakeSubject("get", "get", resource, namespace_name, name);
    DRA_RETURN_IF_ERROR(CheckName(subject, resource, namespace_name, name));
    return Object(subject, {"GET", ResourcePath(resource, namespace_name, name), "", std::nullopt},
                  resource.kind, call);
  }

  absl::StatusOr<ListResult> List(const Resource& resource, absl::string_view namespace_name,
                                  const ListOptions& options, const Call& call) override {
    const Call limited = WithDefaultTimeout(call);
    absl::StatusOr<ListResult> result =
        ListPages(resource, namespace_name, options, options_.list_page_size, limited);
    // A continue token has expired: once more, in one piece.
    if (absl::IsOutOfRange(result.status()))
      result = ListPages(resource, namespace_name, options, 0, limited);
    return result;
  }

  absl::Status Watch(const Resource& resource, absl::string_view namespace_name,
                     const WatchOptions& options,
                     const std::function<void(const WatchEvent&)>& on_event,
                     const Call& call) override {
    const Subject subject = MakeSubject("watch", "watch", resource, namespace_name, "");
    const std::string query = QueryString({{"watch", "1"},
                                           {"allowWatchBookmarks", "true"},
                                           {"resourceVersion", options.resource_version},
                                           {"fieldSelector", options.field_selector},
                                           {"labelSelector", options.label_selector},
                                           {"timeoutSeconds", absl::StrCat(WatchSeconds())}});
    const HttpRequest request{"GET", ResourcePath(resource, namespace_name, "") + query, "",
                              std::nullopt};
    WatchStream events(resource.kind, options_.max_watch_line_bytes, on_event);
    const auto stream = [&](std::shared_ptr<const Credentials> credentials) {
      return transport_->Stream(
          request, std::move(credentials), options_.watch_silence, options.on_open,
          [&events](absl::string_view bytes) { return events.Feed(bytes); }, call);
    };
    const absl::StatusOr<HttpResponse> response = Exchange(subject, call, stream);
    if (!response.ok()) return response.status();
    if (response->code / 100 == 2) return absl::OkStatus();
    return Explain(subject, MakeApiStatus(ErrorOfResponse(*response), subject.Text()));
  }

  absl::StatusOr<Json> Create(const Resource& resource, absl::string_view namespace_name,
                              const Json& object, const WriteOptions& options,
                              const Call& call) override {
    const Subject subject = MakeSubject("create", "create", resource, namespace_name, "");
    DRA_RETURN_IF_ERROR(CheckName(subject, resource, namespace_name, "-"));
    return Object(subject,
                  {"POST", ResourcePath(resource, namespace_name, "") + WriteQuery(options),
                   "application/json", DumpJson(object)},
                  resource.kind, call);
  }

  absl::StatusOr<Json> Update(const Resource& resource, absl::string_view namespace_name,
                              absl::string_view name, const Json& object,
                              const WriteOptions& options, const Call& call) override {
    const Subject subject = MakeSubject("update", "update", resource, namespace_name, name);
    DRA_RETURN_IF_ERROR(CheckName(subject, resource, namespace_name, name));
    return Object(subject,
                  {"PUT", ResourcePath(resource, namespace_name, name) + WriteQuery(options),
                   "application/json", DumpJson(object)},
                  resource.kind, call);
  }

  absl::Status Delete(const Resource& resource, absl::string_view namespace_name,
                      absl::string_view name, const DeleteOptions& options,
                      const Call& call) override {
    const Subject subject = MakeSubject("delete", "delete", resource, namespace_name, name);
    DRA_RETURN_IF_ERROR(CheckName(subject, resource, namespace_name, name));
    Json body = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
    if (!options.uid.empty()) body["preconditions"]["uid"] = options.uid;
    if (!options.resource_version.empty())
      body["preconditions"]["resourceVersion"] = options.resource_version;
    // The answer is the object or a Status of success.
    return Object(subject,
                  {"DELETE", ResourcePath(resource, namespace_name, name), "application/json",
                   DumpJson(body)},
                  "", call)
        .status();
  }

  absl::StatusOr<Json> Apply(const Resource& resource, absl::string_view namespace_name,
                             absl::string_view name, absl::string_view subresource,
                             absl::string_view field_manager, const Json& object,
                             const Call& call) override {
    const Subject subject =
        MakeSubject("apply", "patch", resource, namespace_name, name, subresource);
    DRA_RETURN_IF_ERROR(CheckName(subject, resource, namespace_name, name));
    const std::string query =
        QueryString({{"fieldManager", std::string(field_manager)}, {"force", "true"}});
    return Object(subject,
                  {"PATCH", ResourcePath(resource, namespace_name, name, subresource) + query,
                   "application/apply-patch+yaml", DumpJson(object)},
                  resource.kind, call);
  }

  absl::StatusOr<Json> GetRaw(absl::string_view path, const Call& call) override {
    const Subject subject{"raw", "get", "", "", std::string(path)};
    return Object(subject, {"GET", std::string(path), "", std::nullopt}, "", call);
  }

 private:
  static absl::Status CheckName(const Subject& subject, const Resource& resource,
                                absl::string_view namespace_name, absl::string_view name) {
    // "" would silently turn an object's path into that of its collection.
    if (name.empty())
      return absl::InvalidArgumentError(absl::StrCat(subject.Text(), ": the name is empty"));
    if (resource.namespaced && namespace_name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(subject.Text(), ": the namespace is empty"));
    }
    if (name == "." || name == "..") {
      return absl::InvalidArgumentError(absl::StrCat(subject.Text(), ": not a name"));
    }
    return absl::OkStatus();
  }

  static std::string WriteQuery(const WriteOptions& options) {
    return QueryString(
        {{"dryRun", options.dry_run ? "All" : ""}, {"fieldValidation", options.field_validation}});
  }

  Call WithDefaultTimeout(const Call& call) const {
    return call.deadline.has_value() ? call : call.AtMost(options_.default_timeout);
  }

  int64_t WatchSeconds() {
    const int64_t min = absl::ToInt64Seconds(options_.watch_timeout_min);
    const int64_t max = std::max(min, absl::ToInt64Seconds(options_.watch_timeout_max));
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::uniform_int_distribution<int64_t>(min, max)(random_);
  }

  // Runs `send` with fresh credentials, and once more with newer ones after a 401. Tells the observer of each try.
  template <typename Send>
  absl::StatusOr<HttpResponse> Exchange(const Subject& subject, const Call& call,
                                        const Send& send) {
    absl::StatusOr<std::shared_ptr<const Credentials>> credentials = credentials_.Current(call);
    if (!credentials.ok()) return Annotate(credentials.status(), subject.Text());
    absl::StatusOr<HttpResponse> response = Observed(subject, [&] { return send(*credentials); });
    if (response.ok() && response->code == 401 && credentials_.CanRenew()) {
      credentials = credentials_.Renew(*credentials, call);
      if (!credentials.ok())
        return Annotate(credentials.status(), absl::StrCat(subject.Text(), ": after 401"));
      response = Observed(subject, [&] { return send(*credentials); });
    }
    if (!response.ok()) return Annotate(response.status(), subject.Text());
    // Some proxies repeat the request's headers in their error pages, and those pages reach logs and Events.
    if (response->code >= 300 && !(*credentials)->token.empty()) {
      absl::StrReplaceAll({{(*credentials)->token, "[token withheld]"}}, &response->body);
      for (std::string& warning : response->warnings)
        absl::StrReplaceAll({{(*credentials)->token, "[token withheld]"}}, &warning);
    }
    for (const std::string& warning : response->warnings) {
      if (FirstTime(absl::StrCat("warning ", warning))) {
        logger_.Warn("the API server warns",
                     {{"rpc", subject.Text()}, {"error", warning.substr(0, 512)}});
      }
    }
    return response;
  }

  template <typename Send>
  absl::StatusOr<HttpResponse> Observed(const Subject& subject, const Send& send) {
    const MonotonicTime start = std::chrono::steady_clock::now();
    absl::StatusOr<HttpResponse> response = send();
    if (observer_) {
      observer_({subject.verb, subject.resource, response.ok() ? response->code : 0,
                 absl::FromChrono(std::chrono::steady_clock::now() - start)});
    }
    return response;
  }

  absl::StatusOr<Json> Object(const Subject& subject, const HttpRequest& request,
                              absl::string_view kind, const Call& call) {
    const Call limited = WithDefaultTimeout(call);
    const absl::StatusOr<HttpResponse> response =
        Exchange(subject, limited, [&](std::shared_ptr<const Credentials> credentials) {
          return transport_->Fetch(request, std::move(credentials), limited);
        });
    if (!response.ok()) return response.status();
    absl::StatusOr<Json> object = ObjectOfResponse(*response, kind, subject.Text());
    if (!object.ok()) return Explain(subject, object.status());
    return object;
  }

  absl::StatusOr<ListResult> ListPages(const Resource& resource, absl::string_view namespace_name,
                                       const ListOptions& options, int page_size,
                                       const Call& call) {
    const Subject subject = MakeSubject("list", "list", resource, namespace_name, "");
    ListResult result;
    std::string next;
    do {
      const std::string query =
          QueryString({{"fieldSelector", options.field_selector},
                       {"labelSelector", options.label_selector},
                       {"limit", page_size > 0 ? absl::StrCat(page_size) : ""},
                       {"continue", next}});
      DRA_ASSIGN_OR_RETURN(
          Json list,
          Object(subject,
                 {"GET", ResourcePath(resource, namespace_name, "") + query, "", std::nullopt},
                 resource.kind + "List", call));
      const Json* metadata = Find(list, "metadata");
      if (metadata == nullptr || !metadata->is_object() ||
          StringOr(*metadata, "resourceVersion").empty()) {
        return absl::DataLossError(
            absl::StrCat(subject.Text(), ": the list has no resourceVersion"));
      }
      result.resource_version = StringOr(*metadata, "resourceVersion");
      const std::string last = std::exchange(next, StringOr(*metadata, "continue"));
      if (!next.empty() && next == last) {
        return absl::DataLossError(absl::StrCat(subject.Text(), ": the continue token repeats"));
      }
      const auto items = list.find("items");
      if (items == list.end() || items->is_null()) continue;  // an empty list may be null
      if (!items->is_array())
        return absl::DataLossError(absl::StrCat(subject.Text(), ": items is not a list"));
      for (Json& item : *items) {
        if (!item.is_object())
          return absl::DataLossError(absl::StrCat(subject.Text(), ": an item is not an object"));
        // Left out by the server inside lists; consumers should not see the difference to a watch.
        if (!item.contains("kind")) item["kind"] = resource.kind;
        if (!item.contains("apiVersion")) item["apiVersion"] = ApiVersion(resource);
        result.items.push_back(std::move(item));
      }
    } while (!next.empty());
    return result;
  }

  // Adds to a 403 which permission is missing, and logs it once per verb and resource.
  absl::Status Explain(const Subject& subject, const absl::Status& status) {
    if (!absl::IsPermissionDenied(status) || subject.resource.empty()) return status;
    const std::string permission = absl::StrCat(subject.rbac_verb, " ", subject.resource);
    const std::string hint = absl::StrCat(
        "needs the permission to ", permission, ": RBAC rule apiGroups [\"", subject.group,
        "\"], resources [\"", subject.resource, "\"], verbs [\"", subject.rbac_verb, "\"]");
    if (FirstTime(absl::StrCat("permission ", permission))) {
      logger_.Error(absl::StrCat("the API server refuses: ", hint),
                    {{"error", std::string(status.message())}});
    }
    absl::Status explained(status.code(), absl::StrCat(status.message(), " (", hint, ")"));
    status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
      explained.SetPayload(type, payload);
    });
    return explained;
  }

  bool FirstTime(const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return seen_.size() < kMaxRemembered && seen_.insert(text).second;
  }

  const HttpOptions options_;
  const std::unique_ptr<FileSystem> own_fs_;
  const Logger logger_;
  const RequestObserver observer_;
  CredentialSource credentials_;
  const std::unique_ptr<Transport> transport_;
  std::mutex mutex_;
  std::mt19937_64 random_;
  std::set<std::string> seen_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ApiClient>> MakeHttpApiClient(ClusterConfig config,
                                                             HttpOptions options, Clock* clock,
                                                             Logger logger,
                                                             RequestObserver observer) {
  DRA_RETURN_IF_ERROR(Annotate(ValidateClusterConfig(config), "API client"));
  std::unique_ptr<FileSystem> own_fs;
  if (options.file_system == nullptr) own_fs = std::make_unique<PosixFileSystem>();
  FileSystem* const fs = own_fs != nullptr ? own_fs.get() : options.file_system;
  DRA_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport, Transport::Create(config, options));
  return std::make_unique<HttpApiClient>(config, options, std::move(own_fs), fs, clock,
                                         std::move(logger), std::move(observer),
                                         std::move(transport));
}

}  // namespace dra::kube
