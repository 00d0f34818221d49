#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dra::sandbox {

// What of claims is still on disk: CDI files, records, holds, claim directories. Empty when all is gone. An error if a
// directory cannot be read: then nothing is known.
absl::StatusOr<std::vector<std::string>> FindClaimLeftovers(const std::string& cdi_directory,
                                                            const std::string& data_directory);

// Socket files in the directory.
absl::StatusOr<std::vector<std::string>> FindSockets(const std::string& directory);

}  // namespace dra::sandbox
