#include "dra/observe/http_endpoint.h"

#include <arpa/inet.h>
#include <civetweb.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "dra/base/status.h"

namespace dra::observe {
namespace {

constexpr auto kRetryPeriod = std::chrono::seconds(1);
constexpr char kThreads[] = "2";  // one slow scraper must not hold the liveness probe
constexpr char kRequestTimeoutMs[] = "5000";

// "host:port" in the form civetweb listens at; host "", "*", "localhost", an IPv4 or a bracketed IPv6 address.
absl::StatusOr<std::string> ListeningPort(absl::string_view address) {
  const auto invalid = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("metrics address '", address, "': ", why,
                                                   ", wanted HOST:PORT, for example 0.0.0.0:8080"));
  };
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return invalid("no port");
  std::string host(address.substr(0, colon));
  int port = -1;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 || port > 65535) {
    return invalid("the port must be 0 to 65535");
  }
  if (host.empty() || host == "*") host = "0.0.0.0";
  if (host == "localhost") host = "127.0.0.1";
  in6_addr parsed{};
  const bool is_ipv4 = ::inet_pton(AF_INET, host.c_str(), &parsed) == 1;
  const bool is_ipv6 = host.size() > 2 && host.front() == '[' && host.back() == ']' &&
                       ::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &parsed) == 1;
  if (!is_ipv4 && !is_ipv6) return invalid("the host must be an IP address");
  return absl::StrCat(host, ":", port);
}

void Answer(mg_connection* connection, int code, const char* content_type,
            const std::string& body) {
  const std::string head =
      absl::StrCat("HTTP/1.1 ", code, code == 200 ? " OK" : " Service Unavailable",
                   "\r\nContent-Type: ", content_type, "\r\nContent-Length: ", body.size(),
                   "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n");
  const bool head_only = std::strcmp(mg_get_request_info(connection)->request_method, "HEAD") == 0;
  mg_write(connection, head.data(), head.size());
  if (!head_only) mg_write(connection, body.data(), body.size());
}

}  // namespace

struct HttpEndpoint::Impl {
  EndpointOptions options;
  const Metrics* const metrics;
  const ReadyFunction ready;
  const Logger logger;
  std::string listening_port;

  std::atomic<int> port{0};
  mg_context* server = nullptr;  // written by Start, or by the retry thread until it ends
  std::jthread retry;

  Impl(EndpointOptions endpoint_options, const Metrics* used_metrics, ReadyFunction ready_function,
       Logger used_logger)
      : options(std::move(endpoint_options)),
        metrics(used_metrics),
        ready(std::move(ready_function)),
        logger(std::move(used_logger)) {
    mg_init_library(0);
  }

  ~Impl() {
    if (retry.joinable()) {
      retry.request_stop();
      retry.join();
    }
    if (server != nullptr) mg_stop(server);
    mg_exit_library();
  }

  static int OnMetrics(mg_connection* connection, void* self) {
    Answer(connection, 200, "text/plain; version=0.0.4; charset=utf-8",
           static_cast<Impl*>(self)->metrics->Serialize());
    return 200;
  }

  static int OnHealthy(mg_connection* connection, void*) {
    Answer(connection, 200, "text/plain", "ok\n");
    return 200;
  }

  static int OnReady(mg_connection* connection, void* self) {
    const std::vector<Condition> conditions = static_cast<Impl*>(self)->ready();
    int code = 200;
    std::string body;
    for (const Condition& condition : conditions) {
      if (!condition.ok) code = 503;
      absl::StrAppend(&body, condition.ok ? "[+] " : "[-] ", condition.driver,
                      condition.driver.empty() ? "" : " ", condition.name,
                      condition.ok ? " ok" : ": ", condition.ok ? "" : condition.message, "\n");
    }
    Answer(connection, code, "text/plain", body.empty() ? "ok\n" : body);
    return code;
  }

  // Every path comes here; one without a handler civetweb would look for among files.
  static int OnRequest(mg_connection* connection, void* self) {
    const char* const uri = mg_get_request_info(connection)->local_uri;
    const std::string path = uri == nullptr ? "" : uri;
    if (path == "/metrics") return OnMetrics(connection, self);
    if (path == "/healthz") return OnHealthy(connection, self);
    if (path == "/readyz") return OnReady(connection, self);
    mg_send_http_error(connection, 404, "%s", "there are /metrics, /healthz and /readyz");
    return 404;
  }

  static int OnLog(const mg_connection*, const char*) { return 1; }  // it would print to stderr

  bool TryStart() {
    const char* settings[] = {
        "listening_ports", listening_port.c_str(), "num_threads", kThreads, "request_timeout_ms",
        kRequestTimeoutMs, "enable_keep_alive",    "no",          nullptr};
    mg_callbacks callbacks{};
    callbacks.log_message = &OnLog;
    mg_context* const started = mg_start(&callbacks, this, settings);
    if (started == nullptr) return false;
    mg_set_request_handler(started, "/", &OnRequest, this);
    mg_server_port ports[1] = {};
    if (mg_get_server_ports(started, 1, ports) == 1) port = ports[0].port;
    server = started;
    logger.Info(absl::StrCat("serving /metrics, /healthz and /readyz at ", options.address,
                             ", port ", port.load()));
    return true;
  }

  void Retry(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    while (true) {
      std::unique_lock<std::mutex> lock(mutex);
      wake.wait_for(lock, stop, kRetryPeriod, [] { return false; });
      if (stop.stop_requested() || TryStart()) return;
    }
  }
};

HttpEndpoint::HttpEndpoint(EndpointOptions options, const Metrics* metrics, ReadyFunction ready,
                           Logger logger)
    : impl_(std::make_unique<Impl>(std::move(options), metrics, std::move(ready),
                                   std::move(logger))) {}

HttpEndpoint::~HttpEndpoint() = default;

absl::Status HttpEndpoint::Start() {
  DRA_ASSIGN_OR_RETURN(impl_->listening_port, ListeningPort(impl_->options.address));
  if (impl_->TryStart()) return absl::OkStatus();
  impl_->logger.Warn(
      absl::StrCat("cannot listen at ", impl_->options.address,
                   ", an older instance may still hold the port; trying again each second"));
  impl_->retry =
      std::jthread([impl = impl_.get()](const std::stop_token& stop) { impl->Retry(stop); });
  return absl::OkStatus();
}

int HttpEndpoint::bound_port() const { return impl_->port; }

}  // namespace dra::observe
