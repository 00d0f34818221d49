#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"

// The Container Device Interface spec file, version 1.1.0, every field.
// Source: cncf-tags/container-device-interface: SPEC.md, specs-go/config.go.
namespace dra::cdi {

struct DeviceNode {
  std::string path;       // in the container
  std::string host_path;  // "": same as path
  std::string type;       // "", "b", "c", "u", "p"
  int64_t major = 0;      // 0: the runtime takes both numbers from the host's node
  int64_t minor = 0;
  std::optional<uint32_t> file_mode;  // as 0600
  std::string permissions;            // of "rwm", "" means "rwm"; "none" is newer than 1.1.0
  std::optional<uint32_t> uid;
  std::optional<uint32_t> gid;
  friend bool operator==(const DeviceNode&, const DeviceNode&) = default;
};

struct NetDevice {
  std::string host_interface_name;
  std::string name;  // in the container
  friend bool operator==(const NetDevice&, const NetDevice&) = default;
};

struct Hook {
  std::string hook_name;
  std::string path;
  std::vector<std::string> args;  // args[0] is argv[0]
  std::vector<std::string> env;
  std::optional<int64_t> timeout_seconds;
  friend bool operator==(const Hook&, const Hook&) = default;
};

struct Mount {
  std::string host_path;
  std::string container_path;
  std::vector<std::string> options;
  std::string type;
  friend bool operator==(const Mount&, const Mount&) = default;
};

struct IntelRdt {
  std::string clos_id;
  std::string l3_cache_schema;
  std::string mem_bw_schema;
  std::optional<std::vector<std::string>> schemata;  // present but empty counts for the version
  bool enable_monitoring = false;
  friend bool operator==(const IntelRdt&, const IntelRdt&) = default;
};

struct ContainerEdits {
  std::vector<std::string> env;  // "NAME=VALUE"
  std::vector<DeviceNode> device_nodes;
  std::vector<NetDevice> net_devices;
  std::vector<Hook> hooks;
  std::vector<Mount> mounts;
  std::optional<IntelRdt> intel_rdt;
  std::vector<uint32_t> additional_gids;

  // CDI's rule: nothing to apply. A device with empty edits makes its whole file invalid.
  bool empty() const;
  friend bool operator==(const ContainerEdits&, const ContainerEdits&) = default;
};

struct Device {
  std::string name;
  std::map<std::string, std::string> annotations;
  ContainerEdits edits;
  friend bool operator==(const Device&, const Device&) = default;
};

struct Spec {
  std::string version;  // "cdiVersion"
  std::string kind;     // "<vendor>/<class>"
  std::map<std::string, std::string> annotations;
  std::vector<Device> devices;
  ContainerEdits edits;  // once a container if any device of the file is requested
  friend bool operator==(const Spec&, const Spec&) = default;
};

// Reads a CDI JSON file strictly: exact key case, real types, unknown keys, duplicate keys and null elements refused.
// No semantic validation: see validate.h. Errors: InvalidArgument with the path ("devices[0].containerEdits.env[1]").
absl::StatusOr<Spec> ParseSpecFile(absl::string_view text);
absl::StatusOr<Spec> SpecFromJson(const Json& value);
// `value`: a containerEdits object, or null for none. `path` begins each error text.
absl::StatusOr<ContainerEdits> EditsFromJson(const Json& value,
                                             absl::string_view path = "containerEdits");

// Zero values are left out, as Go's writer does.
Json ToJson(const Spec& spec);
Json ToJson(const ContainerEdits& edits);

// Appends `more` to `to` as a CDI consumer does: lists are concatenated, the last intelRdt wins.
void Append(ContainerEdits& to, const ContainerEdits& more);

// Drops each hostPath that equals path: it says nothing and would raise the version to 0.5.0.
void DropRedundantHostPaths(ContainerEdits& edits);

// The lowest cdiVersion that has every field used: "0.3.0" to "1.1.0". Consumers refuse versions and fields they do
// not know, so a file never claims more than this.
std::string MinimumVersion(const Spec& spec);

// -1, 0, 1 as `left` is older, equal, newer. Both are known versions, with or without a leading 'v'; InvalidArgument
// ("invalid version ...") otherwise.
absl::StatusOr<int> CompareVersions(absl::string_view left, absl::string_view right);

}  // namespace dra::cdi
