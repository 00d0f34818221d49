#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "resource/field_reader.h"

namespace dra::resource {

// The rules of a Device, each writing into `reader`. See dra/resource/slice.h for the source.
void CheckDevice(FieldReader& reader, const Json& device, const std::string& path,
                 bool per_device_node_selection);
void CheckAttribute(FieldReader& reader, const Json& attribute, const std::string& path);
// `shared`: the device allows multiple allocations.
void CheckCapacity(FieldReader& reader, const Json& capacity, const std::string& path, bool shared);
void CheckRequestPolicy(FieldReader& reader, const Json& policy, const std::string& path,
                        const Quantity& total);
void CheckTaint(FieldReader& reader, const Json& taint, const std::string& path);
void CheckCounterSet(FieldReader& reader, const Json& counter_set, const std::string& path);
// A required, non-empty map of counters.
void CheckCounters(FieldReader& reader, const Json& parent, const std::string& path, size_t limit);
void CheckNodeSelector(FieldReader& reader, const Json& selector, const std::string& path);
void CheckNodeAllocatable(FieldReader& reader, const Json& device, const std::string& path);

// How many values an attribute has: the items of a list, else 1.
size_t AttributeValueCount(const Json& attribute);

}  // namespace dra::resource
