#include "device_parameters.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "error.h"

namespace nvidia_hook {
namespace {

constexpr char kDirectory[] = "/proc/driver/nvidia";
constexpr char kName[] = "params";
constexpr char kWhat[] = "/proc/driver/nvidia/params in the container";
constexpr size_t kMaxText = 1 << 16;

// A path for calls that take no descriptor.
std::string PathOf(const Fd& fd) { return "/proc/self/fd/" + std::to_string(fd.get()); }

std::string Read(const Fd& file) {
  std::string text;
  char part[4096];
  for (ssize_t got; (got = read(file.get(), part, sizeof(part))) != 0 && text.size() < kMaxText;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) Fail(std::string("read ") + kWhat);
    text.append(part, static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

void StopDeviceNodeMaking(const RootDir& root) {
  const Fd directory = root.Directory(kDirectory, /*make=*/false);
  if (!directory) return;
  const Fd target(openat(directory.get(), kName, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!target) {
    if (errno == ENOENT) return;
    Fail(std::string("open ") + kWhat);
  }
  std::string text = Read(target);
  const size_t setting = text.find("ModifyDeviceFiles: 1\n");
  if (setting == std::string::npos || (setting > 0 && text[setting - 1] != '\n')) return;
  text[text.find('1', setting)] = '0';

  // The new file lies on a tmpfs that is mounted only as long as it takes to bind the file over the old one, which is
  // reached by the descriptor from before.
  const Fd parent = root.Directory("/proc/driver", /*make=*/false);
  if (mount("tmpfs", PathOf(directory).c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
            "mode=0755,size=64k") != 0) {
    Fail(std::string("mount a tmpfs for ") + kWhat);
  }
  const Fd tmpfs(openat(parent.get(), "nvidia", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!tmpfs) Fail(std::string("open the tmpfs for ") + kWhat);
  bool done = false;
  int error = 0;
  {
    const Fd file(openat(tmpfs.get(), kName, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444));
    done = file && fchmod(file.get(), 0444) == 0 &&
           write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
           mount(PathOf(file).c_str(), PathOf(target).c_str(), "", MS_BIND, nullptr) == 0;
    error = errno;
  }
  umount2(PathOf(tmpfs).c_str(), MNT_DETACH);
  errno = error;
  if (!done) Fail(std::string("put a new file in place of ") + kWhat);
  const Fd bound(openat(directory.get(), kName, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!bound ||
      mount("", PathOf(bound).c_str(), "",
            MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) {
    Fail(std::string("make read-only ") + kWhat);
  }
}

}  // namespace nvidia_hook
