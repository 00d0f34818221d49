#include "ethtool.h"

#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "netlink_error.h"

namespace rdma {
namespace {

// What `ethtool -K` takes for several features of the kernel together, short and long; a name that ends in '*' is all
// that begin so. Source: ethtool(8), and netdev_features_strings in torvalds/linux:net/ethtool/common.c.
struct Alias {
  const char* short_name;
  const char* long_name;
  const char* kernel;
};
constexpr Alias kAliases[] = {
    {"rx", "rx-checksumming", "rx-checksum"},
    {"tx", "tx-checksumming", "tx-checksum-*"},
    {"sg", "scatter-gather", "tx-scatter-gather*"},
    {"tso", "tcp-segmentation-offload", "tx-tcp*"},
    {"gso", "generic-segmentation-offload", "tx-generic-segmentation"},
    {"gro", "generic-receive-offload", "rx-gro"},
    {"lro", "large-receive-offload", "rx-lro"},
    {"rxvlan", "rx-vlan-offload", "rx-vlan-hw-parse"},
    {"txvlan", "tx-vlan-offload", "tx-vlan-hw-insert"},
    {"ntuple", "ntuple-filters", "rx-ntuple-filter"},
    {"rxhash", "receive-hashing", "rx-hashing"},
};

// A command of ethtool with what follows its struct.
template <typename Struct>
class Command {
 public:
  Command(uint32_t cmd, size_t extra)
      : bytes_(new (std::align_val_t{alignof(uint64_t)}) uint8_t[sizeof(Struct) + extra]()) {
    get().cmd = cmd;
  }
  Struct& get() { return *reinterpret_cast<Struct*>(bytes_.get()); }
  Struct* operator->() { return &get(); }

 private:
  struct Delete {
    void operator()(uint8_t* bytes) const {
      operator delete[](bytes, std::align_val_t{alignof(uint64_t)});
    }
  };
  std::unique_ptr<uint8_t[], Delete> bytes_;
};

// The interface's ethtool.
class Ethtool {
 public:
  explicit Ethtool(const std::string& interface) : interface_(interface) {
    if (interface.empty() || interface.size() >= IFNAMSIZ) {
      throw MakeNetlinkError(ENODEV, "ethtool " + interface,
                             "an interface's name has 1 to 15 characters");
    }
    fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd_ < 0) throw MakeNetlinkError(errno, "ethtool " + interface);
  }
  Ethtool(const Ethtool&) = delete;
  Ethtool& operator=(const Ethtool&) = delete;
  ~Ethtool() { close(fd_); }

  // What the ioctl returns; it may be positive.
  template <typename Struct>
  int Call(Struct& command, const std::string& what) const {
    ifreq request{};
    interface_.copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(&command);
    const int result = ioctl(fd_, SIOCETHTOOL, &request);
    if (result < 0) throw MakeNetlinkError(errno, what + " of " + interface_);
    return result;
  }

  // The names of a set (ETH_SS_...), by their bits; none if the driver has no such set.
  std::vector<std::string> Names(uint32_t set, const std::string& what) const {
    Command<ethtool_sset_info> info(ETHTOOL_GSSET_INFO, sizeof(uint32_t));
    info->sset_mask = 1ULL << set;
    try {
      Call(info.get(), what);
    } catch (const NetlinkError& e) {
      if (e.error() == EOPNOTSUPP) return {};
      throw;
    }
    const uint32_t count = info->sset_mask == 0 ? 0 : info->data[0];
    if (count == 0) return {};
    if (count > kMaxNames)
      throw MakeNetlinkError(E2BIG, what + " of " + interface_, std::to_string(count) + " names");
    Command<ethtool_gstrings> strings(ETHTOOL_GSTRINGS, size_t{count} * ETH_GSTRING_LEN);
    strings->string_set = set;
    strings->len = count;
    Call(strings.get(), what);
    std::vector<std::string> names;
    for (uint32_t bit = 0; bit < std::min(count, strings->len); ++bit) {
      const char* name =
          reinterpret_cast<const char*>(strings->data) + size_t{bit} * ETH_GSTRING_LEN;
      names.emplace_back(name, strnlen(name, ETH_GSTRING_LEN));
    }
    return names;
  }

  const std::string& interface() const { return interface_; }

 private:
  static constexpr uint32_t kMaxNames = 1 << 12;

  const std::string interface_;
  int fd_ = -1;
};

bool Matches(const std::string& name, std::string_view pattern) {
  if (pattern.empty() || pattern.back() != '*') return name == pattern;
  return name.compare(0, pattern.size() - 1, pattern.substr(0, pattern.size() - 1)) == 0;
}

// The bits of this name or alias.
std::vector<size_t> BitsOf(const std::vector<std::string>& names, const std::string& wanted,
                           const std::string& what) {
  std::string_view pattern = wanted;
  for (const Alias& alias : kAliases) {
    if (wanted == alias.short_name || wanted == alias.long_name) pattern = alias.kernel;
  }
  std::vector<size_t> bits;
  for (size_t bit = 0; bit < names.size(); ++bit) {
    const bool exact =
        pattern.data() == wanted.data();  // a '*' in a name that was asked for is no pattern
    if (!names[bit].empty() && (exact ? names[bit] == wanted : Matches(names[bit], pattern)))
      bits.push_back(bit);
  }
  if (bits.empty()) {
    std::string known;
    for (const std::string& name : names) {
      if (!name.empty()) known += (known.empty() ? "" : ", ") + name;
    }
    throw MakeNetlinkError(ENOENT, what, known.empty() ? "it has none at all" : "it has " + known);
  }
  return bits;
}

// ETHTOOL_GFEATURES: four masks of 32 features a block.
class FeatureMasks {
 public:
  FeatureMasks(const Ethtool& ethtool, size_t count)
      : command_(ETHTOOL_GFEATURES, Blocks(count) * sizeof(ethtool_get_features_block)) {
    command_->size = static_cast<uint32_t>(Blocks(count));
    ethtool.Call(command_.get(), "get features");
  }
  static size_t Blocks(size_t count) { return (count + 31) / 32; }

