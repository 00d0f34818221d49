// dra::Backend behind its C table: what an author throws, forgets or gets wrong stays inside.
#include "dra/backend/backend.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"

namespace dra {
namespace {

using ::testing::HasSubstr;

class Bare : public Backend {
 public:
  static BackendManifest Describe() { return {.name = "bare", .version = "1"}; }
  Bare(Host, const Json& config) {
    if (config.contains("refuse"))
      throw BackendError(DRA_INVALID_ARGUMENT, "config.refuse: is set");
  }
  void Discover(const HookCall&, const DiscoverRequest& request, DiscoverSink& sink) override {
    if (request.held == std::vector<std::string>{"throw"}) throw 7;
    sink.Try("card 1", [] { throw BackendError(DRA_NOT_FOUND, "/sys/card1 is missing"); });
    sink.AddDevice({.device = {{"name", "\xff"}}, .identity = "card 2"});
    sink.AddDevice(
        {.device = {{"name", "card3"}}, .identity = "card 3", .exclusion_keys = {{"k", "whole"}}});
  }
  PrepareReply Prepare(const HookCall&, const PrepareRequest& request) override {
    last = request;
    return {.devices = {{.edits = {{"env", {"A=1"}}}}}, .undo = "after"};
  }
  void Unprepare(const HookCall&, const UnprepareRequest& request) override {
    last_unprepare = request;
  }

