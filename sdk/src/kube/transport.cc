#include "kube/transport.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "dra/base/status.h"
#include "kube/transfer.h"

namespace dra::kube {
namespace {

constexpr char kUserAgent[] = "dra-sdk/" DRA_SDK_VERSION;
constexpr long kKeepAliveIdleSeconds = 30;
constexpr long kKeepAliveIntervalSeconds = 10;
constexpr size_t kMaxKeptConnections = 32;
// libcurl wakes by itself for its own timers; this only bounds a sleep with nothing to do.
constexpr int kLoopPollMs = 60'000;
// True if a connection ended before the whole body was handed out and before any answer.
bool CutDuringUpload(const Transfer& transfer) {
  return (transfer.result == CURLE_SEND_ERROR || transfer.result == CURLE_RECV_ERROR ||
          transfer.result == CURLE_GOT_NOTHING) &&
         transfer.response.code == 0 && transfer.body_given > 0 &&
         transfer.body_given < transfer.request.body->size();
}

curl_blob Blob(const std::string& text) {
  return curl_blob{const_cast<char*>(text.data()), text.size(), CURL_BLOB_NOCOPY};
}

}  // namespace

Transport::Transport(const ClusterConfig& config, const HttpOptions& options)
    : config_(config), options_(options) {}

absl::StatusOr<std::unique_ptr<Transport>> Transport::Create(const ClusterConfig& config,
                                                             const HttpOptions& options) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  std::unique_ptr<Transport> transport(new Transport(config, options));
  absl::string_view server = config.server;
  if (absl::ConsumePrefix(&server, "unix://")) {
    transport->socket_path_ = std::string(server);
    transport->base_url_ = "http://localhost";
  } else {
    transport->base_url_ = std::string(absl::StripSuffix(server, "/"));
    if (!config.tls_server_name.empty() && absl::StartsWith(server, "https://")) {
      // The name goes into the URL, where libcurl takes SNI and the checked name from, and the connection elsewhere.
      const absl::string_view rest = absl::string_view(transport->base_url_).substr(8);
      const size_t slash = std::min(rest.find('/'), rest.size());
      const std::string authority(rest.substr(0, slash));
      const size_t colon = authority.rfind(':');
      const bool has_port =
          colon != std::string::npos && authority.find(']', colon) == std::string::npos;
      const std::string port = has_port ? authority.substr(colon + 1) : "443";
      const std::string host = has_port ? authority.substr(0, colon) : authority;
      const std::string path(rest.substr(slash));
      transport->host_header_ = absl::StrCat("Host: ", authority);
      transport->connect_to_ =
          curl_slist_append(nullptr, absl::StrCat("::", host, ":", port).c_str());
      transport->base_url_ = absl::StrCat("https://", config.tls_server_name, ":", port, path);
    }
  }
  transport->multi_ = curl_multi_init();
  if (transport->multi_ == nullptr)
    return absl::InternalError("libcurl cannot make a multi handle");
  curl_multi_setopt(transport->multi_, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
  transport->thread_ = std::thread([raw = transport.get()] { raw->Run(); });
  return transport;
}

Transport::~Transport() {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    stopping_ = true;
    for (Lane* lane : busy_) lane->Interrupt();
    left_.wait(lock, [this] { return busy_.empty(); });
  }
  if (thread_.joinable()) {
    curl_multi_wakeup(multi_);
    thread_.join();
  }
  if (multi_ != nullptr) curl_multi_cleanup(multi_);
  curl_slist_free_all(connect_to_);
}

void Transport::SetTls(CURL* easy, const Credentials& credentials) const {
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, config_.insecure_skip_tls_verify ? 0L : 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, config_.insecure_skip_tls_verify ? 0L : 2L);
  // libcurl compares these with what a kept connection was made with: rotated certificates mean new connections.
  if (!credentials.ca.empty()) {
    curl_blob blob = Blob(credentials.ca);
    curl_easy_setopt(easy, CURLOPT_CAINFO, nullptr);
    curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
    curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &blob);
  }
  if (!credentials.client_certificate.empty()) {
    curl_blob certificate = Blob(credentials.client_certificate);
    curl_blob key = Blob(credentials.client_key);
    curl_easy_setopt(easy, CURLOPT_SSLCERTTYPE, "PEM");
    curl_easy_setopt(easy, CURLOPT_SSLCERT_BLOB, &certificate);
    curl_easy_setopt(easy, CURLOPT_SSLKEYTYPE, "PEM");
    curl_easy_setopt(easy, CURLOPT_SSLKEY_BLOB, &key);
  }
  if (connect_to_ != nullptr) curl_easy_setopt(easy, CURLOPT_CONNECT_TO, connect_to_);
}

