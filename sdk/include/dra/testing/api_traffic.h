#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dra/base/json.h"
#include "dra/kube/api_client.h"

namespace dra::testing {

// Which requests are meant; "" matches all.
struct RequestMatcher {
  std::string verb;  // get list watch create update patch delete deletecollection, or "discovery"
  std::string resource;  // plural
  std::string name;
  std::string namespace_name;
  std::string subresource;
  bool include_dry_run = true;
};

struct RequestRecord {
  int number = 0;  // from 1
  std::string verb;
  std::string resource;
  std::string namespace_name;
  std::string name;
  std::string subresource;
  std::string field_selector;
  std::string label_selector;
  std::string resource_version;  // asked for, of a list or watch
  std::string field_manager;
  std::string authorization;  // header, HTTP only
  bool dry_run = false;
  Json body;
  int code = 0;  // of the answer; 0: none yet, or none at all
};

// What goes wrong with a request instead of, or after, its answer.
struct ApiFault {
  enum class Kind {
    kStatus,      // a Status body: code, reason, message, causes, retry_after
    kPlainText,   // code, message as text/plain: what priority-and-fairness sends with 429
    kHtml,        // code, an HTML page: what a proxy sends
    kEmpty,       // code, no body
    kOtherKind,   // code 200, a JSON object of another kind than the wanted one
    kGarbage,     // code 200, application/json that is not JSON
    kCut,         // the connection ends without an answer
    kHalfAnswer,  // the connection ends in the middle of the body
    kBlackHole,   // nothing comes until the caller gives up or the faults are cleared
    kDelay,       // the true answer, `delay` later
    kExpired,     // of a watch: status 200, then an ERROR event with code 410
    kCutWatch,    // of a watch: status 200, then the end of the stream
  };
  Kind kind = Kind::kStatus;
  RequestMatcher match;
  int skip = 0;            // so many matching requests pass first
  int times = 1;           // so many are hit; 0: all until ClearFaults
  bool carry_out = false;  // the request takes effect first, only its answer is lost or replaced
  int code = 500;
  std::string reason;
  std::string message;
  std::vector<kube::ApiError::Cause> causes;
  std::optional<absl::Duration> retry_after;  // whole seconds
  absl::Duration delay;
};

// The log of an API double's requests, and the faults it plays. Any thread.
class ApiTraffic {
 public:
  ApiTraffic();
  ~ApiTraffic();
  ApiTraffic(const ApiTraffic&) = delete;
  ApiTraffic& operator=(const ApiTraffic&) = delete;

  // Faults are tried in the order of their injection; the first that matches and is not used up is played.
  void Inject(ApiFault fault);
  // Also lets go of requests in a black hole (they end as kCut) and ends delays.
  void ClearFaults();

  std::vector<RequestRecord> Requests(const RequestMatcher& matcher = {}) const;
  int Count(const RequestMatcher& matcher = {}) const;
  void ResetLog();
  // Waits until at least `count` matching requests have been answered (or cut). False after `patience`.
  bool WaitForCount(const RequestMatcher& matcher, int count,
                    absl::Duration patience = absl::Seconds(10)) const;

  // -- for the doubles --
  // Logs a request; its number, and the fault to play.
  std::pair<int, std::optional<ApiFault>> Begin(RequestRecord record);
  void End(int number, int code);
  // Waits `duration`; false if ClearFaults was called or `stop` requested meanwhile.
  bool Hold(absl::Duration duration, const std::stop_token& stop) const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace dra::testing
