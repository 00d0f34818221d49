#pragma once

#include "dra/base/json.h"

namespace dra::resource {

// True if two resource.k8s.io/v1 objects of one kind (a ResourceSlice, its spec, a Device, a CounterSet, an allocation
// result, or a list of them) say the same, as Kubernetes compares them: Quantities by number, absent and null and empty
// as equal, order of lists significant. A taint without timeAdded equals one with any, since the server fills it in;
// two times are equal within one second. Unknown members are compared verbatim. Pure; any thread.
// Source: kubernetes/dynamic-resource-allocation:resourceslice (DevicesDeepEqual), apimachinery semantic equality.
bool SemanticallyEqual(const Json& a, const Json& b);

// The object with Quantities in canonical text and null and empty members left out: equal texts for objects that
// SemanticallyEqual calls equal, but for timeAdded, which is kept as it is.
Json Canonical(const Json& object);

}  // namespace dra::resource
