#pragma once

#include <cstddef>
#include <vector>

#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "dra/resource/field_error.h"

namespace dra::resource {

// Validates a resource.k8s.io/v1 ResourceSlice as the API server of Kubernetes 1.35 to 1.37 does: names, node
// selection, pool, devices (attributes of all types, capacity with request policies, counters, taints, binding
// conditions, node allocatable resources), shared counters, and the fields of the slice. Every gate is taken as on.
// Stricter than the server in few points, each with its reason in test/differential/compare/slice_validation_test.go.
//
// slice: the whole object. Result: empty if it would be accepted; otherwise each fault with the server's field path.
// Unknown members are not looked at. Pure; any thread.
// Source: kubernetes/kubernetes:pkg/apis/resource/validation/validation.go.
std::vector<FieldError> ValidateResourceSlice(const Json& slice);

// The same for one device at `path` of a slice without perDeviceNodeSelection.
std::vector<FieldError> ValidateDevice(const Json& device, absl::string_view path);
// The same for one counter set at `path`.
std::vector<FieldError> ValidateCounterSet(const Json& counter_set, absl::string_view path);

// What an update may not change: spec.driver, spec.pool.name, spec.nodeName.
std::vector<FieldError> ValidateResourceSliceUpdate(const Json& slice, const Json& stored);

// How many devices a slice may hold that has this device among them: 64 if it has taints, consumes counters or has a
// list-valued attribute, else 128.
size_t MaxDevicesBeside(const Json& device);

// What the server cannot see in one slice and what makes an allocator reject the whole pool: device names and counter
// set names unique, each consumed counter set and counter there. Paths are "devices[i]..." and "sharedCounters[i]...".
std::vector<FieldError> ValidatePool(const std::vector<const Json*>& devices,
                                     const std::vector<const Json*>& counter_sets);

}  // namespace dra::resource
