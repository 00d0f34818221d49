#include "sysctls.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace rdma {
namespace {

std::string Directory(const std::string& family, const std::string& interface) {
  return "/proc/sys/net/" + family + "/conf/" + interface;
}

std::string PathOf(const std::string& interface, const std::string& setting) {
  const size_t slash = setting.find('/');
  return Directory(setting.substr(0, slash), interface) + setting.substr(slash);
}

// In a container without privilege /proc/sys is read-only. Who may mount (CAP_SYS_ADMIN) makes another view of proc, which is
// attached nowhere. -1 with the reason in errno.
int OpenInOtherView(const std::string& path) {
  const int context = fsopen("proc", FSOPEN_CLOEXEC);
  if (context < 0) return -1;
  int view = -1;
  if (fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) == 0)
    view =
        fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  close(context);
  if (view < 0) return -1;
  const int fd = openat(view, path.c_str() + std::strlen("/proc/"), O_WRONLY | O_CLOEXEC);
  close(view);
  return fd;
}

int OpenToWrite(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd >= 0 || errno != EROFS) return fd;
  const int other = OpenInOtherView(path);
  if (other < 0) errno = EROFS;
  return other;
}

}  // namespace

std::optional<std::string> ReadSysctl(const std::string& interface, const std::string& setting) {
  const int fd = open(PathOf(interface, setting).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  char text[256];
  const ssize_t size = read(fd, text, sizeof(text));
  close(fd);
  if (size <= 0) return std::nullopt;
  std::string value(text, static_cast<size_t>(size));
  value.erase(value.find_last_not_of("\n ") + 1);
  return value;
}

void WriteSysctl(const std::string& interface, const std::string& setting,
                 const std::string& value) {
  const std::string path = PathOf(interface, setting);
  const int fd = OpenToWrite(path);
  const bool written =
      fd >= 0 && write(fd, value.data(), value.size()) == static_cast<ssize_t>(value.size());
  const int error = errno;
  if (fd >= 0) close(fd);
  if (!written)
    throw std::runtime_error("set " + path + " to " + value + ": " + std::strerror(error));
}

std::map<std::string, std::string> SysctlsOf(const std::string& interface) {
  std::map<std::string, std::string> settings;
  for (const char* family : {"ipv4", "ipv6"}) {
    DIR* directory = opendir(Directory(family, interface).c_str());
    if (directory == nullptr) continue;
    while (const dirent* entry = readdir(directory)) {
      const std::string setting = std::string(family) + "/" + entry->d_name;
      // The MTU is the link's, multicast forwarding is its daemon's, and a secret is not written anywhere.
      if (entry->d_name[0] == '.' || setting == "ipv6/mtu" || setting == "ipv6/stable_secret" ||
          setting.ends_with("/mc_forwarding"))
        continue;
      const auto value = ReadSysctl(interface, setting);
      if (value && value != ReadSysctl("default", setting)) settings[setting] = *value;
    }
    closedir(directory);
  }
  return settings;
}

}  // namespace rdma