  bool Active(size_t bit) { return (command_->features[bit / 32].active >> (bit % 32) & 1) != 0; }
  bool Fixed(size_t bit) {
    const ethtool_get_features_block& block = command_->features[bit / 32];
    return ((block.available & ~block.never_changed) >> (bit % 32) & 1) == 0;
  }

 private:
  Command<ethtool_gfeatures> command_;
};

std::string OnOff(bool on) { return on ? " on" : " off"; }

}  // namespace

std::map<std::string, bool> GetFeatures(const std::string& interface) {
  const Ethtool ethtool(interface);
  const std::vector<std::string> names = ethtool.Names(ETH_SS_FEATURES, "get features");
  FeatureMasks masks(ethtool, names.size());
  std::map<std::string, bool> features;
  for (size_t bit = 0; bit < names.size(); ++bit) {
    if (!names[bit].empty()) features[names[bit]] = masks.Active(bit);
  }
  return features;
}

void SetFeatures(const std::string& interface, const std::map<std::string, bool>& features) {
  if (features.empty()) return;
  const Ethtool ethtool(interface);
  const std::vector<std::string> names = ethtool.Names(ETH_SS_FEATURES, "get features");
  FeatureMasks before(ethtool, names.size());
  const size_t blocks = FeatureMasks::Blocks(names.size());
  Command<ethtool_sfeatures> command(ETHTOOL_SFEATURES,
                                     blocks * sizeof(ethtool_set_features_block));
  command->size = static_cast<uint32_t>(blocks);
  const auto what = [&](const std::string& name, bool on) {
    return "set feature " + name + OnOff(on) + " on " + interface;
  };
  std::map<size_t, std::string> wanted_by;  // bit -> the name that was asked for
  for (const auto& [name, on] : features) {
    const std::vector<size_t> bits = BitsOf(names, name, what(name, on));
    bool changeable = false;
    for (const size_t bit : bits) {
      if (before.Fixed(bit)) {
        changeable = changeable || before.Active(bit) == on;
        continue;
      }
      changeable = true;
      wanted_by[bit] = name;
      ethtool_set_features_block& block = command->features[bit / 32];
      const uint32_t mask = 1U << (bit % 32);
      block.valid |= mask;
      block.requested = on ? block.requested | mask : block.requested & ~mask;
    }
    if (!changeable) throw MakeNetlinkError(EOPNOTSUPP, what(name, on), "it is fixed");
  }
  if (wanted_by.empty()) return;
  ethtool.Call(command.get(), "set features");
  // The driver may have wished otherwise, for what a feature depends on.
  FeatureMasks after(ethtool, names.size());
  for (const auto& [bit, name] : wanted_by) {
    const bool on = features.at(name);
    if (after.Active(bit) != on) {
      throw MakeNetlinkError(
          EOPNOTSUPP, what(name, on),
          names[bit] + " stays" + OnOff(!on) + ": the driver or another feature needs it so");
    }
  }
}

std::map<std::string, bool> GetPrivateFlags(const std::string& interface) {
  const Ethtool ethtool(interface);
  std::map<std::string, bool> flags;
  const std::vector<std::string> names = ethtool.Names(ETH_SS_PRIV_FLAGS, "get private flags");
  if (names.empty()) return flags;
  ethtool_value value{.cmd = ETHTOOL_GPFLAGS, .data = 0};
  ethtool.Call(value, "get private flags");
  for (size_t bit = 0; bit < std::min<size_t>(names.size(), 32); ++bit) {
    if (!names[bit].empty()) flags[names[bit]] = (value.data >> bit & 1) != 0;
  }
  return flags;
}

void SetPrivateFlags(const std::string& interface, const std::map<std::string, bool>& flags) {
  if (flags.empty()) return;
  const Ethtool ethtool(interface);
  std::vector<std::string> names = ethtool.Names(ETH_SS_PRIV_FLAGS, "get private flags");
  names.resize(std::min<size_t>(names.size(), 32));
  ethtool_value value{.cmd = ETHTOOL_GPFLAGS, .data = 0};
  if (!names.empty()) ethtool.Call(value, "get private flags");
  for (const auto& [name, on] : flags) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      BitsOf(names, name,
             "set private flag " + name + OnOff(on) + " on " + interface);  // says which there are
      throw MakeNetlinkError(ENOENT, "set private flag " + name + OnOff(on) + " on " + interface);
    }
    const uint32_t mask = 1U << (found - names.begin());
    value.data = on ? value.data | mask : value.data & ~mask;
  }
  value.cmd = ETHTOOL_SPFLAGS;
  ethtool.Call(value, "set private flags");
}

}  // namespace rdma