  inline static PrepareRequest last;
  inline static UnprepareRequest last_unprepare;
};

class Full final : public Bare {
 public:
  static constexpr uint32_t kMinHostMinor = 3;
  using Bare::Bare;
  ~Full() noexcept(false) override { throw std::runtime_error("destructor threw"); }
  void ReconcileEnd(const HookCall&) override {}
  std::vector<HealthReport> Health(const HookCall&) override { throw std::string("own"); }
};

class Sick final : public Bare {
 public:
  using Bare::Bare;
  std::vector<HealthReport> Health(const HookCall&) override {
    return {{.device = "d0",
             .state = HealthKind::kUnhealthy,
             .fault_class = "lost",
             .severity = FaultSeverity::kCritical},
            {.device = "d1", .state = HealthKind::kUnhealthy}};
  }
};

struct Seen {
  std::vector<std::string> devices;
  std::vector<std::string> errors;
};

// Holds the structs of one call.
struct Harness {
  dra_error err = {};
  dra_call call = {};
  Seen seen;
  Harness() {
    err.struct_size = sizeof(err);
    call.struct_size = sizeof(call);
    call.cancel_fd = -1;
    call.id = 1;
  }
  dra_backend* Create(const dra_backend_api* api, const std::string& config = "{}") {
    dra_create_args args = {};
    args.struct_size = sizeof(args);
    args.config_json = ToStr(config);
    dra_host host = {};
    host.struct_size = sizeof(host);
    dra_backend* made = nullptr;
    code = api->create(&host, &call, &args, &made, &err);
    return made;
  }
  dra_code code = DRA_OK;
};

TEST(Backend, OffersOnlyTheHooksThatTheClassOverrides) {
  const dra_backend_api* bare = backend_internal::Table<Bare>();
  EXPECT_EQ(bare->struct_size, sizeof(dra_backend_api));
  EXPECT_EQ(bare->min_host_minor, 0u);
  EXPECT_EQ(bare->health, nullptr);
  EXPECT_EQ(bare->busy, nullptr);
  EXPECT_EQ(bare->validate_config, nullptr);
  EXPECT_EQ(bare->reconcile_begin, nullptr);
  const dra_backend_api* full = backend_internal::Table<Full>();
  EXPECT_EQ(full->min_host_minor, 3u);
  EXPECT_NE(full->health, nullptr);
  EXPECT_NE(full->reconcile_begin, nullptr) << "one of the three offers all three";
  EXPECT_EQ(full->busy, nullptr);
}

TEST(Backend, TurnsWhatIsThrownIntoCodeAndText) {
  Harness h;
  EXPECT_EQ(h.Create(backend_internal::Table<Bare>(), R"({"refuse": 1})"), nullptr);
  EXPECT_EQ(h.code, DRA_INVALID_ARGUMENT);
  EXPECT_STREQ(h.err.message, "config.refuse: is set");
  EXPECT_EQ(h.Create(backend_internal::Table<Bare>(), R"({"a": 1, "a": 2})"), nullptr);
  EXPECT_THAT(h.err.message, HasSubstr("config.a: duplicate key"));

  const dra_backend_api* full = backend_internal::Table<Full>();
  dra_backend* made = h.Create(full);
  ASSERT_NE(made, nullptr);
  dra_health_args args = {};
  args.struct_size = sizeof(args);
  dra_health_sink sink = {};
  sink.struct_size = sizeof(sink);
  EXPECT_EQ(full->health(made, &h.call, &args, &sink, &h.err), DRA_INTERNAL);
  EXPECT_THAT(h.err.message, HasSubstr("not a std::exception"));
  EXPECT_EQ(full->destroy(made, &h.call, &h.err), DRA_INTERNAL);
  EXPECT_THAT(h.err.message, HasSubstr("destructor threw"));
}

TEST(Backend, TellsTheSeverityOfAFaultBehindWhatVersion10Has) {
  static_assert(offsetof(dra_device_health, severity) == 104);
  static_assert(sizeof(dra_device_health) == 112);
  Harness h;
  const dra_backend_api* sick = backend_internal::Table<Sick>();
  EXPECT_EQ(sick->abi_minor, 1u);
  EXPECT_EQ(sick->min_host_minor, 0u);
  dra_backend* made = h.Create(sick);
  ASSERT_NE(made, nullptr);
  std::vector<int32_t> severities;
  dra_health_args args = {};
  args.struct_size = sizeof(args);
  dra_health_sink sink = {};
  sink.struct_size = sizeof(sink);
  sink.ctx = &severities;
  sink.emit = [](void* ctx, const dra_device_health* health) {
    ASSERT_TRUE(DRA_HAS(health, dra_device_health, severity));
    static_cast<std::vector<int32_t>*>(ctx)->push_back(health->severity);
  };
  EXPECT_EQ(sick->health(made, &h.call, &args, &sink, &h.err), DRA_OK);
  EXPECT_EQ(severities, (std::vector<int32_t>{DRA_SEVERITY_CRITICAL, DRA_SEVERITY_UNSET}));
  EXPECT_EQ(sick->destroy(made, &h.call, &h.err), DRA_OK);
}

// INV-11: one thing that cannot be looked at costs itself.
TEST(Inv11, ErrorsOfDiscoveryArePerDevice) {
  Harness h;
  const dra_backend_api* api = backend_internal::Table<Bare>();
  dra_backend* made = h.Create(api);
  ASSERT_NE(made, nullptr);
  dra_discover_args args = {};
  args.struct_size = sizeof(args);
  dra_discover_sink sink = {};
  sink.struct_size = sizeof(sink);
  sink.ctx = &h.seen;
  sink.emit_device = [](void* ctx, const dra_device* device) {
    static_cast<Seen*>(ctx)->devices.push_back(FromStr(device->device_json) +
                                               FromStr(device->exclusion_keys_json));
  };
  sink.emit_error = [](void* ctx, const dra_item_error* error) {
    static_cast<Seen*>(ctx)->errors.push_back(FromStr(error->subject) + ": " +
                                              FromStr(error->message));
  };
  EXPECT_EQ(api->discover(made, &h.call, &args, &sink, &h.err), DRA_OK);
  EXPECT_THAT(h.seen.devices,
              ::testing::ElementsAre(R"({"name":"card3"}[{"key":"k","shape":"whole"}])"));
  ASSERT_EQ(h.seen.errors.size(), 2u);
  EXPECT_EQ(h.seen.errors[0], "card 1: /sys/card1 is missing");
  EXPECT_THAT(h.seen.errors[1], HasSubstr("card 2: "));
  const std::string held = R"(["throw"])";
  args.held_json = ToStr(held);
  EXPECT_EQ(api->discover(made, &h.call, &args, &sink, &h.err), DRA_INTERNAL);
  EXPECT_EQ(api->destroy(made, &h.call, &h.err), DRA_OK);
}

// DOC-07: what prepare and unprepare get is what the guide says, no pod among it.
TEST(Doc07, PrepareGetsOurResultsAndUnprepareNeedsNoApi) {
  Harness h;
  const dra_backend_api* api = backend_internal::Table<Bare>();
  dra_backend* made = h.Create(api);
  const std::string uid = "u1";
  const std::string devices =
      R"([{"result": {"request": "r/s", "device": "d0", "pool": "node", "adminAccess": true},
      "identity": "serial", "configs": [{"source": "FromClass", "request": "r", "parameters": {"a": 1}}]}])";
  const std::string others = R"([{"claimUID": "u2", "device": "d0", "adminAccess": false}])";
  dra_claim claim = {};
  claim.struct_size = sizeof(claim);
  claim.uid = ToStr(uid);
  dra_prepare_args args = {};
  args.struct_size = sizeof(args);
  args.claim = &claim;
  args.devices_json = ToStr(devices);
  args.others_json = ToStr(others);
  struct Answer {
    std::string edits, undo;
  } answer;
  dra_prepare_sink sink = {};
  sink.struct_size = sizeof(sink);
  sink.ctx = &answer;
  sink.emit_device = [](void* ctx, const dra_prepared_device* d) {
    static_cast<Answer*>(ctx)->edits = FromStr(d->edits_json);
  };
  sink.set_undo = [](void* ctx, dra_str undo) { static_cast<Answer*>(ctx)->undo = FromStr(undo); };
  ASSERT_EQ(api->prepare(made, &h.call, &args, &sink, &h.err), DRA_OK) << h.err.message;
  EXPECT_EQ(answer.edits, R"({"env":["A=1"]})");
  EXPECT_EQ(answer.undo, "after");
  ASSERT_EQ(Bare::last.devices.size(), 1u);
  EXPECT_TRUE(Bare::last.devices[0].admin_access());
  EXPECT_EQ(Bare::last.devices[0].configs[0].parameters["a"], 1);
  EXPECT_EQ(Bare::last.others[0].claim_uid, "u2");

  const std::string twice = R"([{"configs": [{"parameters": {"a": 1, "a": 2}}]}])";
  args.devices_json = ToStr(twice);
  EXPECT_EQ(api->prepare(made, &h.call, &args, &sink, &h.err), DRA_INVALID_ARGUMENT);
  EXPECT_THAT(h.err.message, HasSubstr("devices[0].configs[0].parameters.a: duplicate key"));
  // what was recorded is read leniently, even if it is damaged
  dra_unprepare_args undo_args = {};
  undo_args.struct_size = sizeof(undo_args);
  undo_args.claim = &claim;
  undo_args.devices_json = ToStr(twice);
  EXPECT_EQ(api->unprepare(made, &h.call, &undo_args, &h.err), DRA_OK);
  const std::string damaged = "{[";
  undo_args.devices_json = ToStr(damaged);
  EXPECT_EQ(api->unprepare(made, &h.call, &undo_args, &h.err), DRA_OK);
  EXPECT_TRUE(Bare::last_unprepare.devices.empty());
  EXPECT_EQ(api->destroy(made, &h.call, &h.err), DRA_OK);
}

TEST(Fail, CutsLongTextsAtACharacter) {
  dra_error err = {};
  err.struct_size = sizeof(err);
  std::string text(sizeof(err.message) - 2, 'a');
  text += "\xc3\xa9";  // two bytes, of which one has room
  backend_internal::Fail(&err, DRA_INTERNAL, text.c_str());
  EXPECT_EQ(std::string(err.message), std::string(sizeof(err.message) - 2, 'a'));
}

TEST(Host, SaysWhichFunctionAnOlderHostLacks) {
  dra_host old = {};
  old.struct_size = offsetof(dra_host, note_get);
  const Host host(&old);
  try {
    host.NoteGet("id", "k");
    FAIL();
  } catch (const BackendError& error) {
    EXPECT_EQ(error.code(), DRA_UNIMPLEMENTED);
    EXPECT_THAT(error.what(), HasSubstr("note_get"));
  }
  host.Log(Severity::kInfo, "dropped");
}

}  // namespace
}  // namespace dra
