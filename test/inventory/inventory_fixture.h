#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dra/inventory/inventory.h"
#include "gtest/gtest.h"

namespace dra::inventory {

class SteppedClock final : public Clock {
 public:
  absl::Time Now() override { return now; }
  MonotonicTime Monotonic() override {
    return MonotonicTime() + absl::ToChronoNanoseconds(now - absl::UnixEpoch());
  }
  bool Sleep(absl::Duration, const std::stop_token&) override { return true; }

  absl::Time now = absl::FromUnixSeconds(1767225600);  // 2026-01-01T00:00:00Z
};

using Held = std::vector<std::pair<std::string, std::string>>;

inline loader::ServerFields AllKept() {
  using loader::FieldSupport;
  return {FieldSupport::kKept, FieldSupport::kKept, FieldSupport::kKept, FieldSupport::kKept,
          FieldSupport::kKept, FieldSupport::kKept, FieldSupport::kKept, FieldSupport::kKept};
}

inline loader::DiscoverItem Item(const std::string& name, const std::string& identity,
                                 Json more = Json::object(),
                                 std::vector<loader::ExclusionKey> keys = {},
                                 const std::string& pool = "") {
  more["name"] = name;
  loader::DiscoverItem item;
  item.device = loader::DiscoveredDevice{std::move(more), identity, pool, std::move(keys)};
  return item;
}

inline loader::DiscoverItem ErrorItem(const std::string& subject, const std::string& message) {
  loader::DiscoverItem item;
  item.error_subject = subject;
  item.error = absl::InternalError(message);
  return item;
}

inline loader::DiscoverResult Found(std::vector<loader::DiscoverItem> items, bool complete = true) {
  loader::DiscoverResult result;
  result.items = std::move(items);
  result.complete = complete;
  return result;
}

inline loader::DeviceHealth Health(const std::string& device, loader::HealthState state,
                                   const std::string& fault = "") {
  loader::DeviceHealth health;
  health.device = device;
  health.state = state;
  health.fault_class = fault;
  return health;
}

// "<pool>/<name>=<identity>" of every device, with "!" if gone and "?" if withheld.
inline std::vector<std::string> Listed(const Snapshot& snapshot) {
  std::vector<std::string> all;
  for (const Pool& pool : snapshot.pools) {
    for (const auto& device : pool.devices) {
      all.push_back(absl::StrCat(pool.name, "/", device->name, "=", device->identity,
                                 device->gone ? "!" : "", device->withheld ? "?" : ""));
    }
  }
  return all;
}

class InventoryTest : public testing::Test {
 protected:
  SteppedClock clock_;
  Inventory inventory_{{"gpu.sdk.test", "n1", false, ""}, &clock_, Logger()};
};

using Names = std::vector<std::string>;

}  // namespace dra::inventory
