#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// CDI names. Source: cncf-tags/container-device-interface: pkg/parser; docs/cdi-names.md. Pure; any thread.
namespace dra::cdi {

// "<vendor>/<class>=<name>".
struct QualifiedName {
  std::string vendor;
  std::string device_class;
  std::string name;

  std::string kind() const;
  std::string ToString() const;
  friend bool operator==(const QualifiedName&, const QualifiedName&) = default;
};

// ASCII letter first, letter or digit last, [A-Za-z0-9_.-] between; at least two characters, since released runtimes
// (CDI library up to 1.1.0) crash on one.
absl::Status ValidateVendor(absl::string_view vendor);
absl::Status ValidateClass(absl::string_view device_class);
// Letter or digit first and last, [A-Za-z0-9_.:-] between.
absl::Status ValidateDeviceName(absl::string_view name);
// "<vendor>/<class>", split at the first slash, both valid.
absl::Status ValidateKind(absl::string_view kind);

// Splits only: "<vendor>/<class>=<name>" with all three non-empty and no leading slash. The parts may be invalid.
absl::StatusOr<QualifiedName> SplitQualifiedName(absl::string_view text);
// Splits and validates each part.
absl::StatusOr<QualifiedName> ParseQualifiedName(absl::string_view text);

// What is left of "<vendor>/<class>" on either side of the first slash; "" for both if there is no slash.
std::string VendorOf(absl::string_view kind);
std::string ClassOf(absl::string_view kind);

// True if "<plugin>_<device id>" fits the 63 bytes of the legacy annotation "cdi.k8s.io/<plugin>_<device id>". The DRA
// path does not use annotations: a caller warns, no more.
bool FitsContainerAnnotation(absl::string_view plugin, absl::string_view device_id);

}  // namespace dra::cdi
