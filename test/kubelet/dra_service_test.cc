#include <atomic>
#include <deque>

#include "absl/strings/str_cat.h"
#include "dra/observe/metrics.h"
#include "test/kubelet/plugin_fixture.h"

namespace dra::kubelet {
namespace {

class Prp10 : public PluginServerTest {};
class Prp12 : public PluginServerTest {};
class Api07 : public PluginServerTest {};
class DraCalls : public PluginServerTest {};

// Keeps the callbacks of a handler until the test lets them go.
struct Parked {
  void Add(ClaimHandler::PrepareDone done) {
    absl::MutexLock lock(&mutex);
    waiting.push_back(std::move(done));
  }
  size_t size() {
    absl::MutexLock lock(&mutex);
    return waiting.size();
  }
  void Release() {
    std::deque<ClaimHandler::PrepareDone> all;
    {
      absl::MutexLock lock(&mutex);
      all.swap(waiting);
    }
    for (auto& done : all) done(std::vector<PreparedDevice>{});
  }
  absl::Mutex mutex;
  std::deque<ClaimHandler::PrepareDone> waiting;
};

TEST_F(DraCalls, AnswersV1WithEveryFieldInOrder) {
  handler_.prepare = [](const ClaimRef& claim, const Call&, ClaimHandler::PrepareDone done) {
    EXPECT_EQ(claim.namespace_name, "default");
    EXPECT_EQ(claim.name, "claim-u1");
    done(std::vector<PreparedDevice>{
        {{"gpu/large", "gpu", "aux"}, "p", "d0", {"v/c=1", "v/c=0", "v/c=1"}, "share-1"},
        {{}, "p", "d1", {}, std::nullopt}});
  };
  const auto server = Started();
  wire::NodePrepareResourcesResponse response;
  ASSERT_TRUE(Prepare(server->State().service_socket, Ask({"u1"}), &response).ok());
  ASSERT_EQ(response.claims().size(), 1u);
  const auto& entry = response.claims().at("u1");
  EXPECT_EQ(entry.error(), "");
  ASSERT_EQ(entry.devices_size(), 2);
  const auto& first = entry.devices(0);
  EXPECT_EQ((std::vector<std::string>{first.request_names().begin(), first.request_names().end()}),
            (std::vector<std::string>{"gpu", "aux"}));
  EXPECT_EQ(
      (std::vector<std::string>{first.cdi_device_ids().begin(), first.cdi_device_ids().end()}),
      (std::vector<std::string>{"v/c=1", "v/c=0"}));
  EXPECT_EQ(first.pool_name(), "p");
  EXPECT_EQ(first.device_name(), "d0");
  EXPECT_EQ(first.share_id(), "share-1");
  EXPECT_FALSE(entry.devices(1).has_share_id());
}

TEST_F(DraCalls, AnswersV1beta1WithoutShareIds) {
  handler_.prepare = [](const ClaimRef&, const Call&, ClaimHandler::PrepareDone done) {
    done(std::vector<PreparedDevice>{{{"gpu"}, "p", "d0", {"v/c=1"}, "share-1"}});
  };
  const auto server = Started();
  const auto stub = wire_beta::DRAPlugin::NewStub(Dial(server->State().service_socket));
  wire_beta::NodePrepareResourcesRequest request;
  request.add_claims()->set_uid("u1");
  request.mutable_claims(0)->set_name("c");
  request.mutable_claims(0)->set_namespace_("n");
  wire_beta::NodePrepareResourcesResponse response;
  grpc::ClientContext context;
  SetDeadline(context);
  ASSERT_TRUE(stub->NodePrepareResources(&context, request, &response).ok());
  EXPECT_EQ(response.claims().at("u1").devices(0).device_name(), "d0");
  wire_beta::NodeUnprepareResourcesRequest unprepare;
  *unprepare.add_claims() = request.claims(0);
  wire_beta::NodeUnprepareResourcesResponse unprepared;
  grpc::ClientContext second;
  SetDeadline(second);
  ASSERT_TRUE(stub->NodeUnprepareResources(&second, unprepare, &unprepared).ok());
  EXPECT_EQ(unprepared.claims().at("u1").error(), "");
}

TEST_F(DraCalls, AnEmptyRequestSucceedsWithoutTheHandler) {
  const auto server = Started();
  wire::NodePrepareResourcesResponse response;
  EXPECT_TRUE(Prepare(server->State().service_socket, {}, &response).ok());
  EXPECT_TRUE(response.claims().empty());
  EXPECT_TRUE(handler_.Seen().empty());
}

TEST_F(DraCalls, ABadReferenceCostsOnlyItself) {
  const auto server = Started();
  auto request = Ask({"u1", "", "../etc", "u2", "u3"});
  request.mutable_claims(4)->set_name("");
  wire::NodePrepareResourcesResponse response;
  ASSERT_TRUE(Prepare(server->State().service_socket, request, &response).ok());
  EXPECT_EQ(response.claims().size(), 5u);
  for (const std::string good : {"u1", "u2"}) {
    EXPECT_EQ(response.claims().at(good).error(), "") << good;
    EXPECT_EQ(response.claims().at(good).devices_size(), 1) << good;
  }
  for (const std::string bad : {"", "../etc", "u3"}) {
    EXPECT_NE(response.claims().at(bad).error(), "") << bad;
  }
  EXPECT_EQ(handler_.Seen(), (std::vector<std::string>{"u1", "u2"}));
}

TEST_F(DraCalls, AClaimAskedTwiceIsHandledOnce) {
  const auto server = Started();
  wire::NodePrepareResourcesResponse response;
  ASSERT_TRUE(Prepare(server->State().service_socket, Ask({"u1", "u1", "u2"}), &response).ok());
  EXPECT_EQ(response.claims().size(), 2u);
  EXPECT_EQ(handler_.Seen(), (std::vector<std::string>{"u1", "u2"}));
}

TEST_F(DraCalls, OneUidUnderTwoNamesIsAnErrorOfThatClaim) {
  const auto server = Started();
  auto request = Ask({"u1", "u1", "u2"});
  request.mutable_claims(1)->set_name("other");
  wire::NodePrepareResourcesResponse response;
  ASSERT_TRUE(Prepare(server->State().service_socket, request, &response).ok());
  EXPECT_NE(response.claims().at("u1").error().find("two names"), std::string::npos);
  EXPECT_EQ(response.claims().at("u2").error(), "");
}

TEST_F(DraCalls, ClaimsOfABatchRunAtTheSameTime) {
  Parked parked;
  handler_.prepare = [&](const ClaimRef&, const Call&, ClaimHandler::PrepareDone done) {
    parked.Add(std::move(done));
    if (parked.size() == 3) std::thread([&] { parked.Release(); }).detach();
  };
  auto server = Started();
  wire::NodePrepareResourcesResponse response;
  ASSERT_TRUE(Prepare(server->State().service_socket, Ask({"u1", "u2", "u3"}), &response).ok());
  EXPECT_EQ(response.claims().size(), 3u);
}

TEST_F(DraCalls, TheCallersDeadlineReachesTheHandlerAndIsCapped) {
  absl::Mutex mutex;
  std::vector<absl::Duration> left;
  handler_.prepare = [&](const ClaimRef&, const Call& call, ClaimHandler::PrepareDone done) {
    {
      absl::MutexLock lock(&mutex);
      left.push_back(call.Remaining());
    }
    done(std::vector<PreparedDevice>{});
  };
  const auto server = Started();
  wire::NodePrepareResourcesResponse response;
  ASSERT_TRUE(Prepare(server->State().service_socket, Ask({"u1"}), &response, 20000).ok());
  ASSERT_TRUE(Prepare(server->State().service_socket, Ask({"u1"}), &response, 3600000).ok());
  grpc::ClientContext context;  // no deadline at all
  ASSERT_TRUE(wire::DRAPlugin::NewStub(Dial(server->State().service_socket))
                  ->NodePrepareResources(&context, Ask({"u1"}), &response)
                  .ok());
  absl::MutexLock lock(&mutex);
  ASSERT_EQ(left.size(), 3u);
  EXPECT_LE(left[0], absl::Seconds(21));  // gRPC rounds a deadline up on the wire
  EXPECT_LE(left[1], absl::Seconds(44));
  EXPECT_LE(left[2], absl::Seconds(44));
  EXPECT_GT(left[2], absl::Seconds(20));
}

TEST_F(DraCalls, ACallerThatGoesAwayStopsTheHandler) {
  std::atomic<bool> stopped = false;
  Parked parked;
  handler_.prepare = [&](const ClaimRef&, const Call& call, ClaimHandler::PrepareDone done) {
    parked.Add(std::move(done));
    std::thread([&stopped, stop = call.stop] {
      if (Eventually([&] { return stop.stop_requested(); })) stopped = true;
    }).detach();
  };
  auto server = Started();
  wire::NodePrepareResourcesResponse response;
  EXPECT_EQ(Prepare(server->State().service_socket, Ask({"u1"}), &response, 100).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Eventually([&] { return stopped.load(); }));
  server->Shutdown(absl::ZeroDuration());
  parked.Release();  // an answer that nobody waits for, after the server's end
}

TEST_F(DraCalls, TextThatIsNotUtf8DoesNotCostTheResponse) {
  handler_.prepare = [](const ClaimRef& claim, const Call&, ClaimHandler::PrepareDone done) {
    if (claim.uid == "u1") return done(absl::InternalError("bad \xff byte"));
    done(std::vector<PreparedDevice>{{{"r"}, "p", "d\xc3", {}, {}}});
  };
  const auto server = Started();
  wire::NodePrepareResourcesResponse response;
  ASSERT_TRUE(Prepare(server->State().service_socket, Ask({"u1", "u2"}), &response).ok());
  EXPECT_EQ(response.claims().at("u1").error(), "bad ? byte");
  EXPECT_EQ(response.claims().at("u2").devices(0).device_name(), "d?");
}

TEST_F(DraCalls, CallsAreCountedByTheWorstOfTheirClaims) {
  observe::Metrics metrics;
  handler_.prepare = [](const ClaimRef& claim, const Call&, ClaimHandler::PrepareDone done) {
    if (claim.uid == "bad") return done(absl::NotFoundError("no such claim"));
    done(std::vector<PreparedDevice>{});
  };
  auto created = PluginServer::Create(BaseOptions(), &handler_, &clock_, &metrics, logger_);
  ASSERT_TRUE(created.ok());
  auto server = *std::move(created);
  ASSERT_TRUE(server->Start().ok());
  wire::NodePrepareResourcesResponse response;
  ASSERT_TRUE(Prepare(server->State().service_socket, Ask({"u1"}), &response).ok());
  ASSERT_TRUE(Prepare(server->State().service_socket, Ask({"u1", "bad"}), &response).ok());
  const auto calls = [&metrics](const std::string& code) {
    return metrics.Value("dra_kubelet_calls_total",
                         {{"driver", kDriver}, {"method", "NodePrepareResources"}, {"code", code}});
  };
  EXPECT_EQ(calls("OK"), 1);
  EXPECT_EQ(calls("NOT_FOUND"), 1);
}

TEST_F(Prp10, ARepeatedPrepareIsByteEqualAndFailuresStayWithTheirClaim) {
  handler_.prepare = [](const ClaimRef& claim, const Call&, ClaimHandler::PrepareDone done) {
    if (claim.uid == "u2") return done(absl::InternalError("hook failed"));
    done(std::vector<PreparedDevice>{{{"gpu"}, "p", "d0", {"v/c=u1-d0"}, {}},
                                     {{"gpu"}, "p", "d1", {"v/c=u1-d1"}, {}}});
  };
  const auto server = Started();
  wire::NodePrepareResourcesResponse first;
  wire::NodePrepareResourcesResponse second;
  ASSERT_TRUE(Prepare(server->State().service_socket, Ask({"u1", "u2"}), &first).ok());
  ASSERT_TRUE(Prepare(server->State().service_socket, Ask({"u1", "u2"}), &second).ok());
  EXPECT_EQ(first.claims().size(), 2u);
  EXPECT_EQ(second.claims().size(), 2u);
  EXPECT_EQ(first.claims().at("u1").SerializeAsString(),
            second.claims().at("u1").SerializeAsString());
  EXPECT_EQ(first.claims().at("u2").error(), "hook failed");
}

TEST_F(Prp12, UnprepareOfAnUnknownClaimHasAnEntryWithoutError) {
  const auto server = Started();
  const auto stub = wire::DRAPlugin::NewStub(Dial(server->State().service_socket));
  wire::NodeUnprepareResourcesRequest request;
  for (const std::string uid : {"u1", "u7"}) {
    auto* claim = request.add_claims();
    claim->set_namespace_("default");
    claim->set_name("c");
    claim->set_uid(uid);
  }
  wire::NodeUnprepareResourcesResponse response;
  grpc::ClientContext context;
  SetDeadline(context);
  ASSERT_TRUE(stub->NodeUnprepareResources(&context, request, &response).ok());
  ASSERT_EQ(response.claims().size(), 2u);
  EXPECT_EQ(response.claims().at("u1").error(), "");
  EXPECT_EQ(response.claims().at("u7").error(), "");
}

TEST_F(Api07, ShutdownEndsWithAStreamOpenAndAHandlerThatNeverAnswers) {
  Parked parked;
  handler_.prepare = [&](const ClaimRef&, const Call&, ClaimHandler::PrepareDone done) {
    parked.Add(std::move(done));
  };
  Options options = BaseOptions();
  options.health = true;
  auto server = Started(options);
  const RegistrationState state = server->State();
  server->SetHealth(std::vector<DeviceHealth>{{"p", "d0", Health::kHealthy, absl::Now(), ""}});
  grpc::ClientContext health_context;
  const auto health = ::v1::DRAResourceHealth::NewStub(Dial(state.service_socket));
  const auto stream = health->NodeWatchResources(&health_context, {});
  ::v1::NodeWatchResourcesResponse list;
  ASSERT_TRUE(stream->Read(&list));

  wire::NodePrepareResourcesResponse response;
  grpc::Status prepared;
  std::thread caller(
      [&] { prepared = Prepare(state.service_socket, Ask({"u1"}), &response, 60000); });
  ASSERT_TRUE(Eventually([&] { return parked.size() == 1; }));

  server->Shutdown(absl::Milliseconds(50));
  caller.join();
  EXPECT_TRUE(prepared.ok()) << prepared.error_message();
  EXPECT_NE(response.claims().at("u1").error().find("shutting down"), std::string::npos);
  while (stream->Read(&list)) {
  }
  EXPECT_TRUE(stream->Finish().ok());
  PosixFileSystem fs;
  EXPECT_TRUE(fs.List(root_.registry())->empty());
  parked.Release();
}

TEST_F(Api07, ARunningCallIsAwaitedAndANewOneIsRefused) {
  Parked parked;
  handler_.prepare = [&](const ClaimRef&, const Call&, ClaimHandler::PrepareDone done) {
    parked.Add(std::move(done));
  };
  Options options = BaseOptions();
  options.idle_patience = options.leave_patience = absl::Milliseconds(20);
  auto server = Started(options);
  const RegistrationState state = server->State();
  const auto channel = Dial(state.service_socket);
  wire::NodePrepareResourcesResponse response;
  grpc::Status prepared;
  std::thread caller([&] {
    grpc::ClientContext context;
    SetDeadline(context, 60000);
    prepared =
        wire::DRAPlugin::NewStub(channel)->NodePrepareResources(&context, Ask({"u1"}), &response);
  });
  ASSERT_TRUE(Eventually([&] { return parked.size() == 1; }));
  std::thread stopper([&] { server->Shutdown(absl::Seconds(60)); });
  grpc::Status refused;
  EXPECT_TRUE(Eventually([&] {
    grpc::ClientContext context;
    SetDeadline(context, 50);
    wire::NodePrepareResourcesResponse ignored;
    refused = wire::DRAPlugin::NewStub(channel)->NodePrepareResources(&context, {}, &ignored);
    return refused.error_code() == grpc::StatusCode::UNAVAILABLE;
  })) << refused.error_message();
  parked.Release();
  stopper.join();
  caller.join();
  EXPECT_TRUE(prepared.ok()) << prepared.error_message();
  EXPECT_EQ(response.claims().at("u1").error(), "");
}

// The kubelet breaks off the calls of an endpoint whose registration socket goes, and calls it until it has seen that.
TEST_F(Api07, TheRegistrationSocketGoesBetweenCallsAndTheKubeletIsServedUntilItLeaves) {
  Parked parked;
  handler_.prepare = [&](const ClaimRef&, const Call&, ClaimHandler::PrepareDone done) {
    parked.Add(std::move(done));
  };
  Options options = BaseOptions();
  options.idle_patience = options.leave_patience = absl::Seconds(60);
  auto server = Started(options);
  const RegistrationState state = server->State();
  auto channel = Dial(state.service_socket);
  const auto prepare = [&channel](const std::string& uid) {
    grpc::ClientContext context;
    SetDeadline(context, 60000);
    wire::NodePrepareResourcesResponse response;
    const grpc::Status status =
        wire::DRAPlugin::NewStub(channel)->NodePrepareResources(&context, Ask({uid}), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.claims().at(uid).error(), "");
  };
  std::thread first([&] { prepare("u1"); });
  ASSERT_TRUE(Eventually([&] { return parked.size() == 1; }));
  std::thread stopper([&] { server->Shutdown(absl::Seconds(240)); });
  PosixFileSystem fs;
  std::thread second([&] { prepare("u2"); });
  ASSERT_TRUE(Eventually([&] { return parked.size() == 2; }));
  EXPECT_TRUE(fs.Stat(state.registration_socket).ok()) << "a call is under way";
  parked.Release();
  first.join();
  second.join();
  ASSERT_TRUE(
      Eventually([&] { return absl::IsNotFound(fs.Stat(state.registration_socket).status()); }));
  std::thread late([&] { prepare("u3"); });
  ASSERT_TRUE(Eventually([&] { return parked.size() == 1; }));
  parked.Release();
  late.join();
  channel = nullptr;  // the kubelet has seen it
  stopper.join();
  EXPECT_TRUE(absl::IsNotFound(fs.Stat(state.service_socket).status()));
}

}  // namespace
}  // namespace dra::kubelet
