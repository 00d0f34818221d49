#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "dra/inventory/inventory.h"
#include "dra/observe/events.h"
#include "dra/observe/metrics.h"
#include "dra/publisher/publisher.h"
#include "dra/testing/fake_api_client.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dra::publisher {

inline bool WaitUntil(const std::function<bool()>& condition,
                      absl::Duration patience = absl::Seconds(20)) {
  const absl::Time end = absl::Now() + patience;
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

// Requests for slices: all, and those that are no dry run.
inline testing::RequestMatcher On(const char* verb) {
  testing::RequestMatcher matcher;
  matcher.verb = verb;
  matcher.resource = "resourceslices";
  return matcher;
}
inline testing::RequestMatcher Stored(const char* verb) {
  testing::RequestMatcher matcher = On(verb);
  matcher.include_dry_run = false;
  return matcher;
}

inline Json PlainDevice(const std::string& name, int value = 0) {
  return {{"name", name}, {"attributes", {{"value", {{"int", value}}}}}};
}

inline Json Tainted(const std::string& name) {
  Json device = PlainDevice(name);
  device["taints"] = {{{"key", "gpu.sdk.test/unhealthy"}, {"effect", "NoSchedule"}}};
  return device;
}

inline Json Partition(const std::string& name) {
  Json device = PlainDevice(name);
  device["consumesCounters"] = {
      {{"counterSet", "card"}, {"counters", {{"memory", {{"value", "40Gi"}}}}}}};
  return device;
}

inline Json CardCounters() {
  return {{"name", "card"}, {"counters", {{"memory", {{"value", "80Gi"}}}}}};
}

inline std::shared_ptr<inventory::Snapshot> SnapshotOf(const std::vector<Json>& devices) {
  auto snapshot = std::make_shared<inventory::Snapshot>();
  snapshot->known = true;
  inventory::Pool pool;
  pool.name = "n1";
  for (const Json& device : devices) {
    auto entry = std::make_shared<inventory::Device>();
    entry->pool = "n1";
    entry->name = device["name"].get<std::string>();
    entry->device = device;
    pool.devices.push_back(entry);
  }
  snapshot->pools.push_back(std::move(pool));
  return snapshot;
}

// A publisher of driver gpu.sdk.test on node n1 against an API server in memory, on the system's clock.
class PublisherTest : public ::testing::Test {
 protected:
  void SetUp() override { PutNode("N1"); }

  void PutNode(const std::string& uid) {
    api_.store().Put(
        {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "n1"}, {"uid", uid}}}});
  }

  Options MakeOptions() {
    Options options;
    options.driver_name = "gpu.sdk.test";
    options.node_name = "n1";
    options.coalesce = absl::Milliseconds(5);
    options.retry_min = absl::Milliseconds(5);
    options.retry_max = absl::Milliseconds(50);
    return options;
  }

  void Start() { Start(MakeOptions()); }
  void Start(Options options) {
    publisher_ = Publisher::Create(std::move(options), &api_, &clock_, events_.get(), &metrics_,
                                   Logger(), [this](const loader::ServerFields& fields) {
                                     absl::MutexLock lock(&mutex_);
                                     fields_.push_back(fields);
                                   });
    publisher_->Start();
  }

  void Publish(std::shared_ptr<const inventory::Snapshot> snapshot) {
    publisher_->SetInventory(std::move(snapshot));
    ASSERT_TRUE(Published()) << publisher_->GetState().error;
  }
  bool Published() {
    return WaitUntil([this] { return publisher_->GetState().published; });
  }

  std::vector<Json> Slices() { return api_.store().All(kube::ResourceSlices()); }
  Json OnlySpec() {
    const std::vector<Json> slices = Slices();
    EXPECT_EQ(slices.size(), 1u);
    return slices.empty() ? Json() : slices[0]["spec"];
  }
  std::vector<std::string> PublishedDevices() {
    std::vector<std::string> names;
    for (const Json& slice : Slices()) {
      for (const Json& device : slice["spec"].value("devices", Json::array())) {
        names.push_back(device["name"].get<std::string>());
      }
    }
    return names;
  }
  int Writes() {
    int writes = 0;
    for (const char* verb : {"create", "update", "delete"}) {
      writes += api_.traffic().Count(Stored(verb));
    }
    return writes;
  }
  // The publisher has looked once more and written nothing.
  void ExpectNoFurtherWrites() {
    const int before = Writes();
    const int lists = api_.traffic().Count(On("list"));
    publisher_->Resync();
    ASSERT_TRUE(api_.traffic().WaitForCount(On("list"), lists + 1));
    ASSERT_TRUE(Published());
    EXPECT_EQ(Writes(), before);
  }
  loader::ServerFields LastFields() {
    absl::MutexLock lock(&mutex_);
    return fields_.empty() ? loader::ServerFields() : fields_.back();
  }
  bool HasFinding(const std::string& device, const std::string& field) {
    for (const inventory::Finding& finding : publisher_->GetState().findings) {
      if (finding.device == device && finding.field == field) return true;
    }
    return false;
  }

  SystemClock clock_;
  testing::FakeApiClient api_;
  observe::Metrics metrics_;
  std::unique_ptr<observe::EventRecorder> events_;
  absl::Mutex mutex_;
  std::vector<loader::ServerFields> fields_;
  std::unique_ptr<Publisher> publisher_;
};

}  // namespace dra::publisher
