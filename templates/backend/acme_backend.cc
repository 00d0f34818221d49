// A backend to start from: rename acme, then fill in the three functions. What each may do and when it is called stands
// in dra/backend/abi.h; what helps beside it: json_reader.h, configs.h, sysfs.h, pci.h, device_node.h.
#include "dra/backend/backend.h"
#include "dra/backend/configs.h"

namespace {

// The opaque configuration of a claim: {"apiVersion": "acme.example.com/v1", "kind": "AcmeConfig", "greeting": "..."}.
struct AcmeConfig {
  std::string greeting = "hello";
};

AcmeConfig ReadAcmeConfig(dra::JsonReader& r) {
  AcmeConfig config;
  config.greeting = r.Optional<std::string>("greeting").value_or(config.greeting);
  return config;
}

class AcmeBackend final : public dra::Backend {
 public:
  static dra::BackendManifest Describe() {
    return {.name = "acme",
            .version = "0.1.0",
            .attributes = {{"model", "string", "what is printed on the card"}},
            .config_kinds = {{.api_version = "acme.example.com/v1", .kind = "AcmeConfig"}}};
  }

  // No hardware here: a node where the card has gone must still unprepare.
  AcmeBackend(dra::Host host, const dra::Json& config) : host_(host) {
    dra::JsonReader::Read(config, "config", [&](dra::JsonReader& r) {
      count_ = r.Optional("count", 0, 16).value_or(1);
    });
  }

  void Discover(const dra::HookCall&, const dra::DiscoverRequest&,
                dra::DiscoverSink& sink) override {
    for (int64_t i = 0; i < count_; ++i) {
      // What throws in here costs this card alone.
      const std::string serial = "acme-" + std::to_string(i);
      sink.Try(serial, [&] {
        sink.AddDevice(
            {.device = {{"name", serial}, {"attributes", {{"model", {{"string", "Acme One"}}}}}},
             .identity = serial});
      });
    }
  }

  void ValidateConfig(const dra::HookCall&, const dra::Json& parameters,
                      const std::string&) override {
    kinds_.Read(parameters, "parameters");
  }

  dra::PrepareReply Prepare(const dra::HookCall&, const dra::PrepareRequest& request) override {
    dra::PrepareReply reply;
    for (const dra::AllocatedDevice& device : request.devices) {
      AcmeConfig config;
      // The one highest configuration counts as a whole; MergeConfigs is the other choice. Say which in the README.
      if (const dra::DeviceConfig* highest = dra::HighestConfig(device.configs)) {
        config = kinds_.Read(highest->parameters, "device " + device.name() + " config");
      }
      reply.devices.push_back(
          {.edits = {
               {"env", {"ACME_DEVICE=" + device.identity, "ACME_GREETING=" + config.greeting}}}});
    }
    host_.Log(dra::Severity::kInfo,
              "prepared " + std::to_string(reply.devices.size()) + " devices");
    return reply;
  }

  // Takes back what Prepare changed; must work when the card is gone and when it was done before.
  void Unprepare(const dra::HookCall&, const dra::UnprepareRequest&) override {}

 private:
  dra::Host host_;
  int64_t count_ = 1;
  const dra::ConfigKinds<AcmeConfig> kinds_{
      {{"acme.example.com/v1", "AcmeConfig", ReadAcmeConfig}}};
};

}  // namespace

DRA_BACKEND(AcmeBackend);
