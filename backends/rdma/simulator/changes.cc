#include "changes.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "model.h"

namespace rdma_simulator {
namespace {

struct PortStates {
  const char *state, *physical;
};
// Source: linux Documentation/ABI/stable/sysfs-class-infiniband.
const std::map<std::string, PortStates> kPortStates = {{"DOWN", {"1: DOWN", "2: Polling"}},
                                                       {"DISABLED", {"1: DOWN", "3: Disabled"}},
                                                       {"INIT", {"2: INIT", "5: LinkUp"}},
                                                       {"ARMED", {"3: ARMED", "5: LinkUp"}},
                                                       {"ACTIVE", {"4: ACTIVE", "5: LinkUp"}}};

std::string Joined(const std::set<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += (joined.empty() ? "" : ", ") + text;
  return joined.empty() ? "none" : joined;
}

void Require(const std::string& option, const char* what, const std::string& name,
             const std::set<std::string>& known) {
  if (known.contains(name)) return;
  throw std::invalid_argument(option + ": there is no " + what + " \"" + name +
                              "\"; the host has " + Joined(known));
}

std::set<std::string> Addresses(const State& state) {
  std::set<std::string> addresses;
  for (const Function& function : state.node.functions) addresses.insert(function.address);
  return addresses;
}
std::set<std::string> RdmaNames(const State& state) {
  std::set<std::string> names;
  EachRdma(state.node, [&](const RdmaDevice& device) { names.insert(device.name); });
  return names;
}
std::set<std::string> InterfaceNames(const State& state) {
  std::set<std::string> names;
  EachInterface(state.node, [&](const Interface& interface) { names.insert(interface.name); });
  return names;
}
std::set<std::string> NodeNames(const State& state) {
  std::set<std::string> names;
  if (state.node.rdma_cm) names.insert("rdma_cm");
  EachRdma(state.node, [&](const RdmaDevice& device) {
    if (device.uverbs) names.insert("uverbs" + std::to_string(*device.uverbs));
    for (const int number : device.umad) names.insert("umad" + std::to_string(number));
    for (const int number : device.issm) names.insert("issm" + std::to_string(number));
  });
  return names;
}

void Bind(State& state, const std::string& text) {
  const auto [address, driver] = SplitPair("--bind", text, "ADDRESS=DRIVER");
  Require("--bind", "function", address, Addresses(state));
  for (const Function& function : state.node.functions) {
    if (function.address != address) continue;
    if (function.driver == driver)
      state.bound.erase(address);
    else
      state.bound[address] = driver;
  }
}

void SetVfs(State& state, const std::string& text) {
  const auto [address, number] = SplitPair("--vfs", text, "ADDRESS=NUMBER");
  Require("--vfs", "function", address, Addresses(state));
  if (number.size() > 4 || number.find_first_not_of("0123456789") != std::string::npos)
    throw std::invalid_argument("--vfs " + address + ": \"" + number + "\" is no number");
  SetVirtualFunctions(state, address, std::stoi(number));
}

void SetPort(State& state, const std::string& text) {
  const auto [port, word] = SplitPair("--port", text, "mlx5_0=DOWN or mlx4_0/2=ACTIVE");
  const size_t slash = port.find('/');
  const std::string name = port.substr(0, slash);
  const std::string number = slash == std::string::npos ? "1" : port.substr(slash + 1);
  Require("--port", "RDMA device", name, RdmaNames(state));
  const auto wanted = kPortStates.find(word);
  if (wanted == kPortStates.end()) {
    std::set<std::string> known;
    for (const auto& [state_name, states] : kPortStates) known.insert(state_name);
    throw std::invalid_argument("--port " + port + ": \"" + word + "\" is not one of " +
                                Joined(known));
  }
  EachRdma(state.node, [&](RdmaDevice& device) {
    if (device.name != name) return;
    const bool is_number = number.size() == 1 && number[0] >= '1' && number[0] <= '9';
    if (!is_number || static_cast<size_t>(number[0] - '0') > device.ports.size()) {
      throw std::invalid_argument("--port: RDMA device " + name + " has no port \"" + number +
                                  "\"; it has 1 to " + std::to_string(device.ports.size()));
    }
    Port& changed = device.ports[static_cast<size_t>(number[0] - '1')];
    changed.state = wanted->second.state;
    changed.physical_state = wanted->second.physical;
  });
}

void SetLink(State& state, const std::string& text) {
  const auto [name, word] = SplitPair("--link", text, "INTERFACE=up or INTERFACE=down");
  Require("--link", "interface", name, InterfaceNames(state));
  if (word != "up" && word != "down")
    throw std::invalid_argument("--link " + name + ": \"" + word + "\" is neither up nor down");
  EachInterface(state.node, [&](Interface& interface) {
    if (interface.name == name) interface.state = word;
  });
}

}  // namespace

std::pair<std::string, std::string> SplitPair(const std::string& option, const std::string& text,
                                              const std::string& form) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    throw std::invalid_argument(option + ": \"" + text + "\" is not of the form " + form);
  return {text.substr(0, at), text.substr(at + 1)};
}

void RenameInterface(State& state, const std::string& from, const std::string& to) {
  Require("--rename", "interface", from, InterfaceNames(state));
  if (to.empty() || to.size() > 15 || to == "." || to == ".." || to.find('/') != std::string::npos)
    throw std::invalid_argument("--rename: \"" + to + "\" cannot be the name of an interface");
  if (InterfaceNames(state).contains(to))
    throw std::invalid_argument("--rename: \"" + to + "\" is there already");
  EachInterface(state.node, [&](Interface& interface) {
    for (std::string* name : {&interface.name, &interface.master, &interface.parent})
      if (*name == from) *name = to;
  });
  EachRdma(state.node, [&](RdmaDevice& device) {
    for (Port& port : device.ports)
      for (Gid& gid : port.gids)
        if (gid.netdev == from) gid.netdev = to;
  });
  auto link = state.links.extract(from);
  if (link.empty()) return;
  link.key() = to;
  state.links.insert(std::move(link));
}

void Apply(const Changes& changes, State& state) {
  for (const std::string& address : changes.unbind) {
    Require("--unbind", "function", address, Addresses(state));
    state.bound[address] = "";
  }
  for (const std::string& text : changes.bind) Bind(state, text);
  for (const std::string& text : changes.vfs) SetVfs(state, text);
  for (const std::string& address : changes.unplug) {
    Require("--unplug", "function", address, Addresses(state));
    state.unplugged.insert(address);
  }
  for (const std::string& address : changes.plug) {
    Require("--plug", "function", address, Addresses(state));
    state.unplugged.erase(address);
  }
  for (const std::string& name : changes.remove_rdma) {
    Require("--remove-rdma", "RDMA device", name, RdmaNames(state));
    state.missing_rdma.insert(name);
  }
  for (const std::string& name : changes.add_rdma) {
    Require("--add-rdma", "RDMA device", name, RdmaNames(state));
    state.missing_rdma.erase(name);
  }
  for (const std::string& name : changes.remove_nodes) {
    Require("--remove-node", "node", name, NodeNames(state));
    state.missing_nodes.insert(name);
  }
  for (const std::string& name : changes.add_nodes) {
    Require("--add-node", "node", name, NodeNames(state));
    state.missing_nodes.erase(name);
  }
  for (const std::string& text : changes.ports) SetPort(state, text);
  for (const std::string& text : changes.links) SetLink(state, text);
  for (const std::string& text : changes.renames) {
    const auto [from, to] = SplitPair("--rename", text, "OLD=NEW");
    RenameInterface(state, from, to);
  }
}

}  // namespace rdma_simulator
