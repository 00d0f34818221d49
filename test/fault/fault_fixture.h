#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "dra/testing/faulty_file_system.h"
#include "test/driver/node_fixture.h"

namespace dra::driver {

// The wall clock can jump; monotonic time goes on as it does on a machine.
class JumpingClock final : public Clock {
 public:
  absl::Time Now() override { return system_.Now() + absl::Seconds(jump_seconds_.load()); }
  MonotonicTime Monotonic() override { return system_.Monotonic(); }
  bool Sleep(absl::Duration duration, const std::stop_token& stop) override {
    return system_.Sleep(duration, stop);
  }
  void Jump(absl::Duration by) { jump_seconds_ += absl::ToInt64Seconds(by); }

 private:
  SystemClock system_;
  std::atomic<int64_t> jump_seconds_ = 0;
};

// A node whose daemon works through a file system and a clock that a test can break.
class FaultFixture : public NodeFixture {
 protected:
  FaultFixture();
  ~FaultFixture() override;  // the daemon ends before what it uses

  void StartFaulty(Json backend_config = Json::object());
  // API server and kubelet double too; waits until registered and published.
  void StartFaultyNode(Json backend_config = Json::object());

  testing::KubeletReply Prepare(const testing::KubeletClaim& claim);
  testing::KubeletReply Unprepare(const testing::KubeletClaim& claim);
  // The error text of a reply; "" if there is none.
  static std::string ErrorOf(const testing::KubeletReply& reply);
  std::string ConditionMessage(const std::string& name) const;
  // After the fault: the claim is prepared, others as well, all is unprepared, and nothing is left.
  void ExpectHealed(const testing::KubeletClaim& claim);

  std::function<void(DriverConfig&)> adjust_;  // what StartFaulty changes beside
  testing::FaultyFileSystem faulty_;
  JumpingClock jumping_;
};

}  // namespace dra::driver
