#include "state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace rdma_simulator {
namespace {

constexpr char kFile[] = "/.rdma-simulator.json";
constexpr std::pair<NodeKind, const char*> kNodeKinds[] = {
    {NodeKind::kStandIns, "standIns"}, {NodeKind::kReal, "real"}, {NodeKind::kLinks, "links"}};

State StateFromJson(const Json& json) {
  State state;
  state.node = NodeFromJson(json.at("node"), "node");
  state.seed = json.at("seed");
  state.cards = json.at("cards").get<std::map<std::string, std::string>>();
  state.unplugged = json.at("unplugged").get<std::set<std::string>>();
  state.bound = json.at("bound").get<std::map<std::string, std::string>>();
  state.missing_rdma = json.at("missingRdma").get<std::set<std::string>>();
  state.missing_nodes = json.at("missingNodes").get<std::set<std::string>>();
  for (const auto& [kind, word] : kNodeKinds)
    if (json.at("nodes") == word) state.nodes = kind;
  state.links_made = json.at("linksMade");
  state.wire = json.at("wire");
  for (const auto& [name, link] : json.at("links").items())
    state.links[name] = {link.at("peer"), link.at("index")};
  state.paths = json.at("paths").get<std::vector<std::string>>();
  return state;
}

void DropMissing(const State& state, std::vector<RdmaDevice>& rdma) {
  std::erase_if(rdma,
                [&](const RdmaDevice& device) { return state.missing_rdma.contains(device.name); });
}

void DropAway(const State& state, std::vector<Interface>& interfaces) {
  std::erase_if(interfaces, [&](Interface& interface) {
    const auto link = state.links.find(interface.name);
    if (link == state.links.end()) return false;
    interface.index = link->second.index;
    return interface.index == 0;
  });
}

bool IsGone(const State& state, const Function& function) {
  if (state.unplugged.contains(function.address)) return true;
  // Virtual functions live with their physical function's driver.
  return state.unplugged.contains(function.physical_function) ||
         state.bound.contains(function.physical_function);
}

}  // namespace

Json ToJson(const State& state) {
  Json json = {{"node", ToJson(state.node)},
               {"seed", state.seed},
               {"cards", state.cards},
               {"unplugged", state.unplugged},
               {"bound", state.bound},
               {"missingRdma", state.missing_rdma},
               {"missingNodes", state.missing_nodes},
               {"linksMade", state.links_made},
               {"wire", state.wire},
               {"links", Json::object()},
               {"paths", state.paths}};
  for (const auto& [kind, word] : kNodeKinds)
    if (state.nodes == kind) json["nodes"] = word;
  for (const auto& [name, link] : state.links)
    json["links"][name] = {{"peer", link.peer}, {"index", link.index}};
  return json;
}

State ReadState(const std::string& root) {
  std::ifstream file(root + kFile, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) {
    throw std::runtime_error(root + " is no simulated host: it has no " + (kFile + 1) +
                             "; `dra-rdma-simulator create MODEL.yaml " + root + "` makes one");
  }
  try {
    return StateFromJson(Json::parse(text.str()));
  } catch (const std::exception& error) {
    throw std::runtime_error(root + kFile + ": " + error.what() + "; `create` makes it anew");
  }
}

void WriteState(const std::string& root, const State& state) {
  const std::string temporary = root + kFile + ".new";
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file << ToJson(state).dump(1) << "\n";
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(temporary, root + kFile, error);
  if (!file || error) throw std::runtime_error("cannot write " + root + kFile);
}

Node Visible(const State& state) {
  Node node = state.node;
  std::erase_if(node.functions, [&](const Function& function) { return IsGone(state, function); });
  for (Function& function : node.functions) {
    if (const auto bound = state.bound.find(function.address); bound != state.bound.end()) {
      function.driver = bound->second;
      function.interfaces.clear();
      function.rdma.clear();
      function.children.clear();
    }
    DropMissing(state, function.rdma);
    DropAway(state, function.interfaces);
    for (ChildDevice& child : function.children) {
      DropMissing(state, child.rdma);
      DropAway(state, child.interfaces);
    }
  }
  DropMissing(state, node.software_rdma);
  DropAway(state, node.virtual_interfaces);
  // What lies on something that is not there stands alone.
  std::set<std::string> names;
  EachInterface(node, [&](const Interface& interface) { names.insert(interface.name); });
  EachInterface(node, [&](Interface& interface) {
    if (!names.contains(interface.master)) interface.master.clear();
    if (!names.contains(interface.parent)) interface.parent.clear();
  });
  return node;
}

RootLock::RootLock(const std::string& root) {
  fd_ = open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0) throw std::runtime_error("cannot open " + root + ": " + std::strerror(errno));
  while (flock(fd_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const std::string problem = std::strerror(errno);
    close(fd_);
    throw std::runtime_error("cannot lock " + root + ": " + problem);
  }
}

RootLock::~RootLock() { close(fd_); }

}  // namespace rdma_simulator
