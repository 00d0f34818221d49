#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "dra/base/json.h"

// How slices are named and told apart.
namespace dra::publisher {

// "<index, five hex digits or more>-<driver>-<node>-", cut at 58 bytes, since the API server appends five characters
// and cuts the rest (kubernetes/apiserver:pkg/storage/names/generate.go). The scheduler tries slices in the order of
// their names, so the index comes first.
std::string GenerateName(uint64_t index, absl::string_view driver_name,
                         absl::string_view node_name);

// The index a name begins with, or nullopt for a name of another form.
std::optional<uint64_t> IndexOf(absl::string_view slice_name);

// metadata.<key> as a string, "" if absent.
std::string Meta(const Json& object, absl::string_view key);

// True if the slice's spec names this driver and this node: whoever wrote it, it is this driver's to keep right.
bool IsOurs(const Json& slice, absl::string_view driver_name, absl::string_view node_name);

// The field selector of this driver's slices of this node. Both fields: the server's watch cache is indexed by node, and
// without it every slice would be scanned.
std::string SelectorOf(absl::string_view driver_name, absl::string_view node_name);

// spec.pool.name, "" if absent.
std::string PoolOf(const Json& slice);

}  // namespace dra::publisher
