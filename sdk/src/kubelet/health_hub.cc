#include "kubelet/health_hub.h"

#include <algorithm>
#include <map>
#include <utility>

namespace dra::kubelet {
namespace {

bool SaysTheSame(const std::vector<DeviceHealth>& a, const std::vector<DeviceHealth>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const DeviceHealth& x, const DeviceHealth& y) {
                      return x.pool == y.pool && x.device == y.device && x.health == y.health &&
                             x.message == y.message;
                    });
}

absl::Status NotServed() {
  return absl::UnimplementedError("no backend of this driver reports device health");
}

}  // namespace

std::vector<std::shared_ptr<HealthStream>> HealthHub::Streams() const {
  return {streams_.begin(), streams_.end()};
}

void HealthHub::SetEnabled(bool enabled) {
  std::vector<std::shared_ptr<HealthStream>> streams;
  {
    absl::MutexLock lock(&mutex_);
    enabled_ = enabled;
    if (!enabled) streams = Streams();
  }
  for (const auto& stream : streams) stream->End(NotServed());
}

void HealthHub::SetReporting(bool reporting) {
  std::vector<std::shared_ptr<HealthStream>> streams;
  HealthList list;
  {
    absl::MutexLock lock(&mutex_);
    if (reporting_ == reporting) return;
    reporting_ = reporting;
    list = list_;
    streams = Streams();
  }
  for (const auto& stream : streams) {
    if (!reporting) {
      stream->Withhold();
    } else if (list != nullptr) {
      stream->Offer(list);
    }
  }
}

void HealthHub::Set(std::optional<std::vector<DeviceHealth>> devices) {
  std::vector<std::shared_ptr<HealthStream>> streams;
  HealthList list;
  {
    absl::MutexLock lock(&mutex_);
    if (!devices.has_value()) {
      list_ = nullptr;
      return;
    }
    std::map<std::pair<std::string, std::string>, absl::Time> updated;
    for (const DeviceHealth& known : last_known_) {
      updated[{known.pool, known.device}] = known.last_updated;
    }
    for (DeviceHealth& device : *devices) {
      const auto known = updated.find({device.pool, device.device});
      if (known != updated.end())
        device.last_updated = std::max(device.last_updated, known->second);
    }
    const bool news = list_ == nullptr || !SaysTheSame(*list_, *devices);
    last_known_ = *devices;
    list_ = std::make_shared<const std::vector<DeviceHealth>>(*std::move(devices));
    if (!news || !reporting_) return;
    list = list_;
    streams = Streams();
  }
  for (const auto& stream : streams) stream->Offer(list);
}

void HealthHub::Resend() {
  std::vector<std::shared_ptr<HealthStream>> streams;
  HealthList list;
  {
    absl::MutexLock lock(&mutex_);
    if (list_ == nullptr || !reporting_) return;
    list = list_;
    streams = Streams();
  }
  for (const auto& stream : streams) stream->Offer(list);
}

void HealthHub::Open(std::shared_ptr<HealthStream> stream) {
  HealthList list;
  absl::Status refusal;
  {
    absl::MutexLock lock(&mutex_);
    if (!enabled_) {
      refusal = NotServed();
    } else if (shut_down_) {
      refusal = absl::UnavailableError("the driver is shutting down");
    } else {
      streams_.insert(stream);
      if (reporting_) list = list_;
    }
  }
  if (!refusal.ok()) return stream->End(refusal);
  if (list != nullptr) stream->Offer(list);
}

void HealthHub::Closed(HealthStream* stream) {
  std::shared_ptr<HealthStream> last;  // destroyed after the lock
  absl::MutexLock lock(&mutex_);
  for (auto it = streams_.begin(); it != streams_.end(); ++it) {
    if (it->get() != stream) continue;
    last = *it;
    streams_.erase(it);
    return;
  }
}

void HealthHub::Shutdown() {
  std::vector<std::shared_ptr<HealthStream>> streams;
  {
    absl::MutexLock lock(&mutex_);
    shut_down_ = true;
    streams = Streams();
  }
  for (const auto& stream : streams) stream->End(absl::OkStatus());
}

size_t HealthHub::open_streams() const {
  absl::MutexLock lock(&mutex_);
  return streams_.size();
}

}  // namespace dra::kubelet
