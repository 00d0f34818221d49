#include "dra/observe/metrics.h"

#include <prometheus/check_names.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <exception>
#include <map>
#include <mutex>

namespace dra::observe {
namespace {

// 1 ms to 60 s: a local step at one end, a Prepare that waits at the other.
const prometheus::Histogram::BucketBoundaries& Buckets() {
  static const auto& buckets = *new prometheus::Histogram::BucketBoundaries{
      0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 40, 60};
  return buckets;
}

std::map<std::string, std::string> MapOf(Metrics::Labels labels) {
  std::map<std::string, std::string> map;
  for (const auto& [key, value] : labels) map.insert_or_assign(std::string(key), value);
  return map;
}

template <typename Map>
auto* FindFamily(const Map& families, absl::string_view name) {
  const auto found = families.find(std::string(name));
  return found == families.end() ? nullptr : found->second;
}

}  // namespace

struct Metrics::Impl {
  mutable std::mutex mutex;  // of the maps; the families have their own
  prometheus::Registry registry;
  std::map<std::string, prometheus::Family<prometheus::Counter>*> counters;
  std::map<std::string, prometheus::Family<prometheus::Gauge>*> gauges;
  std::map<std::string, prometheus::Family<prometheus::Histogram>*> histograms;

  // The family called `name`, made at its first use; null if the name is no metric name or is one of another type.
  template <typename Map, typename Build>
  typename Map::mapped_type Family(Map& families, absl::string_view name, Build build) {
    const std::string key(name);
    const std::lock_guard<std::mutex> lock(mutex);
    if (const auto found = families.find(key); found != families.end()) return found->second;
    if (counters.count(key) + gauges.count(key) + histograms.count(key) > 0) return nullptr;
    if (!prometheus::CheckMetricName(key)) return nullptr;
    auto* family = &build().Name(key).Register(registry);
    families.emplace(key, family);
    return family;
  }
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

// The library throws for label names that are none; a metric is never worth a crash.
void Metrics::Increment(absl::string_view counter, Labels labels, double by) {
  try {
    auto* family = impl_->Family(impl_->counters, counter, prometheus::BuildCounter);
    if (family != nullptr && by > 0) family->Add(MapOf(labels)).Increment(by);
  } catch (const std::exception&) {
  }
}

void Metrics::Set(absl::string_view gauge, double value, Labels labels) {
  try {
    auto* family = impl_->Family(impl_->gauges, gauge, prometheus::BuildGauge);
    if (family != nullptr) family->Add(MapOf(labels)).Set(value);
  } catch (const std::exception&) {
  }
}

void Metrics::Observe(absl::string_view histogram, double seconds, Labels labels) {
  try {
    auto* family = impl_->Family(impl_->histograms, histogram, prometheus::BuildHistogram);
    if (family != nullptr) family->Add(MapOf(labels), Buckets()).Observe(seconds);
  } catch (const std::exception&) {
  }
}

std::string Metrics::Serialize() const {
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

double Metrics::Value(absl::string_view name, Labels labels) const {
  const std::map<std::string, std::string> wanted = MapOf(labels);
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  try {
    if (auto* family = FindFamily(impl_->counters, name);
        family != nullptr && family->Has(wanted)) {
      return family->Add(wanted).Value();
    }
    if (auto* family = FindFamily(impl_->gauges, name); family != nullptr && family->Has(wanted)) {
      return family->Add(wanted).Value();
    }
  } catch (const std::exception&) {
  }
  return 0;
}

}  // namespace dra::observe