std::shared_ptr<Transfer> Transport::SetUp(CURL* easy, const HttpRequest& request,
                                           std::shared_ptr<const Credentials> credentials,
                                           bool stream) const {
  auto transfer = std::make_shared<Transfer>();
  transfer->easy = easy;
  transfer->request = request;
  transfer->credentials = std::move(credentials);
  transfer->stream = stream;
  transfer->max_body_bytes = options_.max_body_bytes;
  transfer->url = absl::StrCat(base_url_, request.path);
  transfer->last_byte = std::chrono::steady_clock::now();

  const auto add_header = [&transfer](const std::string& line) {
    transfer->headers = curl_slist_append(transfer->headers, line.c_str());
  };
  add_header("Accept: application/json");
  if (!transfer->credentials->token.empty()) {
    add_header(absl::StrCat("Authorization: Bearer ", transfer->credentials->token));
  }
  if (!host_header_.empty()) add_header(host_header_);

  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_URL, transfer->url.c_str());
  curl_easy_setopt(easy, CURLOPT_USERAGENT, kUserAgent);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(absl::ToInt64Milliseconds(options_.connect_timeout)));
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, kKeepAliveIdleSeconds);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
  curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  // A stream stays on HTTP/1.1: one TCP connection, one direction, nothing to be half dead on.
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                   options_.http2 && !stream ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1);
  if (!socket_path_.empty()) curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, socket_path_.c_str());
  if (!config_.proxy_url.empty()) {
    curl_easy_setopt(easy, CURLOPT_PROXY, config_.proxy_url.c_str());
  } else if (!absl::StartsWith(base_url_, "https://")) {
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
  }
  if (absl::StartsWith(base_url_, "https://")) SetTls(easy, *transfer->credentials);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Transfer::OnHeader);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer.get());
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Transfer::OnBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer.get());
  if (stream) {
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
  } else {
    curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "gzip");
  }
  if (request.body.has_value()) {
    add_header(absl::StrCat("Content-Type: ", request.content_type));
    add_header("Expect:");  // no 100-continue: it costs a round trip
    curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body->size()));
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, &Transfer::OnRead);
    curl_easy_setopt(easy, CURLOPT_READDATA, transfer.get());
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, &Transfer::OnSeek);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, transfer.get());
  }
  if (request.method != "GET")
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, transfer->request.method.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
  return transfer;
}

absl::StatusOr<std::unique_ptr<Lane>> Transport::TakeLane() {
  std::unique_ptr<Lane> lane;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      lane = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (lane == nullptr) {
    DRA_ASSIGN_OR_RETURN(lane, Lane::Create());
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return absl::CancelledError("the API client was stopped");
  busy_.insert(lane.get());
  return lane;
}

void Transport::GiveBack(std::unique_ptr<Lane> lane, bool usable) {
  Lane* const key = lane.get();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    usable = usable && idle_.size() < kMaxKeptConnections;
    if (!usable) given_up_.push_back(std::move(lane));
  }
  if (!usable) curl_multi_wakeup(multi_);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (usable) idle_.push_back(std::move(lane));
  busy_.erase(key);
  left_.notify_all();  // with the lock: once it is free, this may be destroyed
}

absl::StatusOr<HttpResponse> Transport::FetchOn(
    Lane& lane, const HttpRequest& request, const std::shared_ptr<const Credentials>& credentials,
    const Call& call, bool* usable) const {
  for (bool retried = false;; retried = true) {
    const std::shared_ptr<Transfer> transfer = SetUp(lane.easy(), request, credentials, false);
    const std::optional<CURLcode> result = lane.Drive(transfer, call);
    if (!result.has_value()) {
      *usable = false;
      DRA_RETURN_IF_ERROR(call.Check("no answer"));
      return absl::CancelledError("the API client was stopped");
    }
    transfer->result = *result;
    // A connection that broke during the upload: the server cannot have carried out half a request.
    if (!retried && CutDuringUpload(*transfer)) continue;
    return Result(*transfer);
  }
}

absl::StatusOr<HttpResponse> Transport::Fetch(const HttpRequest& request,
                                              std::shared_ptr<const Credentials> credentials,
                                              const Call& call) {
  DRA_RETURN_IF_ERROR(call.Check("no answer"));
  DRA_ASSIGN_OR_RETURN(std::unique_ptr<Lane> lane, TakeLane());
  bool usable = true;
  absl::StatusOr<HttpResponse> response = FetchOn(*lane, request, credentials, call, &usable);
  GiveBack(std::move(lane), usable);
  return response;
}

