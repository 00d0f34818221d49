#include "driver_epoch.h"

#include <sys/stat.h>

#include "dra/backend/sysfs.h"

namespace nvidia {

std::string DriverEpoch(const std::string& root) {
  const dra::Sysfs files(root);
  const auto boot = files.Read("proc/sys/kernel/random/boot_id");
  if (!boot) return "";
  // The kernel gives the directory of each load of a module another number.
  struct stat module = {};
  const bool loaded = stat(files.Path("sys/module/nvidia").c_str(), &module) == 0;
  return *boot + "/" + (loaded ? std::to_string(module.st_ino) : "") + "/" +
         files.Read("sys/module/nvidia/version").value_or("");
}

}  // namespace nvidia
