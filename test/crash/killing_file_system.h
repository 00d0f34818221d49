#pragma once

#include <string>

#include "dra/base/file_system.h"
#include "dra/testing/forwarding_file_system.h"
#include "test/crash/kill_points.h"

namespace dra::crash {

// The kernel's file system with a kill point before and after each operation, and one with half of the bytes written for
// the creation of a file. Reading operations have only the point before: what is on disk after them is the same.
// Serves another boot id than the machine's, for a "reboot" of this process alone. Any thread.
class KillingFileSystem final : public testing::ForwardingFileSystem {
 public:
  // points outlives this. root: see PathClass. boot_id: "" = the machine's.
  KillingFileSystem(KillPoints* points, std::string root, std::string boot_id);

  absl::StatusOr<std::string> ReadFile(absl::string_view path, uint64_t max_bytes) override;

 private:
  absl::Status Pass(const testing::FileCall& call,
                    absl::FunctionRef<absl::Status()> carry_out) override;

  KillPoints* const points_;
  const std::string root_;
  const std::string boot_id_;
  PosixFileSystem kernel_;
};

}  // namespace dra::crash
