// dra-nvidia-simulator: makes a directory that looks like the root of a host with NVIDIA GPUs, and changes it while
// programs look at it. README.md has the commands and the model.

#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "cards.h"
#include "changes.h"
#include "files.h"
#include "layout.h"
#include "model.h"
#include "tree.h"

namespace nvidia_simulator {
namespace {

struct CreateOptions {
  std::string model, root, driver_root, library, node = "simulated";
  std::string library_directory = DefaultLibraryDirectory();
  bool no_nodes = false, not_installed = false;
};

std::string Absolute(const std::string& path) {
  std::string text = std::filesystem::absolute(path).lexically_normal();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

// "/run/nvidia/driver/" -> "run/nvidia/driver".
std::string BelowRoot(const std::string& option, const std::string& path) {
  const std::string text = Absolute("/" + path).substr(1);
  if (path.find("..") != std::string::npos)
    throw std::invalid_argument(option + ": \"" + path + "\" must not have \"..\" in it");
  return text;
}

void Create(const CreateOptions& options) {
  State state = ReadModel(options.model, options.node);
  Layout layout;
  layout.root = Absolute(options.root);
  if (layout.root == "/")
    throw std::invalid_argument("the root must not be \"/\": this machine is not simulated");
  layout.driver_root = BelowRoot("--driver-root", options.driver_root);
  layout.library_directory = BelowRoot("--library-directory", options.library_directory);
  layout.node = options.node;
  layout.nvml_library = options.library.empty() ? "" : Absolute(options.library);
  layout.nodes = !options.no_nodes;
  layout.installed = !options.not_installed;
  if (!layout.installed) state.driver.loaded = false;
  if (state.host_dev_root.empty()) state.host_dev_root = layout.root + "/" + layout.DevRoot();

  MakeDirectory(layout.root);
  const LayoutLock lock(layout.root);
  const std::string state_file = layout.StateFile(state.driver.version);
  if (std::filesystem::exists(layout.root + "/.nvidia-simulator.json")) {
    const Layout before = ReadLayout(layout.root);
    layout.paths = before.paths;
    const std::optional<std::string> old_file = before.FindStateFile();
    if (old_file && *old_file != state_file) RemovePath(*old_file, layout.root);
  }
  SyncTree(layout, state);
  MakeDirectory(std::filesystem::path(state_file).parent_path());
  WriteState(state_file, state);
}

// Carries out the changes and brings the tree in step.
void Set(const std::string& root, const Changes& changes) {
  const LayoutLock lock(Absolute(root));
  Layout layout = ReadLayout(Absolute(root));
  const std::string file = layout.RequireStateFile();
  State result;
  UpdateState(file, [&](State& state) {
    State changed = state;
    Apply(changes, layout, changed);
    state = result = StateFromJson(ToJson(changed));  // refuses what cannot be together
  });
  const std::string wanted = layout.StateFile(result.driver.version);
  // By rename: containers that have the file mounted stay with the node's state.
  if (wanted != file) std::filesystem::rename(file, wanted);
  SyncTree(layout, result);
}

void Show(const std::string& root) {
  const Layout layout = ReadLayout(Absolute(root));
  std::cout << ToJson(ReadState(layout.RequireStateFile())).dump(2) << "\n";
}

void AddCreate(CLI::App& app, CreateOptions& options) {
  CLI::App* create = app.add_subcommand("create", "make a simulated host from a model");
  create->add_option("MODEL", options.model, "YAML file")->required()->check(CLI::ExistingFile);
  create->add_option("ROOT", options.root, "directory that becomes the host's root")->required();
  create->add_option("--driver-root", options.driver_root,
                     "below ROOT: where the driver's files and /dev lie, such as run/nvidia/driver "
                     "of a driver container; default: ROOT itself");
  create->add_option("--library-directory", options.library_directory, "below the driver's root")
      ->capture_default_str();
  create
      ->add_option("--library", options.library,
                   "the libnvidia-ml.so.1 to install; default: the one that this program carries")
      ->check(CLI::ExistingFile);
  create->add_option("--node", options.node, "seed of UUIDs and serials")->capture_default_str();
  create->add_flag("--no-nodes", options.no_nodes, "make no device nodes, which needs root");
  create->add_flag("--not-installed", options.not_installed,
                   "a node without the driver's files; `set --install` brings them");
  create->callback([&options] { Create(options); });
}

void AddCardOptions(CLI::App& set, CardChanges& card) {
  set.add_flag("--remove-gpu", card.remove, "the GPU is no longer there")->group("GPU");
  set.add_option("--hold", card.holds, "a PID or a name holds the GPU")->group("GPU");
  set.add_flag("--release", card.release, "nothing holds the GPU any more")->group("GPU");
  set.add_flag("--reset", card.reset, "reset the GPU, pending states become current")->group("GPU");
  set.add_option("--mig", card.mig, "switch MIG now, without a reset")
      ->check(CLI::IsMember({"on", "off"}))
      ->group("GPU");
  set.add_option("--mig-create", card.mig_creates, "PROFILE[:START]")->group("GPU");
  set.add_option("--mig-destroy", card.mig_destroys, "PROFILE:START")->group("GPU");
  set.add_option("--merge", card.merge, "JSON that is merged into the GPU's members")->group("GPU");
  set.add_flag("--lost", card.lost, "fallen off the bus")->group("Faults of a GPU");
  set.add_flag("--heal", card.heal,
               "ends --lost, --ecc, --remap-*, --retired-pages-pending, --recovery-action")
      ->group("Faults of a GPU");
  set.add_option("--recovery-action", card.recovery_action,
                 "what the driver asks for, with XID 154: " + RecoveryActionNames())
      ->group("Faults of a GPU");
  set.add_option("--xid", card.xids, "an XID event")->group("Faults of a GPU");
  set.add_option("--event", card.events, "another event, NAME or NAME=VALUE")
      ->group("Faults of a GPU");
  set.add_option("--instance", card.instance, "GI or GI:CI that the events are of")
      ->group("Faults of a GPU");
  set.add_option("--ecc", card.ecc, "so many uncorrectable errors more, with an event")
      ->group("Faults of a GPU");
  set.add_flag("--remap-pending", card.remap_pending, "a row waits for a reset to be remapped")
      ->group("Faults of a GPU");
  set.add_flag("--remap-failed", card.remap_failed, "a row could not be remapped")
      ->group("Faults of a GPU");
  set.add_flag("--retired-pages-pending", card.retired_pages_pending,
               "pages wait for a reset to be retired")
      ->group("Faults of a GPU");
}

void AddNodeOptions(CLI::App& set, NodeChanges& node) {
  set.add_option("--add-gpu", node.add_gpus, "a card's name, see `cards`")->group("Node");
  set.add_option("--minors", node.minors, "\"reversed\", or a number for each GPU: 2,0,1")
      ->group("Node");
  set.add_option("--major", node.majors, "NAME=NUMBER, such as nvidia-uvm=511")->group("Node");
  set.add_flag("--reboot", node.reboot, "new boot ID, everything is released")->group("Node");
  CLI::Option* upgrade =
      set.add_option("--driver-upgrade", node.driver_upgrade, "VERSION")->group("Driver");
  CLI::Option* only_library =
      set.add_flag("--only-library", node.only_library, "the kernel module stays")
          ->needs(upgrade)
          ->group("Driver");
  set.add_flag("--only-kernel", node.only_kernel, "the files stay")
      ->needs(upgrade)
      ->excludes(only_library)
      ->group("Driver");
  set.add_option("--cuda", node.cuda, "of the new driver: 13.1")->needs(upgrade)->group("Driver");
  set.add_flag("--reload-driver", node.reload_driver, "the module goes and comes")->group("Driver");
  set.add_flag("--unload-driver", node.unload_driver, "the module goes")->group("Driver");
  set.add_flag("--load-driver", node.load_driver, "the module comes")->group("Driver");
  set.add_flag("--install", node.install, "the driver's files and module come")->group("Driver");
  set.add_flag("--uninstall", node.uninstall, "the driver's files and module go")->group("Driver");
  set.add_option("--fault", node.faults, "FUNCTION=RETURN[:TIMES], with --gpu only for those")
      ->group("Library");
  set.add_option("--hang", node.hangs, "FUNCTION=SECONDS[:TIMES], with --gpu only for those")
      ->group("Library");
  set.add_flag("--clear-faults", node.clear_faults, "ends --fault and --hang, before new ones")
      ->group("Library");
}

void AddSet(CLI::App& app, std::string& root, Changes& changes) {
  CLI::App* set = app.add_subcommand("set", "change a simulated host while it runs");
  set->add_option("ROOT", root, "of a simulated host")->required();
  set->add_option("--gpu", changes.gpus, "index or UUID or \"all\"; may be repeated");
  set->add_option("--merge-node", changes.merge_node,
                  "JSON that is merged into the state's members");
  AddCardOptions(*set, changes.card);
  AddNodeOptions(*set, changes.node);
  for (CLI::Option* option : set->get_options()) {
    // "--gpu 0 1" would swallow what follows; a repeated option is one value each time.
    if (option->get_items_expected_max() > 1)
      option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  set->callback([&root, &changes] { Set(root, changes); });
}

int Main(int argc, char** argv) {
  CLI::App app("Simulated hosts with NVIDIA GPUs.", "dra-nvidia-simulator");
  app.require_subcommand(1);
  CreateOptions create;
  Changes changes;
  std::string root;
  AddCreate(app, create);
  AddSet(app, root, changes);
  CLI::App* sync = app.add_subcommand(
      "sync", "bring the tree in step after a program changed the state through the library");
  sync->add_option("ROOT", root, "of a simulated host")->required();
  sync->callback([&root] { Set(root, Changes()); });
  CLI::App* show = app.add_subcommand("show", "print the state as JSON");
  show->add_option("ROOT", root, "of a simulated host")->required();
  show->callback([&root] { Show(root); });
  app.add_subcommand("cards", "list the cards that a model can name")->callback([] {
    for (const std::string& name : CardNames()) std::cout << name << "\n";
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::cerr << "dra-nvidia-simulator: " << error.what() << "\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace nvidia_simulator

int main(int argc, char** argv) { return nvidia_simulator::Main(argc, argv); }
