#include "device_plugin.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "dra/backend/error.h"

namespace nvidia {
namespace {

bool Accepts(const std::string& path) {
  // Through the directory's descriptor, for a socket's address has room for 107 bytes only.
  const int directory =
      open(std::filesystem::path(path).parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return false;
  const std::string address_path = "/proc/self/fd/" + std::to_string(directory) + "/" +
                                   std::filesystem::path(path).filename().string();
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  bool accepted = false;
  if (address_path.size() < sizeof(address.sun_path)) {
    std::memcpy(address.sun_path, address_path.c_str(), address_path.size() + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
      // EAGAIN: somebody listens, and its queue is full.
      accepted = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
                 errno == EAGAIN;
      close(fd);
    }
  }
  close(directory);
  return accepted;
}

}  // namespace

std::optional<std::string> DevicePlugin::Serving() const {
  std::error_code error;
  std::filesystem::directory_iterator entries(directory_, error), end;
  if (error == std::errc::no_such_file_or_directory) return std::nullopt;
  for (; !error && entries != end; entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (name.rfind("nvidia", 0) != 0 || entries->path().extension() != ".sock") continue;
    if (Accepts(entries->path().string())) return name;
  }
  if (error) {
    throw dra::BackendError(DRA_UNAVAILABLE, "cannot list " + directory_ + ": " + error.message() +
                                                 ": whether NVIDIA's device plugin serves this "
                                                 "node is not known");
  }
  return std::nullopt;
}

}  // namespace nvidia
