#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/file_system.h"
#include "dra/base/logger.h"
#include "dra/kube/api_client.h"
#include "dra/kube/kube_config.h"

namespace dra::kube {

struct HttpOptions {
  absl::Duration default_timeout =
      absl::Seconds(30);  // of a call without a deadline; watches have none
  absl::Duration connect_timeout = absl::Seconds(10);
  // A watch without one byte for this long counts as dead. Bookmarks come about once a minute.
  absl::Duration watch_silence = absl::Seconds(85);
  // timeoutSeconds of a watch is drawn from this range.
  absl::Duration watch_timeout_min = absl::Minutes(5);
  absl::Duration watch_timeout_max = absl::Minutes(10);
  // Token, certificate and CA files are read again after this long, and at once on 401.
  absl::Duration credentials_reload = absl::Seconds(50);
  absl::Duration exec_timeout = absl::Seconds(30);
  uint64_t max_body_bytes = 64u << 20;       // of one answer, unpacked
  uint64_t max_watch_line_bytes = 4u << 20;  // of one watch event
  int list_page_size = 500;
  // HTTP/2 by ALPN. Off: each call in flight has a connection of its own, so that a half-dead one costs one call.
  bool http2 = false;
  FileSystem* file_system =
      nullptr;  // for the credential files; null = the kernel's. Outlives the client.
};

// One finished request, for metrics. Retries of a request inside the client are seen singly.
struct RequestInfo {
  std::string verb;      // "get", "list", "watch", "create", "update", "delete", "apply", "raw"
  std::string resource;  // "resourceslices", with "/status" for a subresource; "" for raw
  int http_code = 0;     // 0: no answer
  absl::Duration took;   // of a watch: until its end
};
using RequestObserver = std::function<void(const RequestInfo&)>;  // any thread, must not block

// The real client: libcurl's multi interface, one IO thread, kept connections. A watch has a connection of its own.
// clock outlives the client; `observer` may be empty. InvalidArgument for a config that cannot work; no connection is
// made here. The destructor cancels what runs and returns in well under a second.
absl::StatusOr<std::unique_ptr<ApiClient>> MakeHttpApiClient(ClusterConfig config,
                                                             HttpOptions options, Clock* clock,
                                                             Logger logger,
                                                             RequestObserver observer = {});

}  // namespace dra::kube
