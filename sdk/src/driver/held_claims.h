#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "dra/base/file_system.h"
#include "dra/records/record.h"

namespace dra::driver {

// A claim that a driver's data directory says it holds devices for.
struct HeldClaim {
  records::RecordClaim claim;
  std::string phase;      // of the record; "unreadable"; "held": a hold without a record
  bool same_boot = true;  // false: recorded in another boot
  std::vector<std::pair<std::string, std::string>> devices;  // (pool, device)
  std::vector<std::string> pods;                             // names, of reservedFor
  std::string last_error;
};

// Every claim with a record or, in this boot, a hold, sorted by uid. Reads only, needs no lock and no running driver; a
// data directory that is not there holds nothing. boot_id "": not known, then the holds of every boot count. Errors:
// something could not be read, so nothing can be said.
absl::StatusOr<std::vector<HeldClaim>> ReadHeldClaims(FileSystem& fs,
                                                      const std::string& data_directory,
                                                      const std::string& boot_id);

// "ns1/c1 (uid ...), prepared, devices n1/gpu-0, pods p1"
std::string Describe(const HeldClaim& claim);

}  // namespace dra::driver