absl::StatusOr<HttpResponse> Transport::Stream(
    const HttpRequest& request, std::shared_ptr<const Credentials> credentials,
    absl::Duration silence, const std::function<void()>& on_open,
    const std::function<absl::Status(absl::string_view)>& on_bytes, const Call& call) {
  DRA_RETURN_IF_ERROR(call.Check("no answer"));
  CURL* const easy = curl_easy_init();
  if (easy == nullptr) return absl::ResourceExhaustedError("libcurl cannot make a handle");
  const std::shared_ptr<Transfer> transfer = SetUp(easy, request, std::move(credentials), true);
  Enqueue(Operation::kAdd, transfer);
  const auto abandon = [&](absl::Status status) {
    Enqueue(Operation::kAbandon, transfer);
    return status;
  };
  bool told_open = !on_open;
  std::unique_lock<std::mutex> lock(transfer->mutex);
  while (true) {
    const MonotonicTime quiet_until = transfer->last_byte + absl::ToChronoNanoseconds(silence);
    transfer->changed.wait_until(
        lock, call.stop, std::min(quiet_until, call.deadline.value_or(quiet_until)), [&] {
          return transfer->done || !transfer->received.empty() || (transfer->open && !told_open);
        });
    if (absl::Status wanted = call.Check("watch"); !wanted.ok()) {
      lock.unlock();
      return abandon(wanted);
    }
    if (transfer->open && !std::exchange(told_open, true)) {
      lock.unlock();
      on_open();
      lock.lock();
      continue;
    }
    if (!transfer->received.empty()) {
      std::string bytes;
      bytes.swap(transfer->received);
      const bool resume = std::exchange(transfer->paused, false);
      lock.unlock();
      if (resume) Enqueue(Operation::kResume, transfer);
      if (absl::Status handled = on_bytes(bytes); !handled.ok()) return abandon(handled);
      lock.lock();
      // The reader's own time is not the server's silence.
      transfer->last_byte = std::max(transfer->last_byte, std::chrono::steady_clock::now());
      continue;
    }
    if (transfer->done) return Result(*transfer);
    if (std::chrono::steady_clock::now() >=
        transfer->last_byte + absl::ToChronoNanoseconds(silence)) {
      lock.unlock();
      return abandon(absl::DeadlineExceededError(absl::StrCat(
          "the stream was silent for ", absl::FormatDuration(silence), ", taken for dead")));
    }
  }
}

absl::StatusOr<HttpResponse> Transport::Result(Transfer& transfer) const {
  if (transfer.result == CURLE_OK) return std::move(transfer.response);
  if (transfer.too_large) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the answer is over ", options_.max_body_bytes, " bytes"));
  }
  if (transfer.result == CURLE_ABORTED_BY_CALLBACK)
    return absl::CancelledError("the API client was stopped");
  const std::string text = absl::StrCat(
      "no answer from ", config_.server, ": ",
      transfer.error[0] != '\0' ? transfer.error : curl_easy_strerror(transfer.result));
  if (transfer.result == CURLE_URL_MALFORMAT) return absl::InvalidArgumentError(text);
  if (transfer.result == CURLE_OPERATION_TIMEDOUT) return absl::DeadlineExceededError(text);
  ApiError error;
  error.message = text;
  if (transfer.response.code != 0) error.message = absl::StrCat("the answer was cut: ", text);
  return MakeApiStatus(error, "");
}

void Transport::Enqueue(Operation operation, std::shared_ptr<Transfer> transfer) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.emplace_back(operation, std::move(transfer));
  }
  curl_multi_wakeup(multi_);
}

void Transport::Run() {
  std::vector<std::pair<Operation, std::shared_ptr<Transfer>>> work;
  std::vector<std::unique_ptr<Lane>> given_up;
  while (true) {
    bool stopping = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      work.swap(queue_);
      given_up.swap(given_up_);
      stopping = stopping_;
    }
    given_up.clear();
    for (const auto& [operation, transfer] : work) Apply(operation, transfer);
    work.clear();
    if (stopping) break;
    int running = 0;
    curl_multi_perform(multi_, &running);
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg == CURLMSG_DONE) Finish(message->easy_handle, message->data.result);
    }
    curl_multi_poll(multi_, nullptr, 0, kLoopPollMs, nullptr);
  }
  while (!active_.empty()) Finish(active_.begin()->first, CURLE_ABORTED_BY_CALLBACK);
}

void Transport::Apply(Operation operation, const std::shared_ptr<Transfer>& transfer) {
  switch (operation) {
    case Operation::kAdd:
      active_.emplace(transfer->easy, transfer);
      if (curl_multi_add_handle(multi_, transfer->easy) != CURLM_OK)
        Finish(transfer->easy, CURLE_FAILED_INIT);
      return;
    case Operation::kResume:
      if (const auto found = active_.find(transfer->easy);
          found != active_.end() && found->second == transfer) {
        curl_easy_pause(transfer->easy, CURLPAUSE_CONT);
      }
      return;
    case Operation::kAbandon: {
      const auto found = active_.find(transfer->easy);
      if (found == active_.end() || found->second != transfer) return;
      Finish(transfer->easy, CURLE_ABORTED_BY_CALLBACK);
      return;
    }
  }
}

void Transport::Finish(CURL* easy, CURLcode result) {
  const auto found = active_.find(easy);
  if (found == active_.end()) return;
  const std::shared_ptr<Transfer> transfer = std::move(found->second);
  active_.erase(found);
  curl_multi_remove_handle(multi_, easy);
  curl_easy_cleanup(easy);
  {
    const std::lock_guard<std::mutex> lock(transfer->mutex);
    transfer->easy = nullptr;
    transfer->result = result;
    transfer->done = true;
  }
  // Without the lock: whom this wakes would run into it at once and sleep again.
  transfer->changed.notify_all();
}

}  // namespace dra::kube
