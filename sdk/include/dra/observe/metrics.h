#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace dra::observe {

// Counters, gauges and histograms of the process, exposed in Prometheus text format at /metrics. Names and labels are
// listed in docs/metrics.md; a test compares. A metric is made at its first use. Any thread; cheap enough for each RPC.
class Metrics {
 public:
  using Labels = std::initializer_list<std::pair<absl::string_view, std::string>>;

  Metrics();
  ~Metrics();

  void Increment(absl::string_view counter, Labels labels = {}, double by = 1);
  void Set(absl::string_view gauge, double value, Labels labels = {});
  // Seconds; buckets from 1 ms to 60 s.
  void Observe(absl::string_view histogram, double seconds, Labels labels = {});

  // The exposition in text format.
  std::string Serialize() const;
  // The value of a counter or gauge, 0 if it was never touched; for tests and the status socket.
  double Value(absl::string_view name, Labels labels = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dra::observe
