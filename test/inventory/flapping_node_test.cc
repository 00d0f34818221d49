// A node of 1,000 devices whose health flaps for an hour: few slice writes, few notes, flat memory.

#include <malloc.h>

#include <iostream>
#include <random>
#include <set>

#include "test/inventory/inventory_fixture.h"

namespace dra::inventory {
namespace {

using loader::HealthState;

constexpr int kDevices = 1000;
constexpr int kDevicesOfASlice = 64;
constexpr int kReports = 360;  // one each ten seconds

class FlappingNode : public InventoryTest {
 protected:
  FlappingNode() {
    std::vector<loader::DiscoverItem> items;
    for (int i = 0; i < kDevices; ++i)
      items.push_back(Item(absl::StrCat("d", 10000 + i), absl::StrCat("id", i)));
    before_ = inventory_.Update(Found(std::move(items)), AllKept(), {});
    for (int i = 0; i < kDevices; ++i) {
      // From a device that flaps with every report to one that does so every ten minutes.
      period_.push_back(1 + i % 60);
      sick_.push_back(false);
    }
  }

  void Step(int step) {
    clock_.now += absl::Seconds(10);
    std::vector<loader::DeviceHealth> report;
    for (int i = 0; i < kDevices; ++i) {
      const size_t device = static_cast<size_t>(i);
      if (step % period_[device] == 0) {
        sick_[device] = !sick_[device];
        ++raw_changes_;
      }
      report.push_back(Health(absl::StrCat("d", 10000 + i),
                              sick_[device] ? HealthState::kUnhealthy : HealthState::kHealthy,
                              sick_[device] ? "ecc" : ""));
    }
    const auto now = inventory_.UpdateHealth(report);
    std::set<size_t> slices;
    for (size_t i = 0; i < static_cast<size_t>(kDevices); ++i) {
      const auto& old = before_->pools[0].devices[i];
      const auto& fresh = now->pools[0].devices[i];
      if (old == fresh || old->device == fresh->device) continue;
      ++device_changes_;
      slices.insert(i / kDevicesOfASlice);
    }
    slice_writes_ += slices.size();
    notes_ += inventory_.TakeFaultChanges().size();
    before_ = now;
  }

  std::shared_ptr<const Snapshot> before_;
  std::vector<int> period_;
  std::vector<bool> sick_;
  size_t raw_changes_ = 0, device_changes_ = 0, slice_writes_ = 0, notes_ = 0;
};

TEST_F(FlappingNode, CostsFewSliceWritesFewNotesAndNoMemory) {
  size_t after_warm_up = 0;
  size_t first_half = 0;
  for (int step = 1; step <= kReports; ++step) {
    Step(step);
    if (step == kReports / 6) after_warm_up = ::mallinfo2().uordblks;
    if (step == kReports / 2) first_half = slice_writes_;
  }
  const size_t at_end = ::mallinfo2().uordblks;
  std::cout << "an hour of " << kDevices << " flapping devices: " << raw_changes_
            << " changes reported, " << device_changes_ << " devices changed in slices, "
            << slice_writes_ << " slice writes (" << slice_writes_ - first_half
            << " in the second half; 16 slices, " << kReports << " reports), " << notes_
            << " notes, heap " << after_warm_up / 1024 << " KiB after ten minutes, "
            << at_end / 1024 << " KiB at the end\n";
  EXPECT_EQ(notes_, device_changes_);
  EXPECT_LT(device_changes_, raw_changes_ / 2);
  EXPECT_LT(slice_writes_ - first_half, first_half);
  // The count of flaps of the worst ones: at most one change each way for each hold, then for each five minutes.
  EXPECT_LT(device_changes_, static_cast<size_t>(kDevices) * 20);
  EXPECT_LT(at_end, after_warm_up + (size_t{1} << 20));
  EXPECT_EQ(before_->pools[0].devices.size(), static_cast<size_t>(kDevices));
}

// The same node, every device at its worst: each report says the opposite of the one before.
TEST_F(FlappingNode, DevicesThatFlapWithEveryReportSettleAsSick) {
  for (int& period : period_) period = 1;
  for (int step = 1; step <= kReports / 6; ++step) {
    Step(step);
    if (step == 12) device_changes_ = notes_ = slice_writes_ = 0;
  }
  EXPECT_EQ(device_changes_, 0u);
  EXPECT_EQ(notes_, 0u);
  EXPECT_EQ(inventory_.Faults().size(), static_cast<size_t>(kDevices));
}

}  // namespace
}  // namespace dra::inventory
