#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "dra/backend/backend.h"

namespace fake {

// The configuration of a device that counts: the last one, for they stand lowest precedence first; nullopt if there is
// none. Every one is read by `decode(parameters, path)`, also one that another outranks: what a user wrote wrong is
// told in any case. The path names the configuration.
template <typename Decode>
auto DecodeHighest(const std::vector<dra::DeviceConfig>& configs, Decode&& decode)
    -> std::optional<std::invoke_result_t<Decode, const dra::Json&, const std::string&>> {
  std::optional<std::invoke_result_t<Decode, const dra::Json&, const std::string&>> highest;
  for (const dra::DeviceConfig& config : configs) {
    const std::string where = "configuration " + config.source +
                              (config.request.empty() ? "" : " of request " + config.request);
    highest = decode(config.parameters, where + ": parameters");
  }
  return highest;
}

}  // namespace fake
