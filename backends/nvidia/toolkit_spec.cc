#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "edits.h"

namespace nvidia {

using dra::BackendError;
using dra::Json;

namespace {

constexpr char kAdvice[] =
    "run `nvidia-ctk cdi generate --format=json --device-name-strategy=uuid --output=";

class ToolkitSpec {
 public:
  ToolkitSpec(const HostFiles& files, const std::string& path) : files_(files), path_(path) {
    const std::string here = files.Open(path);
    std::ifstream file(here, std::ios::binary);
    if (!file) Refuse("cannot be read as " + here);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    try {
      spec_ = dra::ParseStrictJson(text, "spec");
    } catch (const BackendError& error) {
      Refuse(std::string(error.what()) + " (YAML is not read)");
    }
    if (!spec_.is_object() || !spec_.contains("devices") || !spec_["devices"].is_array())
      Refuse("is no CDI spec with a list of devices");
  }

  // Of the whole spec, with the guard against the toolkit's own runtime hook.
  Json Common() const {
    Json edits = Edits(spec_, "containerEdits");
    Json& env = edits["env"];
    if (!env.is_array()) env = Json::array();
    for (const Json& entry : env) {
      if (entry.is_string() &&
          entry.get_ref<const std::string&>().rfind("NVIDIA_VISIBLE_DEVICES=", 0) == 0)
        return edits;
    }
    env.push_back("NVIDIA_VISIBLE_DEVICES=void");
    return edits;
  }

  Json Device(const std::string& name) const {
    std::string known;
    for (const Json& device : spec_["devices"]) {
      if (!device.is_object() || !device.contains("name") || !device["name"].is_string())
        Refuse("has a device without a name");
      if (device["name"] != name) {
        known += (known.empty() ? "" : ", ") + device["name"].get<std::string>();
        continue;
      }
      Json edits = Edits(device, "device " + name + ": containerEdits");
      if (edits.empty()) Refuse("has no edits for device " + name);
      return edits;
    }
    Refuse("has no device " + name + " (it has: " + (known.empty() ? "none" : known) + ")");
  }

 private:
  [[noreturn]] void Refuse(const std::string& problem) const {
    throw BackendError(DRA_FAILED_PRECONDITION, "cdiSpec " + path_ + ": " + problem + ": " +
                                                    kAdvice + path_ + "` on the node");
  }

  // containerEdits of an object, every path of the host in them looked at: a spec outlives the driver that it was
  // made for.
  Json Edits(const Json& object, const std::string& where) const {
    const auto found = object.find("containerEdits");
    if (found == object.end() || found->is_null()) return Json::object();
    if (!found->is_object()) Refuse(where + " is no object");
    Each(*found, where, "mounts",
         [&](const Json& mount) { CheckThere(Path(mount, "hostPath"), where + ".mounts"); });
    Each(*found, where, "hooks",
         [&](const Json& hook) { CheckThere(Path(hook, "path"), where + ".hooks"); });
    Each(*found, where, "deviceNodes", [&](const Json& node) {
      // With a major the runtime needs no node of the host.
      if (node.contains("major")) return;
      CheckThere(Path(node, node.contains("hostPath") ? "hostPath" : "path"),
                 where + ".deviceNodes");
    });
    return *found;
  }

  template <typename Function>
  void Each(const Json& edits, const std::string& where, const char* key,
            Function&& function) const {
    const auto list = edits.find(key);
    if (list == edits.end() || list->is_null()) return;
    if (!list->is_array()) Refuse(where + "." + key + " is no list");
    for (const Json& item : *list) {
      if (!item.is_object()) Refuse(where + "." + key + " has an entry that is no object");
      function(item);
    }
  }

  std::string Path(const Json& item, const char* key) const {
    const auto path = item.find(key);
    if (path == item.end() || !path->is_string())
      Refuse("has an entry without " + std::string(key));
    return path->get<std::string>();
  }

  void CheckThere(const std::string& path, const std::string& where) const {
    struct stat status;
    // A link is fine: it is the runtime that follows it, on the host.
    if (path.empty() || path.front() != '/' || lstat(files_.Open(path).c_str(), &status) != 0) {
      Refuse(where + " names " + path + ", which is not there: the spec is older than the driver");
    }
  }

  const HostFiles& files_;
  const std::string path_;
  Json spec_;
};

}  // namespace

AllEdits FromToolkitSpec(const HostFiles& files, const std::string& path,
                         const std::vector<PresentDevice>& devices) {
  const ToolkitSpec spec(files, path);
  AllEdits edits;
  edits.common = spec.Common();
  for (const PresentDevice& device : devices) {
    edits.devices.push_back(spec.Device(device.mig ? device.mig->uuid : device.uuid));
  }
  return edits;
}

}  // namespace nvidia
