#include "dra/testing/api_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "dra/base/status.h"
#include "nlohmann/json.hpp"
#include "testing/api_errors.h"
#include "testing/api_routes.h"
#include "testing/http_listener.h"

namespace dra::testing {
namespace {

constexpr const char* kJsonType = "application/json";
// How often an idle watch looks whether its client is still there.
constexpr absl::Duration kPeerCheck = absl::Milliseconds(50);

std::string Parameter(const httplib::Request& request, const char* key) {
  return request.has_param(key) ? request.get_param_value(key) : std::string();
}
bool Flag(const httplib::Request& request, const char* key) {
  const std::string value = Parameter(request, key);
  return value == "1" || value == "true" || (value.empty() && request.has_param(key));
}

StoreQuery QueryOf(const httplib::Request& request) {
  StoreQuery query;
  query.field_selector = Parameter(request, "fieldSelector");
  query.label_selector = Parameter(request, "labelSelector");
  query.resource_version = Parameter(request, "resourceVersion");
  query.continue_token = Parameter(request, "continue");
  query.bookmarks = Flag(request, "allowWatchBookmarks");
  query.initial_events = Flag(request, "sendInitialEvents");
  if (!absl::SimpleAtoi(Parameter(request, "limit"), &query.limit)) query.limit = 0;
  return query;
}

std::string VerbOf(const httplib::Request& request, const ApiRoute& route) {
  if (request.method == "POST") return "create";
  if (request.method == "PUT") return "update";
  if (request.method == "PATCH") return "patch";
  if (request.method == "DELETE") return route.name.empty() ? "deletecollection" : "delete";
  if (!route.name.empty()) return "get";
  return Flag(request, "watch") ? "watch" : "list";
}

// As the API server does, only large answers are compressed (defaultGzipThresholdBytes of k8s.io/apiserver's
// responsewriters); the library would compress every one that it holds as a string.
void SendJson(httplib::Response& response, int code, const Json& body) {
  constexpr size_t kCompressedFrom = size_t{128} << 10;
  response.status = code;
  std::string text = DumpJson(body) + "\n";
  if (text.size() >= kCompressedFrom) return response.set_content(std::move(text), kJsonType);
  const size_t size = text.size();
  response.set_content_provider(
      size, kJsonType,
      [text = std::move(text)](size_t offset, size_t length, httplib::DataSink& sink) {
        return sink.write(text.data() + offset, length);
      });
}

int SendStatus(httplib::Response& response, const absl::Status& status) {
  const Json body = StatusBody(status);
  const int code = static_cast<int>(IntOr(body, "code", 500));
  SendJson(response, code, body);
  return code;
}

std::string EventLine(const std::string& type, const Json& object) {
  return DumpJson({{"type", type}, {"object", object}}) + "\n";
}

}  // namespace

struct FakeApiServer::Impl {
  explicit Impl(ApiServerOptions given)
      : options(std::move(given)),
        store(options.profile, options.clock),
        token(options.bearer_token),
        listener([this](const httplib::Request& request, httplib::Response& response,
                        Connection& connection) { Handle(request, response, connection); }) {}

  void Handle(const httplib::Request& request, httplib::Response& response, Connection& connection);
  int PlayFault(const ApiFault& fault, const std::string& verb, httplib::Response& response,
                Connection& connection, const std::function<int()>& carry_out);
  int Answer(const httplib::Request& request, const ApiRoute& route, const std::string& verb,
             const Json& body, httplib::Response& response, Connection& connection);
  absl::StatusOr<Json> Write(const httplib::Request& request, const ApiRoute& route,
                             const std::string& verb, const Json& body);
  int AnswerWatch(const httplib::Request& request, const ApiRoute& route,
                  httplib::Response& response, Connection& connection);
  std::string Token() {
    absl::MutexLock lock(&mutex);
    return token;
  }

