#include "changes.h"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace nvidia_simulator {
namespace {

bool Any(const CardChanges& card) {
  return card.remove || card.release || !card.holds.empty() || card.reset || !card.mig.empty() ||
         !card.mig_destroys.empty() || !card.mig_creates.empty() || !card.merge.empty() ||
         card.heal || card.lost || !card.recovery_action.empty() || card.ecc ||
         card.remap_pending || card.remap_failed || card.retired_pages_pending ||
         !card.xids.empty() || !card.events.empty();
}

// UUIDs, since indexes slide with what is done.
std::vector<std::string> Named(const std::vector<std::string>& names, const State& state) {
  std::vector<std::string> uuids;
  for (const std::string& name : names) {
    if (name == "all") {
      for (const Gpu& gpu : state.gpus) uuids.push_back(gpu.uuid);
      continue;
    }
    const Gpu* gpu = state.FindGpu(name);
    if (gpu == nullptr) {
      throw std::invalid_argument("--gpu: there is no GPU \"" + name + "\"; the node has " +
                                  std::to_string(state.gpus.size()) +
                                  ", named by index, UUID or \"all\"");
    }
    uuids.push_back(gpu->uuid);
  }
  return uuids;
}

}  // namespace

std::string Holders(const Gpu& gpu) {
  std::string text;
  for (const Process& process : gpu.processes) {
    const std::string pid = process.pid != 0 ? std::to_string(process.pid) : "";
    text += (text.empty() ? "" : ", ") + pid + (pid.empty() || process.name.empty() ? "" : " ") +
            process.name;
  }
  return text;
}

std::pair<std::string, std::string> SplitPair(const std::string& text, char by,
                                              const std::string& example) {
  const size_t at = text.find(by);
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    throw std::invalid_argument("\"" + text + "\" is not of the form " + example);
  return {text.substr(0, at), text.substr(at + 1)};
}

uint64_t ToNumber(const std::string& text, const std::string& what) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
    throw std::invalid_argument(what + ": \"" + text + "\" is not a whole number");
  return std::stoull(text);
}

void Apply(const Changes& changes, Layout& layout, State& state) {
  const std::vector<std::string> uuids = Named(changes.gpus, state);
  ApplyToNode(changes.node, uuids, layout, state);
  if (Any(changes.card)) {
    if (uuids.empty())
      throw std::invalid_argument(
          "name the GPU that changes: --gpu INDEX, --gpu UUID or --gpu all");
    for (const std::string& uuid : uuids) ApplyToCard(changes.card, state, uuid);
  }
  if (!changes.merge_node.empty()) {
    const Json over = Json::parse(changes.merge_node, nullptr, false);
    if (!over.is_object())
      throw std::invalid_argument("--merge-node: is not a JSON object: " + changes.merge_node);
    Json json = ToJson(state);
    json.merge_patch(over);
    state = StateFromJson(json);
  }
}

}  // namespace nvidia_simulator
