#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "dra/kube/api_client.h"

namespace dra::kube {

// Turns the bytes of a watch answer into events: lines end with '\n', may be cut anywhere, even inside a UTF-8
// character; a part of a line that is left at the end is dropped. One stream each; not thread safe.
class WatchStream {
 public:
  // `kind`: what every object must be.
  WatchStream(std::string kind, uint64_t max_line_bytes,
              std::function<void(const WatchEvent&)> on_event)
      : kind_(std::move(kind)), max_line_bytes_(max_line_bytes), on_event_(std::move(on_event)) {}

  // Errors end the stream: what an ERROR event tells (OutOfRange for 410), DataLoss for a line that is no event,
  // ResourceExhausted for a line that is too long.
  absl::Status Feed(absl::string_view bytes);
  // Events so far.
  uint64_t events() const { return events_; }

 private:
  absl::Status OnLine(absl::string_view line);

  const std::string kind_;
  const uint64_t max_line_bytes_;
  const std::function<void(const WatchEvent&)> on_event_;
  std::string rest_;     // the start of a line
  size_t searched_ = 0;  // bytes of rest_ that hold no newline
  uint64_t events_ = 0;
};

}  // namespace dra::kube
