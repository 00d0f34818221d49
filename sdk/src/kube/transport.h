#pragma once

#include <curl/curl.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/call.h"
#include "dra/kube/http_api_client.h"
#include "dra/kube/kube_config.h"
#include "kube/credentials.h"
#include "kube/lane.h"
#include "kube/response.h"

namespace dra::kube {

struct Transfer;

struct HttpRequest {
  std::string method;  // "GET", "POST", "PUT", "PATCH", "DELETE"
  std::string path;    // with query
  std::string content_type;
  std::optional<std::string> body;
};

// HTTP to one server. A call in flight has a connection to itself, which its own thread drives; connections are kept
// and used again. Streams have connections of their own, driven by one IO thread, which also closes what calls gave up.
// A call that is cancelled or runs out of time closes its connection. Any thread.
class Transport {
 public:
  // `config` is valid. Internal if libcurl cannot be set up.
  static absl::StatusOr<std::unique_ptr<Transport>> Create(const ClusterConfig& config,
                                                           const HttpOptions& options);
  // Ends the calls that run with Cancelled and waits for them; streams have ended.
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // One request, one answer of any code. call.deadline is set. Errors: Unavailable (no answer), DeadlineExceeded,
  // Cancelled, ResourceExhausted (body over the limit). libcurl sends a request again by itself when a kept connection
  // turns out dead before a byte of the answer; an upload that was cut is
  // sent again once; a body that was handed out in full is never sent twice.
  absl::StatusOr<HttpResponse> Fetch(const HttpRequest& request,
                                     std::shared_ptr<const Credentials> credentials,
                                     const Call& call);

  // A request whose 2xx body goes to `on_bytes` piece by piece, in this thread, until it ends; other bodies are in the
  // result. `on_open` (may be empty) is called once, with the 2xx head of the answer. An error of on_bytes ends the stream. DeadlineExceeded after `silence` without a byte.
  absl::StatusOr<HttpResponse> Stream(
      const HttpRequest& request, std::shared_ptr<const Credentials> credentials,
      absl::Duration silence, const std::function<void()>& on_open,
      const std::function<absl::Status(absl::string_view)>& on_bytes, const Call& call);

 private:
  enum class Operation { kAdd, kResume, kAbandon };

  Transport(const ClusterConfig& config, const HttpOptions& options);
  // The request, set up on `easy`.
  std::shared_ptr<Transfer> SetUp(CURL* easy, const HttpRequest& request,
                                  std::shared_ptr<const Credentials> credentials,
                                  bool stream) const;
  void SetTls(CURL* easy, const Credentials& credentials) const;
  absl::StatusOr<HttpResponse> Result(Transfer& transfer) const;
  void Enqueue(Operation operation, std::shared_ptr<Transfer> transfer);

  absl::StatusOr<std::unique_ptr<Lane>> TakeLane();
  void GiveBack(std::unique_ptr<Lane> lane, bool usable);
  // The answer on `lane`. `usable` becomes false when the lane is not.
  absl::StatusOr<HttpResponse> FetchOn(Lane& lane, const HttpRequest& request,
                                       const std::shared_ptr<const Credentials>& credentials,
                                       const Call& call, bool* usable) const;

  void Run();
  void Apply(Operation operation, const std::shared_ptr<Transfer>& transfer);
  void Finish(CURL* easy, CURLcode result);

  const ClusterConfig config_;
  const HttpOptions options_;
  std::string base_url_;     // without a trailing slash
  std::string socket_path_;  // of a unix:// server
  std::string host_header_;  // set when base_url_ names the TLS server instead of the host
  curl_slist* connect_to_ = nullptr;
  CURLM* multi_ = nullptr;

  std::mutex mutex_;
  std::vector<std::pair<Operation, std::shared_ptr<Transfer>>> queue_;
  std::vector<std::unique_ptr<Lane>> idle_;  // with kept connections; the last was used last
  std::vector<std::unique_ptr<Lane>> given_up_;
  std::unordered_set<Lane*> busy_;
  std::condition_variable left_;  // busy_ has become smaller
  bool stopping_ = false;

  std::unordered_map<CURL*, std::shared_ptr<Transfer>> active_;  // IO thread only
  std::thread thread_;
};

}  // namespace dra::kube
