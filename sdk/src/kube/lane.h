#pragma once

#include <curl/curl.h>

#include <atomic>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "dra/base/call.h"

namespace dra::kube {

struct Transfer;

// A connection to the server, kept from one call to the next, and the handles to drive it. One call at a time has it,
// and that call's own thread drives it: a GET on the way to a pod waits for no other thread to be woken.
class Lane {
 public:
  // ResourceExhausted if libcurl cannot make a handle.
  static absl::StatusOr<std::unique_ptr<Lane>> Create();
  // May block while a name is looked up, which libcurl cannot break off.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  CURL* easy() const { return easy_; }

  // Runs what is set up on easy() to its end and resets easy(). nullopt: `call` has ended or the lane was interrupted
  // first; then the lane is only good to be destroyed, which closes the connection.
  std::optional<CURLcode> Drive(std::shared_ptr<Transfer> transfer, const Call& call);
  // Ends Drive, this one and each further one. Any thread.
  void Interrupt();

 private:
  Lane() = default;

  CURLM* multi_ = nullptr;
  CURL* easy_ = nullptr;
  std::shared_ptr<Transfer> transfer_;  // easy() points into it
  std::atomic<bool> interrupted_ = false;
};

}  // namespace dra::kube
