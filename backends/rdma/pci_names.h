#pragma once

#include <map>
#include <mutex>
#include <string>

namespace rdma {

// Names from the host's database of PCI ids, if it has one: /usr/share/misc/pci.ids or /usr/share/hwdata/pci.ids below
// the kernel root. Read when the first name of a kind of card is wanted, then remembered: a name does not change while
// the driver runs. Any thread.
class PciNames {
 public:
  explicit PciNames(std::string kernel_root) : kernel_root_(std::move(kernel_root)) {}

  struct Names {
    std::string vendor, device, subsystem;  // "" = not known
  };
  // Ids as sysfs writes them: "0x15b3".
  Names Of(const std::string& vendor, const std::string& device,
           const std::string& subsystem_vendor, const std::string& subsystem_device) const;

 private:
  const std::string kernel_root_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Names> known_;  // by the four ids
};

}  // namespace rdma
