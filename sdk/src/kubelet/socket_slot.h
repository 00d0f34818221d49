#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "dra/base/logger.h"
#include "kubelet/acceptor.h"
#include "kubelet/grpc_server.h"
#include "kubelet/listening_socket.h"

namespace dra::kubelet {

// A path that should have a socket of ours, whose connections go to a server. One thread at a time.
class SocketSlot {
 public:
  // marker_directory: "" or where a marker file says that the path is this driver's.
  SocketSlot(std::string path, std::string driver, std::string marker_directory, Logger logger);

  // Another path for a closed slot; the marker file is then not optional.
  void MoveTo(std::string path, const std::string& marker_directory);
  const std::string& path() const { return path_; }

  // Puts a new socket at the path, in place of the one before. Logs the first failure of a row, and the end of it.
  absl::Status Open(Acceptor& acceptor, GrpcServer& server);
  // Takes the socket away; the file only if it is ours. Connections stay.
  void Close(Acceptor& acceptor);

  // No socket, or its file was removed (which is logged). False while another instance has the path.
  bool NeedsOpening();
  // Another instance has put its socket at the path.
  bool LostToAnother() const { return lost_; }

 private:
  absl::Status TryOpen(Acceptor& acceptor, GrpcServer& server);

  std::string path_;
  const std::string driver_;
  std::string marker_path_;
  const Logger logger_;
  std::unique_ptr<ListeningSocket> socket_;
  bool failing_ = false;
  bool lost_ = false;
};

}  // namespace dra::kubelet
