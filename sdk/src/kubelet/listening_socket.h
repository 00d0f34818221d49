#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/unique_fd.h"

namespace dra::kubelet {

// A listening unix socket that lies at `path` from the moment it accepts connections: it is bound under a hidden name
// in the same directory, listens, and is then renamed over whatever is there. So nobody who tries a socket to find out
// whether it is dead ever meets one of ours that is about to listen, and the kubelet's watcher sees one Create event.
// gRPC never learns the path, so it cannot unlink it either: that is this class's business alone. Not for several
// threads at once.
class ListeningSocket {
 public:
  // `driver` marks the hidden name. The path has at most kMaxSocketPath bytes.
  static absl::StatusOr<std::unique_ptr<ListeningSocket>> Bind(const std::string& path,
                                                               absl::string_view driver);
  // Closes; the file stays until RemoveFile.
  ~ListeningSocket() = default;

  enum class File { kOurs, kMissing, kOther, kUnknown };
  // Whose file lies at the path now. kUnknown: could not look.
  File Look() const;
  // Unlinks the path if the file is still ours; OK if it is not.
  absl::Status RemoveFile();

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

 private:
  ListeningSocket(std::string path, UniqueFd fd, uint64_t device, uint64_t inode);

  const std::string path_;
  const UniqueFd fd_;
  const uint64_t device_;
  const uint64_t inode_;
};

enum class Peer { kListening, kDead, kUnknown };
// Tries to connect to the socket at `path`. kDead: ECONNREFUSED, no process listens. kUnknown: anything else.
Peer ProbeSocket(const std::string& path);

// Removes the sockets that killed instances of this driver left: names of ours to which nobody listens, the hidden
// names of Bind among them. `keep_registration` and `keep_service` are the caller's own paths. Returns the removed paths.
// A failure concerns one file and is passed over: a left-over costs the kubelet a warning, not this instance its start.
struct StaleSocketSweep {
  std::string driver;
  std::string registry_directory;
  std::string plugin_directory;
  std::string keep_registration;
  std::string keep_service;
};
std::vector<std::string> RemoveStaleSockets(const StaleSocketSweep& sweep);

// The file in the plugin directory that says that <registry directory>/<name> is this driver's.
std::string MarkerPath(absl::string_view plugin_directory, absl::string_view socket_path);

}  // namespace dra::kubelet
