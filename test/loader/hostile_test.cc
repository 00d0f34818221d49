// A backend that throws, hangs or answers junk costs its caller an error, never the process.
#include <future>
#include <stop_token>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "own_protobuf.pb.h"
#include "test/loader/support.h"

namespace dra::loader {
namespace {

using ::testing::HasSubstr;

class Hostile : public ::testing::Test {
 protected:
  // A handle on the hostile backend with these behaviours.
  void Make(Json config, LoadOptions options = {}) {
    config["dir"] = dir_.path();
    auto handle = LoadBackend(Lib("dra-backend-hostile"), options);
    ASSERT_TRUE(handle.ok()) << handle.status();
    handle_ = *std::move(handle);
    created_ = handle_->Create(config.dump(), &services_, Call());
  }
  static LoadOptions ShortLimit() {
    LoadOptions options;
    options.hook_limit_override = absl::Milliseconds(200);
    return options;
  }
  std::string PrepareError() {
    return std::string(handle_->Prepare(TwoDevices("u1"), Call()).status().message());
  }

  TempDir dir_;
  FakeServices services_;
  std::unique_ptr<BackendHandle> handle_;
  absl::Status created_;
};

using Plg06 = Hostile;

TEST_F(Plg06, WhatAHookThrowsBecomesAnErrorOfThatCall) {
  for (const char* hook : {"discover", "prepare", "health", "unprepare", "busy"}) {
    for (const char* behaviour : {"throw_std", "throw_int", "throw_own"}) {
      SCOPED_TRACE(std::string(hook) + " " + behaviour);
      Make({{hook, behaviour}});
      ASSERT_TRUE(created_.ok()) << created_;
      const std::string name = hook;
      const absl::Status status =
          name == "discover"    ? handle_->Discover({}, {}, Call()).status()
          : name == "prepare"   ? handle_->Prepare(TwoDevices("u1"), Call()).status()
          : name == "health"    ? handle_->Health(Call()).status()
          : name == "unprepare" ? handle_->Unprepare({}, Call())
                                : handle_->IsBusy("", "d0", "d0", Call()).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(std::string(behaviour) == "throw_std" ? "thrown in " + name
                                                                  : "not a std::exception"));
    }
  }
}

TEST_F(Plg06, WhatCreateAndDestroyThrowStaysInside) {
  Make({{"create", "throw_own"}});
  EXPECT_EQ(created_.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(handle_->Create(Json({{"dir", dir_.path()}}).dump(), &services_, Call()).ok())
      << "create is repeatable";
  Make({{"destroy", "throw_int"}});
  ASSERT_TRUE(created_.ok());
  handle_->Destroy();
  EXPECT_THAT(services_.events(), ::testing::Contains(HasSubstr("not a std::exception")));
  EXPECT_EQ(handle_->Discover({}, {}, Call()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(Hostile, CreateWithoutAnInstanceIsAnError) {
  Make({{"create", "no_instance"}});
  EXPECT_THAT(std::string(created_.message()), HasSubstr("without an instance"));
}

TEST_F(Hostile, CodesAndTextsOfTheBackendPassThrough) {
  Make({{"prepare", "fail"}, {"unprepare", "bad_code"}, {"discover", "unterminated"}});
  const absl::Status failed = handle_->Prepare(TwoDevices("u1"), Call()).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("card is resetting"));
  const absl::Status odd = handle_->Unprepare({}, Call());
  EXPECT_EQ(odd.code(), absl::StatusCode::kUnknown);
  EXPECT_THAT(std::string(odd.message()), HasSubstr("4711"));
  EXPECT_EQ(handle_->Discover({}, {}, Call()).status().code(), absl::StatusCode::kInternal);
}

TEST_F(Hostile, JunkDevicesCostThemselvesAlone) {
  Make({{"discover", "junk"}});
  const auto found = handle_->Discover({}, {}, Call());
  ASSERT_TRUE(found.ok()) << found.status();
  std::vector<std::string> problems;
  size_t devices = 0;
  for (const DiscoverItem& item : found->items) {
    if (item.device) {
      ++devices;
      EXPECT_EQ(item.device->device.at("name"), "good");
      EXPECT_EQ(item.device->identity, "serial-1");
    } else {
      EXPECT_FALSE(item.error.ok());
      EXPECT_NE(item.error_subject, "");
      problems.push_back(std::string(item.error.message()));
    }
  }
  EXPECT_EQ(devices, 1u);
  EXPECT_EQ(problems.size(), 11u);
  const std::string all = ::testing::PrintToString(problems);
  for (const char* text :
       {"not UTF-8", "must be a JSON object", "not a DNS label", "was given before",
        "identity is empty", "nested", "at most 1048576", "too short", "NULL with a size"}) {
    EXPECT_THAT(all, HasSubstr(text));
  }
}

TEST_F(Hostile, PreparedDevicesMustBeExactlyThoseAskedFor) {
  const std::pair<const char*, const char*> cases[] = {{"few", "none for device 1 of 2"},
                                                       {"twice", "emitted twice"},
                                                       {"many", "the claim has 2 devices"},
                                                       {"edits_no_object", "must be a JSON object"},
                                                       {"edits_junk", "edits_json"}};
  for (const auto& [behaviour, text] : cases) {
    SCOPED_TRACE(behaviour);
    Make({{"prepare", behaviour}});
    EXPECT_THAT(PrepareError(), HasSubstr(text));
  }
  Make(Json::object());
  EXPECT_EQ(handle_->Prepare(TwoDevices("u1"), Call())->devices.size(), 2u);
}

TEST_F(Hostile, JunkOfBusyAndHealthIsAnError) {
  Make({{"busy", "junk"}, {"health", "junk"}});
  EXPECT_THAT(std::string(handle_->IsBusy("", "d", "d", Call()).status().message()),
              HasSubstr("99"));
  EXPECT_THAT(std::string(handle_->Health(Call()).status().message()), HasSubstr("not UTF-8"));
  Make({{"busy", "silent"}});
  EXPECT_THAT(std::string(handle_->IsBusy("", "d", "d", Call()).status().message()),
              HasSubstr("answered nothing"));
}

TEST_F(Hostile, ASeverityThatTheHostDoesNotKnowIsUnsetAndHandedOn) {
  struct Case {
    const char* behaviour;
    FaultSeverity severity;
    int unknown;
  };
  const Case cases[] = {{"", FaultSeverity::kUnset, 0},
                        {"severity0", FaultSeverity::kUnset, 0},
                        {"severity1", FaultSeverity::kMinor, 0},
                        {"severity2", FaultSeverity::kMajor, 0},
                        {"severity3", FaultSeverity::kCritical, 0},
                        {"severity4", FaultSeverity::kUnset, 4},
                        {"severity-1", FaultSeverity::kUnset, -1},
                        {"severity3 of 1.0", FaultSeverity::kUnset, 0}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.behaviour);
    Make({{"health", one.behaviour}});
    const auto reports = handle_->Health(Call());
    ASSERT_TRUE(reports.ok()) << reports.status();
    ASSERT_EQ(reports->size(), 1u);
    EXPECT_EQ(reports->at(0).severity, one.severity);
    EXPECT_EQ(reports->at(0).unknown_severity, one.unknown);
  }
}

TEST_F(Hostile, UndoKeepsAllItsBytes) {
  Make({{"prepare", "undo"}});
  handle_->Prepare(TwoDevices("u7"), Call()).status().IgnoreError();
  EXPECT_EQ(services_.undo().at("u7"), std::string("undo\0bytes", 10));
}

TEST_F(Hostile, AHookThatHangsCostsItsCallerADeadlineAndIsRefusedByTheHost) {
  Make({{"prepare", "hang"}, {"parallel", true}}, ShortLimit());
  const absl::Status hung = handle_->Prepare(TwoDevices("u1"), Call()).status();
  EXPECT_EQ(hung.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(hung.message()), HasSubstr("hook prepare"));
  EXPECT_THAT(std::string(hung.message()), HasSubstr("limit is 200ms"));
  // others go on; the same claim waits, since its hook still runs
  EXPECT_TRUE(handle_->Discover({}, {}, Call()).ok());
  UnprepareArgs same;
  same.claim.uid = "u1";
  const absl::Status waits = handle_->Unprepare(same, Call());
  EXPECT_EQ(waits.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(waits.message()), HasSubstr("waited for hook prepare of claim u1"));
  UnprepareArgs other;
  other.claim.uid = "u2";
  EXPECT_TRUE(handle_->Unprepare(other, Call()).ok());
  // the late hook: its save_undo is refused, its result dropped, then the claim is free again
  dir_.Write("go", "");
  EXPECT_EQ(dir_.WaitFor("after"), "4");
  EXPECT_TRUE(services_.undo().empty());
  EXPECT_TRUE(handle_->Unprepare(same, Call::WithTimeout(absl::Seconds(60))).ok());
}

TEST_F(Hostile, WithoutParallelAHangBlocksTheOthersWithATextThatNamesIt) {
  Make({{"prepare", "hang"}}, ShortLimit());
  handle_->Prepare(TwoDevices("u1"), Call()).status().IgnoreError();
  const absl::Status blocked = handle_->Discover({}, {}, Call()).status();
  EXPECT_EQ(blocked.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(blocked.message()), HasSubstr("waited for hook prepare of claim u1"));
  EXPECT_TRUE(handle_->Health(Call()).ok()) << "health runs beside everything";
  dir_.Write("go", "");
  dir_.WaitFor("after");
}

TEST_F(Hostile, TooManyHangingHooksCloseTheBackendUntilTheyReturn) {
  LoadOptions options = ShortLimit();
  options.max_stuck_hooks = 2;
  Make({{"prepare", "hang"}, {"parallel", true}}, options);
  for (const char* uid : {"u1", "u2"}) {
    EXPECT_EQ(handle_->Prepare(TwoDevices(uid), Call()).status().code(),
              absl::StatusCode::kDeadlineExceeded);
  }
  const absl::Status refused = handle_->Discover({}, {}, Call()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("2 earlier calls overran and hang (prepare, prepare)"));
  dir_.Write("go", "");
  absl::Status again = refused;
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (absl::IsUnavailable(again) && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
    again = handle_->Discover({}, {}, Call()).status();
  }
  EXPECT_TRUE(again.ok()) << again;
}

TEST_F(Hostile, DestroyBesideAHangingHookLeavesTheInstanceToIt) {
  Make({{"prepare", "hang"}, {"parallel", true}}, ShortLimit());
  handle_->Prepare(TwoDevices("u1"), Call()).status().IgnoreError();
  handle_->Destroy();
  EXPECT_THAT(services_.events(), ::testing::Contains(HasSubstr("waited for hook prepare")));
  dir_.Write("go", "");
  EXPECT_EQ(dir_.WaitFor("after"), "9") << "the instance counts as destroyed";
}

TEST_F(Hostile, CancellationReachesTheHookThroughDescriptorAndPoll) {
  Make({{"prepare", "until_cancelled"}});
  std::stop_source stop;
  std::future<absl::Status> answer = std::async(std::launch::async, [&] {
    return handle_
        ->Prepare(TwoDevices("u1"), Call::WithTimeout(absl::Seconds(60), stop.get_token()))
        .status();
  });
  dir_.WaitFor("waits");
  stop.request_stop();
  const absl::Status status = answer.get();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(std::string(status.message()), HasSubstr("saw the cancellation"));
}

TEST_F(Hostile, HostCallsAfterTheHookAreRefused) {
  Make({{"prepare", "late"}});
  ASSERT_TRUE(handle_->Prepare(TwoDevices("u1"), Call()).ok());
  dir_.Write("go", "");
  EXPECT_THAT(dir_.WaitFor("result"), HasSubstr("9 host: call"));
  EXPECT_TRUE(services_.undo().empty());
  EXPECT_THAT(services_.events(), ::testing::Contains("inventory_changed"))
      << "not bound to a call";
}

TEST_F(Hostile, HostCallsAfterDestroyAreRefused) {
  Make({{"prepare", "late"}});
  ASSERT_TRUE(handle_->Prepare(TwoDevices("u1"), Call()).ok());
  handle_.reset();
  dir_.Write("go", "");
  EXPECT_THAT(dir_.WaitFor("result"), HasSubstr("9 host: this backend instance was destroyed"));
  EXPECT_TRUE(services_.events().empty());
}

// PLG-04: a thread-local of the backend is destroyed with the hook thread, after the handle; the code is still there.
TEST(Plg04, ThreadLocalsOfABackendMayOutliveItsHandle) {
  FakeServices services;
  auto handle = LoadBackend(Lib("dra-backend-hostile"));
  ASSERT_TRUE(handle.ok());
  ASSERT_TRUE((*handle)->Create("{}", &services, Call()).ok());
  EXPECT_TRUE((*handle)->Discover({}, {}, Call()).ok());
  std::thread hook_thread([&] { EXPECT_TRUE((*handle)->Health(Call()).ok()); });
  hook_thread.join();
  handle->reset();
}

// PLG-03: the same .proto file name and message in host and library, each with its own protobuf.
TEST(Plg03, ALibraryWithItsOwnProtobufLivesBesideOurs) {
  dra_test::Twin ours;
  ours.set_host_number(7);
  for (int load = 0; load < 2; ++load) {
    auto handle = LoadBackend(Lib("dra-backend-own-protobuf"));
    ASSERT_TRUE(handle.ok()) << handle.status();
    FakeServices services;
    ASSERT_TRUE((*handle)->Create("{}", &services, Call()).ok());
    const auto found = (*handle)->Discover({}, {}, Call());
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->items.at(0).device->device["attributes"]["text"]["string"],
              "from the library");
    dra_test::Twin copy;
    ASSERT_TRUE(copy.ParseFromString(ours.SerializeAsString()));
    EXPECT_EQ(copy.host_number(), 7);
  }
}

}  // namespace
}  // namespace dra::loader
