#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dra::resource {

// Name rules of Kubernetes. Each returns OK, or InvalidArgument whose text quotes the name and states the rule and the
// limit. Pure; any thread. Source: kubernetes/kubernetes:pkg/apis/resource/validation, kubernetes/apimachinery.

// [a-z0-9]([-a-z0-9]*[a-z0-9])?, at most 63 bytes: devices, requests, counter sets, counters.
absl::Status CheckDnsLabel(absl::string_view name);
// DNS labels joined by '.', at most 253 bytes: nodes, device classes, slices.
absl::Status CheckDnsSubdomain(absl::string_view name);
// [A-Za-z_][A-Za-z0-9_]*, at most 32 bytes: what stands after the domain of an attribute.
absl::Status CheckIdentifier(absl::string_view name);
// "<identifier>" or "<domain>/<identifier>": attributes and capacities.
absl::Status CheckQualifiedName(absl::string_view name);
// "<domain>/<identifier>", the domain in lower case.
absl::Status CheckFullyQualifiedName(absl::string_view name);
// DNS subdomains joined by '/', at most 253 bytes.
absl::Status CheckPoolName(absl::string_view name);
// A DNS subdomain of at most 63 bytes. The server tolerates upper case, this does not: the name becomes part of the
// names of slices, which are lower case.
absl::Status CheckDriverName(absl::string_view name);
// What the server itself accepts as a driver name: the same in any case of letters.
absl::Status CheckDriverNameAsServer(absl::string_view name);
// Also starts with a letter, as the vendor part of a CDI kind must.
absl::Status CheckDriverNameForCdi(absl::string_view name);
// Optional "<DNS subdomain>/", then [A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])? of at most 63 bytes: taint keys, binding
// conditions.
absl::Status CheckLabelName(absl::string_view name);
// Empty, or [A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])? of at most 63 bytes: taint values.
absl::Status CheckLabelValue(absl::string_view value);
// A lower-case RFC 4122 text of 36 bytes.
absl::Status CheckShareId(absl::string_view share_id);
// "<request>" or "<request>/<subrequest>", each a DNS label.
absl::Status CheckRequestReference(absl::string_view name);

}  // namespace dra::resource
