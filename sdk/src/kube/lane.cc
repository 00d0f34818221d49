#include "kube/lane.h"

#include <algorithm>
#include <stop_token>
#include <utility>

#include "kube/transfer.h"

namespace dra::kube {
namespace {

// libcurl wakes by itself for its own timers; this only bounds a sleep with nothing to do.
constexpr absl::Duration kLongestSleep = absl::Seconds(60);

int PollMilliseconds(const Call& call) {
  const absl::Duration sleep = std::min(call.Remaining(), kLongestSleep);
  return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(sleep, absl::Milliseconds(1))));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Lane>> Lane::Create() {
  std::unique_ptr<Lane> lane(new Lane);
  lane->multi_ = curl_multi_init();
  lane->easy_ = curl_easy_init();
  if (lane->multi_ == nullptr || lane->easy_ == nullptr) {
    return absl::ResourceExhaustedError("libcurl cannot make a handle");
  }
  // Rotated credentials mean another connection: the old one goes.
  curl_multi_setopt(lane->multi_, CURLMOPT_MAXCONNECTS, 1L);
  return lane;
}

Lane::~Lane() {
  if (multi_ != nullptr && easy_ != nullptr) curl_multi_remove_handle(multi_, easy_);
  if (easy_ != nullptr) curl_easy_cleanup(easy_);
  if (multi_ != nullptr) curl_multi_cleanup(multi_);
}

std::optional<CURLcode> Lane::Drive(std::shared_ptr<Transfer> transfer, const Call& call) {
  transfer_ = std::move(transfer);
  const std::stop_callback wake(call.stop, [this] { curl_multi_wakeup(multi_); });
  CURLcode result = CURLE_FAILED_INIT;
  if (curl_multi_add_handle(multi_, easy_) == CURLM_OK) {
    int running = 1;
    while (curl_multi_perform(multi_, &running) == CURLM_OK && running > 0) {
      if (interrupted_.load() || !call.Check("").ok()) return std::nullopt;
      curl_multi_poll(multi_, nullptr, 0, PollMilliseconds(call), nullptr);
    }
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg == CURLMSG_DONE) result = message->data.result;
    }
    curl_multi_remove_handle(multi_, easy_);
  }
  curl_easy_reset(easy_);
  transfer_.reset();
  return result;
}

void Lane::Interrupt() {
  interrupted_.store(true);
  curl_multi_wakeup(multi_);
}

}  // namespace dra::kube
