// dra-rdma-simulator: makes a directory that looks like the /sys and /dev of a host with RDMA network cards, and
// changes it while programs look at it. README.md has the commands and the model.

#include <exception>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>

#include "CLI/CLI.hpp"
#include "cards.h"
#include "changes.h"
#include "links.h"
#include "mirror.h"
#include "model.h"
#include "state.h"

namespace rdma_simulator {
namespace {

struct CreateOptions {
  std::string model, root, seed = "simulated";
  bool no_nodes = false, rdma_numbers = false;
};
struct LinksOptions {
  std::string root, wire;
  bool follow = false;
};

std::string Absolute(const std::string& path) {
  std::string text = std::filesystem::absolute(path).lexically_normal();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

bool IsHost(const std::string& root) {
  return std::filesystem::exists(root + "/.rdma-simulator.json");
}

void Create(const CreateOptions& options) {
  State state = ReadModel(options.model, options.seed);
  const std::string root = Absolute(options.root);
  if (root == "/")
    throw std::invalid_argument("the root must not be \"/\": this machine is not simulated");
  if (options.no_nodes) state.nodes = NodeKind::kLinks;
  if (options.rdma_numbers) state.nodes = NodeKind::kReal;
  std::filesystem::create_directories(root);
  const RootLock lock(root);
  if (IsHost(root)) {
    const State before = ReadState(root);
    if (before.links_made)
      throw std::runtime_error(root + " has real interfaces: `dra-rdma-simulator unlink " + root +
                               "` removes them first");
    state.paths = before.paths;
  }
  SyncTree(state, root);
}

void Set(const std::string& path, const Changes& changes) {
  const std::string root = Absolute(path);
  const RootLock lock(root);
  State state = ReadState(root);
  State changed = state;
  Apply(changes, changed);  // all of it or nothing
  for (const std::string& text : changes.renames) {
    const auto [from, to] = SplitPair("--rename", text, "OLD=NEW");
    RenameLink(state, from, to);
    RenameInterface(state, from, to);
  }
  if (changed.links_made) {
    for (const std::string& text : changes.links)
      MatchCarrier(changed, SplitPair("--link", text, "").first);
    MatchLinks(changed);
  }
  SyncTree(changed, root);
}

void Sync(const std::string& root) {
  const RootLock lock(root);
  State state = ReadState(root);
  if (!state.links_made) return;
  MatchLinks(state);
  SyncTree(state, root);
}

void Links(const LinksOptions& options) {
  const std::string root = Absolute(options.root);
  {
    const RootLock lock(root);
    State state = ReadState(root);
    const bool is_path = options.wire.find('/') != std::string::npos;
    const std::string wire =
        options.wire.empty() || is_path ? options.wire : "/run/netns/" + options.wire;
    if (state.links_made && state.wire != wire)
      throw std::runtime_error(
          root + " has real interfaces with other wires: `dra-rdma-simulator unlink " + root +
          "` removes them first");
    state.wire = wire;
    state.links_made = true;
    try {
      MatchLinks(state);
    } catch (...) {
      WriteState(root, state);  // what was made before
      throw;
    }
    SyncTree(state, root);
    for (const std::string& text : LeftOut(state)) std::cerr << "left out: " << text << "\n";
  }
  if (options.follow) FollowLinks([&] { Sync(root); });
}

void Unlink(const std::string& path) {
  const std::string root = Absolute(path);
  const RootLock lock(root);
  State state = ReadState(root);
  RemoveLinks(state);
  SyncTree(state, root);
}

void AddSet(CLI::App& app, std::string& root, Changes& changes) {
  CLI::App* set = app.add_subcommand("set", "change a simulated host while it runs");
  set->add_option("ROOT", root, "of a simulated host")->required();
  const auto add = [&](const char* name, std::vector<std::string>& to, const char* help) {
    set->add_option(name, to, help)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  add("--unplug", changes.unplug, "ADDRESS: the function is gone, and its virtual ones");
  add("--plug", changes.plug, "ADDRESS: it is back as it was");
  add("--unbind", changes.unbind, "ADDRESS: no driver, no interface, no RDMA device");
  add("--bind", changes.bind, "ADDRESS=DRIVER: its own, which brings all back, or another one");
  add("--vfs", changes.vfs, "ADDRESS=NUMBER of virtual functions");
  add("--remove-rdma", changes.remove_rdma, "NAME: the RDMA device is gone");
  add("--add-rdma", changes.add_rdma, "NAME: it is back");
  add("--remove-node", changes.remove_nodes, "NAME such as uverbs0 or rdma_cm: gone from /dev");
  add("--add-node", changes.add_nodes, "NAME: it is back");
  add("--port", changes.ports, "DEVICE[/PORT]=ACTIVE, ARMED, INIT, DOWN or DISABLED");
  add("--link", changes.links, "INTERFACE=up or =down");
  add("--rename", changes.renames, "OLD=NEW name of an interface");
  set->callback([&root, &changes] { Set(root, changes); });
}

int Main(int argc, char** argv) {
  CLI::App app("Simulated hosts with RDMA network cards.", "dra-rdma-simulator");
  app.require_subcommand(1);
  CreateOptions create_options;
  LinksOptions links_options;
  Changes changes;
  std::string root;

  CLI::App* create = app.add_subcommand("create", "make a simulated host from a model");
  create->add_option("MODEL", create_options.model, "YAML file")
      ->required()
      ->check(CLI::ExistingFile);
  create->add_option("ROOT", create_options.root, "directory that becomes the host's root")
      ->required();
  create->add_option("--node", create_options.seed, "seed of addresses and GUIDs")
      ->capture_default_str();
  CLI::Option* no_nodes =
      create->add_flag("--no-nodes", create_options.no_nodes,
                       "make no device nodes, which needs root; links to /dev/null in their place");
  create
      ->add_flag("--rdma-numbers", create_options.rdma_numbers,
                 "device nodes with the RDMA subsystem's numbers, not with that of /dev/null")
      ->excludes(no_nodes);
  create->callback([&] { Create(create_options); });

  CLI::App* links = app.add_subcommand(
      "links", "make a real interface for each of the host's, in this network namespace");
  links->add_option("ROOT", links_options.root, "of a simulated host")->required();
  links->add_option("--wire", links_options.wire,
                    "network namespace for the other ends: a name of `ip netns`, or a path");
  links->add_flag("--follow", links_options.follow,
                  "stay, and keep the tree in step with where the interfaces go");
  links->callback([&] { Links(links_options); });
  CLI::App* unlink = app.add_subcommand("unlink", "remove the real interfaces, wherever they are");
  unlink->add_option("ROOT", root, "of a simulated host")->required();
  unlink->callback([&] { Unlink(root); });

  AddSet(app, root, changes);
  CLI::App* sync =
      app.add_subcommand("sync", "bring the tree in step with where the real interfaces are");
  sync->add_option("ROOT", root, "of a simulated host")->required();
  sync->callback([&] { Sync(Absolute(root)); });
  CLI::App* show = app.add_subcommand("show", "print the state as JSON");
  show->add_option("ROOT", root, "of a simulated host")->required();
  show->callback([&] { std::cout << ToJson(ReadState(Absolute(root))).dump(2) << "\n"; });
  app.add_subcommand("cards", "list the cards that a model can name")->callback([] {
    for (const std::string& name : CardNames()) std::cout << name << "\n";
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::cerr << "dra-rdma-simulator: " << error.what() << "\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace rdma_simulator

int main(int argc, char** argv) { return rdma_simulator::Main(argc, argv); }
