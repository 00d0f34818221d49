#include "test/fault/fault_fixture.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"

namespace dra::driver {

FaultFixture::FaultFixture() : faulty_(&fs_) {}

FaultFixture::~FaultFixture() {
  faulty_.ClearFaults();
  StopDaemon();
}

void FaultFixture::StartFaulty(Json backend_config) {
  ASSERT_EQ(daemon_, nullptr);
  DaemonConfig config = Config(std::move(backend_config));
  config.drivers[0].discover_interval = absl::Milliseconds(200);
  config.drivers[0].health_interval = absl::Milliseconds(200);
  if (adjust_) adjust_(config.drivers[0]);
  auto daemon = Daemon::Create(std::move(config), &faulty_, &jumping_, Logger());
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  daemon_ = *std::move(daemon);
  const absl::Status started = daemon_->Start();
  ASSERT_TRUE(started.ok()) << started;
}

void FaultFixture::StartFaultyNode(Json backend_config) {
  if (api_ == nullptr) StartApi();
  if (kubelet_ == nullptr) StartKubelet();
  StartFaulty(std::move(backend_config));
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  ASSERT_TRUE(WaitForReady(true)) << DumpJson(daemon_->Status());
}

testing::KubeletReply FaultFixture::Prepare(const testing::KubeletClaim& claim) {
  return kubelet_->PrepareResources(kDriver, {claim});
}

testing::KubeletReply FaultFixture::Unprepare(const testing::KubeletClaim& claim) {
  return kubelet_->UnprepareResources(kDriver, {claim});
}

std::string FaultFixture::ErrorOf(const testing::KubeletReply& reply) {
  std::string text(reply.verdict.message());
  for (const auto& [uid, error] : reply.errors) absl::StrAppend(&text, " ", error);
  return text;
}

std::string FaultFixture::ConditionMessage(const std::string& name) const {
  for (const observe::Condition& condition : daemon_->Conditions()) {
    if (condition.name == name) return condition.ok ? "" : condition.message;
  }
  return "no such condition";
}

void FaultFixture::ExpectHealed(const testing::KubeletClaim& claim) {
  EXPECT_EQ(ErrorOf(Prepare(claim)), "");
  const auto other = MakeClaim(absl::StrCat("other-of-", claim.name), {"gpu-3"});
  EXPECT_EQ(ErrorOf(Prepare(other)), "");
  EXPECT_EQ(ErrorOf(Unprepare(other)), "");
  EXPECT_EQ(ErrorOf(Unprepare(claim)), "");
  EXPECT_THAT(CdiFiles(), ::testing::IsEmpty());
  std::vector<std::string> records = Records();
  std::erase(records, "released");
  EXPECT_THAT(records, ::testing::IsEmpty());
}

}  // namespace dra::driver
