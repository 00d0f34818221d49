#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/file_system.h"
#include "dra/base/json.h"
#include "dra/base/logger.h"
#include "nlohmann/json.hpp"

namespace dra::driver {

// What an operator asks of a running driver, as a file in <data directory>/requests: docs/operations.md.

// drain.json: as long as it is there, the node gets no new work.
struct DrainRequest {
  enum class Mode { kTaint, kWithdraw };
  Mode mode = Mode::kTaint;
  absl::Time since;
  std::string by;
  friend bool operator==(const DrainRequest&, const DrainRequest&) = default;
};
// clear-fault-<anything>.json: a device's fault has gone.
struct ClearFaultRequest {
  std::string pool;  // "": the node's own
  std::string device;
  std::string evidence;
  std::string by;
  absl::Time at;
};

// Errors: InvalidArgument.
absl::StatusOr<DrainRequest> DecodeDrain(absl::string_view text);
absl::StatusOr<ClearFaultRequest> DecodeClearFault(absl::string_view text);
std::string EncodeDrain(const DrainRequest& request);
std::string EncodeClearFault(const ClearFaultRequest& request);

inline constexpr char kDrainFile[] = "drain.json";
inline constexpr char kClearFaultPrefix[] = "clear-fault-";
inline constexpr char kTakenPrefix[] = "taken-";
inline constexpr char kRefusedDirectory[] = "refused";

// Watches the directory. Several instances of a driver may: all see drain.json; a clear-fault is taken by one, by
// renaming it, and taken over by another if that one has died. Poll on one thread; the rest on any.
class Requests {
 public:
  // Does what is asked, durably. Unavailable: cannot tell yet, asked again at the next look. Another error: refused.
  // The text is the answer.
  using ClearFault = std::function<absl::StatusOr<std::string>(const ClearFaultRequest&)>;

  struct Result {
    std::string file;
    bool ok = false;
    std::string message;
    absl::Time at;
  };

  // fs and clock outlive this.
  Requests(FileSystem* fs, std::string directory, Clock* clock, Logger logger,
           ClearFault clear_fault, std::function<void(const Result&)> on_result);

  // Looks once; one listing where nothing is asked. What is malformed, foreign or a link is said once and ignored: a
  // drain that was on stays on while its file cannot be read.
  void Poll();

  std::optional<DrainRequest> Drain() const;
  // The last ones, oldest first.
  std::vector<Result> Results() const;

 private:
  static constexpr size_t kMaxResults = 16;
  static constexpr size_t kMaxRefused = 64;
  static constexpr uint64_t kMaxBytes = 16u << 10;
  static constexpr absl::Duration kTakerDied = absl::Minutes(1);

  absl::StatusOr<std::string> ReadRequest(const std::string& name);
  void LookAtDrain(bool listed);
  void LookAtClearFault(const std::string& name);
  void Answer(const std::string& name, const std::string& taken, const std::string& text,
              const absl::StatusOr<std::string>& answer);
  void Refuse(const std::string& name, const std::string& text, const std::string& reason);
  void SayOnce(const std::string& name, const std::string& problem);

  FileSystem* const fs_;
  const std::string directory_;
  Clock* const clock_;
  const Logger logger_;
  const ClearFault clear_fault_;
  const std::function<void(const Result&)> on_result_;
  std::map<std::string, std::string> said_;  // of Poll's thread: name -> problem

  mutable absl::Mutex mutex_;
  std::optional<DrainRequest> drain_ ABSL_GUARDED_BY(mutex_);
  std::deque<Result> results_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dra::driver
