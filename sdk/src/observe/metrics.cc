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
#include <unordered_map>

#include "observe/metric_help.h"

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

// Names and values end with a byte that neither has.
std::string KeyOf(absl::string_view name, Metrics::Labels labels) {
  std::string key(name);
  for (const auto& [label, value] : labels) {
    key.push_back('\0');
    key.append(label.data(), label.size());
    key.push_back('\0');
    key.append(value);
  }
  return key;
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
  // Metrics by name and labels, in the caller's order. prometheus-cpp makes a whole new metric at each look into a family
  // and throws it away if there is one: too dear for what every call counts. Metrics live as long as their registry.
  std::unordered_map<std::string, prometheus::Counter*> known_counters;
  std::unordered_map<std::string, prometheus::Gauge*> known_gauges;
  std::unordered_map<std::string, prometheus::Histogram*> known_histograms;

  // The known metric of this name and these labels, or what `make` finds; null for none.
  template <typename Metric, typename Make>
  Metric* Known(std::unordered_map<std::string, Metric*>& known, absl::string_view name,
                Labels labels, Make make) {
    const std::string key = KeyOf(name, labels);
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (const auto found = known.find(key); found != known.end()) return found->second;
    }
    Metric* const metric = make();
    const std::lock_guard<std::mutex> lock(mutex);
    if (metric != nullptr) known.emplace(key, metric);
    return metric;
  }

  // The family called `name`, made at its first use; null if the name is no metric name or is one of another type.
  template <typename Map, typename Build>
  typename Map::mapped_type Family(Map& families, absl::string_view name, Build build) {
    const std::string key(name);
    const std::lock_guard<std::mutex> lock(mutex);
    if (const auto found = families.find(key); found != families.end()) return found->second;
    if (counters.count(key) + gauges.count(key) + histograms.count(key) > 0) return nullptr;
    if (!prometheus::CheckMetricName(key)) return nullptr;
    auto* family = &build().Name(key).Help(MetricHelp(name)).Register(registry);
    families.emplace(key, family);
    return family;
  }
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

// The library throws for label names that are none; a metric is never worth a crash.
void Metrics::Increment(absl::string_view counter, Labels labels, double by) {
  try {
    auto* metric =
        impl_->Known(impl_->known_counters, counter, labels, [&]() -> prometheus::Counter* {
          auto* family = impl_->Family(impl_->counters, counter, prometheus::BuildCounter);
          return family == nullptr || by <= 0 ? nullptr : &family->Add(MapOf(labels));
        });
    if (metric != nullptr && by > 0) metric->Increment(by);
  } catch (const std::exception&) {
  }
}

void Metrics::Set(absl::string_view gauge, double value, Labels labels) {
  try {
    auto* metric = impl_->Known(impl_->known_gauges, gauge, labels, [&]() -> prometheus::Gauge* {
      auto* family = impl_->Family(impl_->gauges, gauge, prometheus::BuildGauge);
      return family == nullptr ? nullptr : &family->Add(MapOf(labels));
    });
    if (metric != nullptr) metric->Set(value);
  } catch (const std::exception&) {
  }
}

void Metrics::Observe(absl::string_view histogram, double seconds, Labels labels) {
  try {
    auto* metric =
        impl_->Known(impl_->known_histograms, histogram, labels, [&]() -> prometheus::Histogram* {
          auto* family = impl_->Family(impl_->histograms, histogram, prometheus::BuildHistogram);
          return family == nullptr ? nullptr : &family->Add(MapOf(labels), Buckets());
        });
    if (metric != nullptr) metric->Observe(seconds);
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
