#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/json.h"
#include "dra/base/logger.h"
#include "dra/inventory/inventory.h"
#include "dra/kube/api_client.h"
#include "dra/loader/backend_handle.h"
#include "dra/publisher/planner.h"
#include "dra/publisher/publisher.h"
#include "nlohmann/json.hpp"
#include "publisher/refusals.h"
#include "publisher/repair_limiter.h"
#include "publisher/reporter.h"
#include "publisher/selection.h"
#include "publisher/slice_store.h"
#include "publisher/write_gate.h"

namespace dra::publisher {

// What shall be published.
struct Wanted {
  std::shared_ptr<const inventory::Snapshot> snapshot;  // null or not known: nothing is written
  HeldDevices held;
  bool withdrawn = false;  // nothing at all
  uint64_t turn = 0;       // of the gate; 0: another instance writes
};

struct PassResult {
  absl::Status status;  // OK, or what failed first
  bool equal = false;   // the store is as wanted; without a turn: complete
  absl::Duration again =
      absl::InfiniteDuration();  // run once more after this, if nothing happens before
};

// One pass of publishing after the other: resolve the node, probe the server, select, check, plan, write, until the
// store is as wanted or something fails. One thread; blocks for its API calls.
class Reconciler {
 public:
  using OnFields = std::function<void(const loader::ServerFields&)>;

  // All pointers outlive this; events and metrics may be null.
  Reconciler(const Options& options, kube::ApiClient* api, Clock* clock,
             observe::EventRecorder* events, observe::Metrics* metrics, Logger logger,
             SliceStore* store, WriteGate* gate, OnFields on_fields);

  PassResult Run(const Wanted& wanted, const std::stop_token& stop);

  // The node may have been recreated, so its UID is read again in the next pass.
  void ForgetNode() { node_checked_ = false; }
  // The server may be another one now; it is asked again, at most hourly.
  void WantProbe() { probe_wanted_ = true; }
  // Reads slices again whose fate a list has left open.
  absl::Status Verify(const std::vector<std::string>& names, const std::stop_token& stop);
  // Brings the store up to the server's state of now.
  absl::Status Refresh(const std::stop_token& stop);

  const std::string& node_uid() const { return node_uid_; }
  uint64_t creates() const { return creates_; }
  uint64_t updates() const { return updates_; }
  uint64_t deletes() const { return deletes_; }
  std::vector<inventory::Finding> findings() const { return reporter_.findings(); }

 private:
  // What was sent for a slice and what was answered: while both still stand, a difference is the server's own doing
  // and no reason to write again.
  struct Written {
    Json sent;
    Json answered;
  };
  enum class Step { kDone, kReplan, kFailed };

  absl::Status ResolveNode(const std::stop_token& stop);
  void Probe(const std::stop_token& stop);
  void SetFields(const loader::ServerFields& fields);
  // Another instance writes: only looks whether what is stored is complete.
  bool Observe(const Wanted& wanted);
  absl::Status Converge(const Wanted& wanted, const std::stop_token& stop, bool& equal);
  Selection SelectWanted(const Wanted& wanted);
  std::vector<Operation> MakePlan(const Selection& selection);
  bool Tolerate(const Json& stored, const Json& wanted_spec);
  // Holds the plan against the rules of the API: kReplan if something has to be left out for them.
  Step Check(const std::vector<Operation>& plan, const Wanted& wanted, absl::Status& error);
  Step Execute(const Operation& operation, const Wanted& wanted, const std::stop_token& stop,
               absl::Status& error);
  Step Write(const Operation& operation, const Wanted& wanted, const std::stop_token& stop,
             absl::Status& error);
  Step Answered(const Operation& operation, const Json& answer);
  Step Refused(const Operation& operation, const absl::Status& status, const Wanted& wanted,
               const std::stop_token& stop, absl::Status& error);
  Step ReadAgain(const std::string& name, const std::stop_token& stop, absl::Status& error);
  // True if the operation undoes what a stranger did.
  bool IsRepair(const Operation& operation) const;
  std::string RepairKey(const Operation& operation) const;
  absl::Duration Backoff(const absl::Status& status);
  void Count(const char* verb, const absl::Status& status, const char* ok_code);
  void ShowGauges(const Selection& selection, bool equal);
  Call CallFor(const std::stop_token& stop) const;

  const Options options_;
  kube::ApiClient* const api_;
  Clock* const clock_;
  observe::Metrics* const metrics_;
  const Logger logger_;
  SliceStore* const store_;
  WriteGate* const gate_;
  const OnFields on_fields_;
  Reporter reporter_;

  std::string node_uid_;
  bool node_checked_ = false;
  MonotonicTime node_checked_at_;

  loader::ServerFields fields_;
  bool fields_told_ = false;
  bool probed_ = false;
  bool probe_wanted_ = true;
  MonotonicTime probed_at_;
  MonotonicTime probe_retry_at_;
  int probe_failures_ = 0;
  absl::Status probe_error_;

  Refusals refusals_;
  RepairLimiter limiter_;
  std::map<std::string, Written> written_;  // by slice name
  std::set<std::string> created_keys_;      // pool and index of slices made since start
  std::map<std::string, Report> lost_;  // fields that the server has dropped, since the last probe
  absl::Duration held_back_ = absl::InfiniteDuration();  // of the current pass
  int failures_ = 0;                                     // passes in a row
  uint64_t backoffs_ = 0;
  uint64_t creates_ = 0, updates_ = 0, deletes_ = 0;
};

}  // namespace dra::publisher
