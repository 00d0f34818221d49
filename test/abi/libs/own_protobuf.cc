// A backend with its own copy of protobuf and its own version of a .proto whose file name the host registers too.
#include "dra/backend/backend.h"
#include "own_protobuf.pb.h"

class OwnProtobuf final : public dra::Backend {
 public:
  static dra::BackendManifest Describe() { return {.name = "own-protobuf", .version = "1"}; }
  OwnProtobuf(dra::Host, const dra::Json&) {}

  void Discover(const dra::HookCall&, const dra::DiscoverRequest&,
                dra::DiscoverSink& sink) override {
    dra_test::Twin message;
    message.set_library_text("from the library");
    dra_test::Twin copy;
    copy.ParseFromString(message.SerializeAsString());
    sink.AddDevice(
        {.device = {{"name", "d0"}, {"attributes", {{"text", {{"string", copy.library_text()}}}}}},
         .identity = "d0"});
  }
  dra::PrepareReply Prepare(const dra::HookCall&, const dra::PrepareRequest&) override {
    return {};
  }
  void Unprepare(const dra::HookCall&, const dra::UnprepareRequest&) override {}
};
DRA_BACKEND(OwnProtobuf);