  const ApiServerOptions options;
  ObjectStore store;
  ApiTraffic traffic;
  absl::Mutex mutex;
  std::string token ABSL_GUARDED_BY(mutex);
  std::stop_source stopping;
  int bound_port = 0;
  HttpListener listener;  // last: its threads use all of the above
};

void FakeApiServer::Impl::Handle(const httplib::Request& request, httplib::Response& response,
                                 Connection& connection) {
  const std::optional<ApiRoute> route = ParseRoute(request.path);
  RequestRecord record;
  record.verb = route.has_value() ? VerbOf(request, *route) : "discovery";
  record.name = request.path;
  record.authorization = request.get_header_value("Authorization");
  record.dry_run = request.has_param("dryRun");
  Json body;
  absl::Status bad_body;
  if (!request.body.empty()) {
    absl::StatusOr<Json> parsed = ParseJson(request.body, "request body");
    if (parsed.ok()) {
      body = *std::move(parsed);
    } else {
      bad_body = BadRequestError(parsed.status().message());
    }
  }
  if (route.has_value()) {
    record.resource = route->resource->plural;
    record.namespace_name = route->namespace_name;
    record.name = route->name;
    record.subresource = route->subresource;
    record.field_selector = Parameter(request, "fieldSelector");
    record.label_selector = Parameter(request, "labelSelector");
    record.resource_version = Parameter(request, "resourceVersion");
    record.field_manager = Parameter(request, "fieldManager");
    record.body = body;
    if (record.verb == "create") {
      if (const Json* metadata = Find(body, "metadata")) record.name = StringOr(*metadata, "name");
    }
  }
  const std::string verb = record.verb;
  const std::string wanted = Token();
  const bool allowed = wanted.empty() || record.authorization == absl::StrCat("Bearer ", wanted);
  const auto [number, fault] = traffic.Begin(std::move(record));
  const auto answer = [&]() -> int {
    if (!allowed) return SendStatus(response, OtherError(401, "Unauthorized", "Unauthorized"));
    if (!bad_body.ok()) return SendStatus(response, bad_body);
    if (route.has_value()) return Answer(request, *route, verb, body, response, connection);
    if (request.path == "/healthz" || request.path == "/readyz" || request.path == "/livez") {
      response.set_content("ok", "text/plain");
      return 200;
    }
    const std::optional<Json> document = DiscoveryDocument(request.path, store.profile());
    if (!document.has_value() || request.method != "GET")
      return SendStatus(response, NoSuchResourceError());
    SendJson(response, 200, *document);
    return 200;
  };
  const int code =
      fault.has_value() ? PlayFault(*fault, verb, response, connection, answer) : answer();
  traffic.End(number, code);
}

int FakeApiServer::Impl::PlayFault(const ApiFault& fault, const std::string& verb,
                                   httplib::Response& response, Connection& connection,
                                   const std::function<int()>& carry_out) {
  using Kind = ApiFault::Kind;
  if (fault.kind == Kind::kDelay) {
    traffic.Hold(fault.delay, stopping.get_token());
    return carry_out();
  }
  if (fault.carry_out) {
    carry_out();
    response = httplib::Response();
  }
  if (fault.retry_after.has_value()) {
    response.set_header("Retry-After", absl::StrCat(absl::ToInt64Seconds(*fault.retry_after)));
  }
  switch (fault.kind) {
    case Kind::kStatus: {
      kube::ApiError error{fault.code, fault.reason, fault.message, fault.causes,
                           fault.retry_after};
      SendJson(response, fault.code, StatusBody(error));
      return fault.code;
    }
    case Kind::kPlainText:
      response.status = fault.code;
      response.set_content(
          fault.message.empty() ? "too many requests, please try again later.\n" : fault.message,
          "text/plain; charset=utf-8");
      return fault.code;
    case Kind::kHtml:
      response.status = fault.code;
      response.set_content("<html><body><h1>Bad Gateway</h1></body></html>", "text/html");
      return fault.code;
    case Kind::kEmpty:
      response.status = fault.code;
      response.set_content("", kJsonType);
      return fault.code;
    case Kind::kOtherKind:
      SendJson(response, 200, {{"kind", "ConfigMapList"}, {"apiVersion", "v1"}});
      return 200;
    case Kind::kGarbage:
      response.set_content("{\"kind\": \"Resou", kJsonType);
      return 200;
    case Kind::kHalfAnswer: {
      constexpr size_t kClaimed = 4096;
      response.set_content_provider(kClaimed, kJsonType,
                                    [&connection](size_t, size_t, httplib::DataSink& sink) {
                                      sink.write("{\"kind\": \"Half", 14);
                                      connection.Cut();
                                      return false;
                                    });
      return 200;
    }
    case Kind::kExpired:
    case Kind::kCutWatch: {
      response.status = 200;
      const std::string line =
          fault.kind == Kind::kExpired && verb == "watch"
              ? EventLine("ERROR", StatusBody(ExpiredError("too old resource version: 1 (2)")))
              : "";
      response.set_chunked_content_provider(kJsonType, [line](size_t, httplib::DataSink& sink) {
        if (!line.empty()) sink.write(line.data(), line.size());
        sink.done();
        return true;
      });
      return 200;
    }
    case Kind::kBlackHole:
      while (!connection.PeerGone() && !stopping.stop_requested() &&
             traffic.Hold(kPeerCheck, stopping.get_token())) {
      }
      connection.Cut();
      return 0;
    case Kind::kCut:
    case Kind::kDelay:
      break;
  }
  connection.Cut();
  return 0;
}

int FakeApiServer::Impl::Answer(const httplib::Request& request, const ApiRoute& route,
                                const std::string& verb, const Json& body,
                                httplib::Response& response, Connection& connection) {
  const std::string accept = request.get_header_value("Accept");
  if (!accept.empty() && !absl::StrContains(accept, "json") && !absl::StrContains(accept, "*/*")) {
    return SendStatus(response,
                      OtherError(406, "NotAcceptable", "only application/json is served"));
  }
  if (verb == "watch") return AnswerWatch(request, route, response, connection);
  if (verb == "list") {
    const absl::StatusOr<StoreList> list =
        store.List(*route.resource, route.namespace_name, QueryOf(request));
    if (!list.ok()) return SendStatus(response, list.status());
    Json metadata = {{"resourceVersion", list->resource_version}};
    if (!list->continue_token.empty()) {
      metadata["continue"] = list->continue_token;
      metadata["remainingItemCount"] = list->remaining;
    }
    SendJson(
        response, 200,
        {{"kind", absl::StrCat(route.resource->kind, "List")},
         {"apiVersion", route.resource->group.empty()
                            ? route.resource->version
                            : absl::StrCat(route.resource->group, "/", route.resource->version)},
         {"metadata", metadata},
         {"items", list->items}});
    return 200;
  }
  if (verb == "get") {
    const absl::StatusOr<Json> object =
        store.Get(*route.resource, route.namespace_name, route.name);
    if (!object.ok()) return SendStatus(response, object.status());
    SendJson(response, 200, *object);
    return 200;
  }
  const absl::StatusOr<Json> written = Write(request, route, verb, body);
  if (!written.ok()) return SendStatus(response, written.status());
  const int code = verb == "create" ? 201 : 200;
  SendJson(response, code, *written);
  return code;
}

absl::StatusOr<Json> FakeApiServer::Impl::Write(const httplib::Request& request,
                                                const ApiRoute& route, const std::string& verb,
                                                const Json& body) {
  const std::string dry = Parameter(request, "dryRun");
  if (!dry.empty() && dry != "All") return BadRequestError(absl::StrCat("invalid dryRun: ", dry));
  const bool dry_run = !dry.empty();
  const std::string type = request.get_header_value("Content-Type");
  const kube::Resource& resource = *route.resource;
  const auto unsupported = [&] {
    return OtherError(
        415, "UnsupportedMediaType",
        absl::StrCat("the body of the request was in an unknown format - got media type \"", type,
                     "\""));
  };
  if (verb == "create" || verb == "update") {
    if (!absl::StartsWith(type, kJsonType)) return unsupported();
    if (verb == "create") return store.Create(resource, route.namespace_name, body, dry_run);
    if (route.name.empty()) return OtherError(405, "MethodNotAllowed", "PUT needs a name");
    return store.Update(resource, route.namespace_name, route.name, route.subresource, body,
                        dry_run);
  }
  if (verb == "patch") {
    if (absl::StartsWith(type, "application/merge-patch+json")) {
      return store.MergePatch(resource, route.namespace_name, route.name, route.subresource, body,
                              dry_run);
    }
    if (!absl::StartsWith(type, "application/apply-patch+yaml")) return unsupported();
    return store.Apply(resource, route.namespace_name, route.name, route.subresource,
                       Parameter(request, "fieldManager"), Flag(request, "force"), body, dry_run);
  }
  if (verb == "deletecollection") {
    absl::StatusOr<int> deleted =
        store.DeleteCollection(resource, route.namespace_name, QueryOf(request));
    if (!deleted.ok()) return deleted.status();
  } else {
    kube::DeleteOptions conditions;
    if (const Json* preconditions = Find(body, "preconditions")) {
      conditions.uid = StringOr(*preconditions, "uid");
      conditions.resource_version = StringOr(*preconditions, "resourceVersion");
    }
    DRA_RETURN_IF_ERROR(
        store.Delete(resource, route.namespace_name, route.name, conditions, dry_run));
  }
  return Json({{"kind", "Status"},
               {"apiVersion", "v1"},
               {"metadata", Json::object()},
               {"status", "Success"}});
}

int FakeApiServer::Impl::AnswerWatch(const httplib::Request& request, const ApiRoute& route,
                                     httplib::Response& response, Connection& connection) {
  const StoreQuery query = QueryOf(request);
  absl::StatusOr<std::unique_ptr<StoreWatch>> opened =
      store.Watch(*route.resource, route.namespace_name, query);
  // An expired position is told inside the stream, as the server's watch cache does it.
  const std::optional<kube::ApiError> error = kube::ApiErrorOf(opened.status());
  if (!opened.ok() && !(error.has_value() && error->http_code == 410))
    return SendStatus(response, opened.status());
  int64_t seconds = 0;
  absl::Time until = absl::InfiniteFuture();
  if (absl::SimpleAtoi(Parameter(request, "timeoutSeconds"), &seconds) && seconds > 0) {
    until = absl::Now() + absl::Seconds(seconds);
  }
  const absl::Status refused = opened.status();
  std::shared_ptr<StoreWatch> watch =
      opened.ok() ? std::shared_ptr<StoreWatch>(*std::move(opened)) : nullptr;
  response.status = 200;
  response.set_chunked_content_provider(kJsonType, [this, watch, refused, until,
                                                    bookmarks = query.bookmarks,
                                                    &connection](size_t, httplib::DataSink& sink) {
    const auto send = [&](const std::string& line) { return sink.write(line.data(), line.size()); };
    if (watch == nullptr) {
      send(EventLine("ERROR", StatusBody(refused)));
      sink.done();
      return true;
    }
    const absl::Duration left = until - absl::Now();
    absl::StatusOr<std::optional<StoreEvent>> event =
        watch->Next(std::clamp(left, absl::ZeroDuration(), kPeerCheck), stopping.get_token());
    if (!event.ok()) {
      // A cut ends the connection hard, an expired position is said first.
      if (absl::IsCancelled(event.status())) {
        connection.Cut();
        return false;
      }
      send(EventLine("ERROR", StatusBody(event.status())));
      sink.done();
      return true;
    }
    if (event->has_value()) return send(EventLine((*event)->type, (*event)->object));
    if (stopping.stop_requested() || connection.PeerGone()) return false;
    if (absl::Now() < until) return true;
    if (bookmarks) {
      const StoreEvent last = watch->Bookmark();
      send(EventLine(last.type, last.object));
    }
    sink.done();
    return true;
  });
  return 200;
}

FakeApiServer::FakeApiServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<FakeApiServer>> FakeApiServer::Start(ApiServerOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  DRA_RETURN_IF_ERROR(
      Annotate(impl->listener.Listen(impl->options.unix_socket, 0), "start API server double"));
  impl->bound_port = impl->listener.port();
  return std::unique_ptr<FakeApiServer>(new FakeApiServer(std::move(impl)));
}

FakeApiServer::~FakeApiServer() {
  impl_->stopping.request_stop();
  impl_->listener.Close();
}

ObjectStore& FakeApiServer::store() { return impl_->store; }
ApiTraffic& FakeApiServer::traffic() { return impl_->traffic; }

std::string FakeApiServer::url() const {
  return impl_->options.unix_socket.empty() ? absl::StrCat("http://127.0.0.1:", impl_->bound_port)
                                            : std::string("http://localhost");
}
const std::string& FakeApiServer::unix_socket() const { return impl_->options.unix_socket; }

std::string FakeApiServer::KubeConfig() const {
  Json user = Json::object();
  if (const std::string token = impl_->Token(); !token.empty()) user["token"] = token;
  const Json config = {
      {"apiVersion", "v1"},
      {"kind", "Config"},
      {"current-context", "double"},
      {"clusters", {{{"name", "double"}, {"cluster", {{"server", url()}}}}}},
      {"users", {{{"name", "double"}, {"user", user}}}},
      {"contexts",
       {{{"name", "double"}, {"context", {{"cluster", "double"}, {"user", "double"}}}}}}};
  return DumpJsonPretty(config) + "\n";  // JSON is YAML
}

void FakeApiServer::SetBearerToken(absl::string_view token) {
  absl::MutexLock lock(&impl_->mutex);
  impl_->token = std::string(token);
}

void FakeApiServer::CutConnections() { impl_->listener.CutConnections(); }
void FakeApiServer::GoAway() {
  // Requests in a black hole or a delay would keep their threads; let them go first.
  impl_->traffic.ClearFaults();
  impl_->listener.Close();
}
absl::Status FakeApiServer::ComeBack() {
  return impl_->listener.Listen(impl_->options.unix_socket, impl_->bound_port);
}
int FakeApiServer::OpenConnections() const { return impl_->listener.OpenConnections(); }

}  // namespace dra::testing
