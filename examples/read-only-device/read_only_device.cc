// Cameras, watchdogs, TPMs: every entry of one sysfs class becomes a device; a container gets its device file.
// Nothing is ever configured, so there is nothing to undo.
#include "dra/backend/backend.h"
#include "dra/backend/device_node.h"
#include "dra/backend/sysfs.h"

namespace {

class ReadOnlyDevice final : public dra::Backend {
 public:
  static dra::BackendManifest Describe() {
    return {.name = "read-only-device",
            .version = "1.0.0",
            .attributes = {{"class", "string", "sysfs class, e.g. video4linux"},
                           {"driver", "string", "kernel driver of the hardware behind it"}},
            .parallel = true,
            .shared_claims = true,
            .never_tainted = true};
  }

  ReadOnlyDevice(dra::Host host, const dra::Json& config) : host_(host) {
    dra::JsonReader::Read(config, "config", [&](dra::JsonReader& r) {
      class_ = r.Required<std::string>("class");
      permissions_ = r.Optional<std::string>("permissions").value_or("r");
      sysfs_ = dra::Sysfs(r.Optional<std::string>("sysfs").value_or("/sys"));
      dev_ = r.Optional<std::string>("dev").value_or("/dev");
    });
  }

  void Discover(const dra::HookCall&, const dra::DiscoverRequest&,
                dra::DiscoverSink& sink) override {
    for (const std::string& entry : sysfs_.List("class/" + class_)) {
      sink.Try(class_ + "/" + entry, [&] { sink.AddDevice(Look(entry)); });
    }
  }

  dra::PrepareReply Prepare(const dra::HookCall&, const dra::PrepareRequest& request) override {
    dra::PrepareReply reply;
    for (const dra::AllocatedDevice& device : request.devices) {
      if (!device.configs.empty()) {
        throw dra::BackendError(DRA_INVALID_ARGUMENT,
                                "device " + device.name() + ": this driver takes no configuration");
      }
      dra::PreparedDeviceReply prepared;
      dra::AddDeviceNode(prepared.edits, dev_ + "/" + FindEntry(device),
                         {.permissions = permissions_});
      reply.devices.push_back(std::move(prepared));
    }
    return reply;
  }

  void Unprepare(const dra::HookCall&, const dra::UnprepareRequest&) override {}

 private:
  dra::DeviceReport Look(const std::string& entry) const {
    const std::string path = "class/" + class_ + "/" + entry;
    const std::string identity = Identity(entry);
    dra::DeviceReport report;
    report.device = {{"name", DeviceName(identity)},
                     {"attributes", {{"class", {{"string", class_}}}}}};
    report.identity = identity;
    if (const auto driver = sysfs_.LinkName(path + "/device/driver")) {
      report.device["attributes"]["driver"] = {{"string", *driver}};
    }
    if (const auto address = dra::ParsePciAddress(sysfs_.LinkName(path + "/device").value_or(""))) {
      sysfs_.AddStandardAttributes(*address, report.device);
    }
    return report;
  }

  // What the hardware is plugged into stays the same when the kernel counts video0 and video1 the other way round.
  std::string Identity(const std::string& entry) const {
    const auto hardware = sysfs_.LinkName("class/" + class_ + "/" + entry + "/device");
    const auto index = sysfs_.ReadInteger("class/" + class_ + "/" + entry + "/index");
    if (!hardware)
      throw dra::BackendError(
          DRA_NOT_FOUND, sysfs_.Path("class/" + class_ + "/" + entry + "/device") + " is missing");
    return *hardware + (index ? "-" + std::to_string(*index) : "");
  }

  // "0000:41:00.0-0" -> "d-0000-41-00-0-0": a DNS label.
  static std::string DeviceName(const std::string& identity) {
    std::string name = "d-";
    for (const char c : identity) {
      const bool upper = c >= 'A' && c <= 'Z';
      const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
      name += upper ? static_cast<char>(c - 'A' + 'a') : plain ? c : '-';
    }
    while (name.back() == '-') name.pop_back();
    return name;
  }

  // The entry that is the device now; checked at each prepare, never remembered.
  std::string FindEntry(const dra::AllocatedDevice& device) const {
    for (const std::string& entry : sysfs_.List("class/" + class_)) {
      try {
        if (Identity(entry) == device.identity) return entry;
      } catch (const dra::BackendError&) {
        continue;  // discover names it
      }
    }
    host_.InventoryChanged();
    throw dra::BackendError(DRA_UNAVAILABLE, "device " + device.name() + ": no " + class_ +
                                                 " with identity " + device.identity +
                                                 " is plugged in");
  }

  dra::Host host_;
  std::string class_;
  std::string permissions_;
  dra::Sysfs sysfs_;
  std::string dev_;
};

}  // namespace

DRA_BACKEND(ReadOnlyDevice);
