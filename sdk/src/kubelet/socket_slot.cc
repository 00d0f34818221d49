#include "kubelet/socket_slot.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/file_system.h"
#include "dra/base/status.h"

namespace dra::kubelet {
namespace {

constexpr uint32_t kMarkerMode = 0600;

}  // namespace

SocketSlot::SocketSlot(std::string path, std::string driver, std::string marker_directory,
                       Logger logger)
    : path_(std::move(path)),
      driver_(std::move(driver)),
      marker_path_(marker_directory.empty() ? "" : MarkerPath(marker_directory, path_)),
      logger_(std::move(logger)) {}

void SocketSlot::MoveTo(std::string path, const std::string& marker_directory) {
  path_ = std::move(path);
  marker_path_ = MarkerPath(marker_directory, path_);
}

absl::Status SocketSlot::TryOpen(Acceptor& acceptor, GrpcServer& server) {
  if (!marker_path_.empty()) {
    PosixFileSystem fs;
    const absl::Status marked = fs.CreateFile(marker_path_, "", kMarkerMode, /*sync=*/false);
    if (!marked.ok() && !absl::IsAlreadyExists(marked)) return marked;
  }
  if (socket_ == nullptr && ProbeSocket(path_) == Peer::kListening) {
    logger_.Warn(
        absl::StrCat("another process listens at ", path_,
                     ": taking over; give each instance its pod UID for a rolling update"));
  }
  DRA_ASSIGN_OR_RETURN(std::unique_ptr<ListeningSocket> opened,
                       ListeningSocket::Bind(path_, driver_));
  if (socket_ != nullptr) acceptor.Remove(socket_->fd());
  socket_ = std::move(opened);
  lost_ = false;
  const int fd = socket_->fd();
  acceptor.Add(fd, [fd, &server](UniqueFd connection) { server.Serve(std::move(connection), fd); });
  return absl::OkStatus();
}

absl::Status SocketSlot::Open(Acceptor& acceptor, GrpcServer& server) {
  const absl::Status opened = TryOpen(acceptor, server);
  if (!opened.ok() && !failing_) {
    logger_.Error(absl::StrCat("no socket at ", path_, "; it is tried again"),
                  {{"error", std::string(opened.message())}});
  }
  if (opened.ok() && failing_) logger_.Info(absl::StrCat("socket is there at ", path_));
  failing_ = !opened.ok();
  return opened;
}

void SocketSlot::Close(Acceptor& acceptor) {
  if (socket_ == nullptr) return;
  // The file goes while the socket still listens, so that nobody finds a dead one.
  const bool ours = socket_->Look() == ListeningSocket::File::kOurs;
  const absl::Status removed = socket_->RemoveFile();
  if (!removed.ok()) {
    logger_.Warn("a socket stays behind", {{"error", std::string(removed.message())}});
  }
  if (ours && !marker_path_.empty()) {
    PosixFileSystem fs;
    (void)fs.Remove(marker_path_);  // a marker without a socket is swept at the next start
  }
  acceptor.Remove(socket_->fd());
  socket_.reset();
}

bool SocketSlot::NeedsOpening() {
  if (socket_ == nullptr) return true;
  switch (socket_->Look()) {
    case ListeningSocket::File::kMissing:
      if (!failing_)
        logger_.Warn(absl::StrCat("somebody removed the socket ", path_, ": making it again"));
      return true;
    case ListeningSocket::File::kOther:
      if (!lost_) {
        logger_.Warn(absl::StrCat("another instance has put its socket at ", path_,
                                  ": leaving it to that one"));
      }
      lost_ = true;
      return false;
    case ListeningSocket::File::kOurs:
      lost_ = false;
      return false;
    case ListeningSocket::File::kUnknown:
      return false;
  }
  return false;
}

}  // namespace dra::kubelet
