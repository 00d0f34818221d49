#include "model.h"

#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "cards.h"
#include "yaml_file.h"

namespace rdma_simulator {
namespace {

[[noreturn]] void Refuse(const std::string& path, const std::string& problem) {
  throw std::invalid_argument(path + ": " + problem);
}

// A plain (unquoted) scalar: null, boolean, decimal integer, else text: ids and addresses are no numbers.
Json PlainScalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null") return nullptr;
  if (text == "true") return true;
  if (text == "false") return false;
  const std::string digits = text.front() == '-' ? text.substr(1) : text;
  const bool number = !digits.empty() && digits.size() < 18 &&
                      digits.find_first_not_of("0123456789") == std::string::npos &&
                      (digits.size() == 1 || digits.front() != '0');
  if (number) return static_cast<int64_t>(std::strtoll(text.c_str(), nullptr, 10));
  return text;
}

// What is text though it may look like a number.
bool IsText(const std::string& key) { return key == "firmware" || key == "alias" || key == "name"; }

// The card's pattern under each of the entry's.
void PutOver(const Json& card, const char* list, Json& entry) {
  if (!card.contains(list) || !entry.contains(list) || !entry[list].is_array()) return;
  for (Json& item : entry[list]) {
    Json whole = card[list].front();
    if (item.is_object()) whole.merge_patch(item);
    if (item.is_object()) item = std::move(whole);
  }
}

struct Extra {
  std::string address, path;
  int virtual_functions = 0;
  bool plugged = true;
};

// One of `functions` as NodeFromJson reads it; what only a model has goes to `extra`.
Json ExpandFunction(const Json& entry, const std::string& path, State& state, Extra& extra) {
  if (!entry.is_object())
    Refuse(path, "must be a mapping such as {card: ConnectX-7, address: 0000:8d:00.0}");
  Json function = entry;
  const auto take = [&](const char* key) {
    const Json value = function.contains(key) ? function[key] : Json();
    function.erase(key);
    return value;
  };
  const Json card_name = take("card"), vfs = take("virtualFunctions"), plugged = take("plugged");
  if (function.contains("address") && function["address"].is_string())
    extra.address = function["address"];
  extra.path = path;
  if (!vfs.is_null()) {
    if (!vfs.is_number_integer() || vfs < 0 || vfs > 4096)
      Refuse(path + ".virtualFunctions", vfs.dump() + " is not in 0..4096");
    extra.virtual_functions = vfs;
  }
  if (!plugged.is_null() && !plugged.is_boolean())
    Refuse(path + ".plugged", plugged.dump() + " is not true or false");
  extra.plugged = plugged.is_null() || plugged.get<bool>();
  if (card_name.is_null()) return function;
  if (!card_name.is_string()) Refuse(path + ".card", "must be a name");
  Json card;
  try {
    card = CardOf(card_name);
  } catch (const std::invalid_argument& error) {
    Refuse(path + ".card", error.what());
  }
  state.cards[extra.address] = card_name;
  PutOver(card, "interfaces", function);
  PutOver(card, "rdma", function);
  for (const char* key : {"vf", "interfaces", "rdma"}) card.erase(key);
  card.merge_patch(function);
  return card;
}

}  // namespace

State ReadModel(const std::string& path, const std::string& seed) {
  try {
    Json model = simulator_yaml::ReadYamlFile(
        path, {.keys = "functions, ...", .is_text = IsText, .scalar = PlainScalar});
    State state;
    state.seed = seed;
    std::vector<Extra> extras;
    if (model.contains("functions") && model["functions"].is_array()) {
      for (size_t i = 0; i < model["functions"].size(); ++i) {
        Json& entry = model["functions"][i];
        entry = ExpandFunction(entry, "functions[" + std::to_string(i) + "]", state,
                               extras.emplace_back());
      }
    }
    state.node = NodeFromJson(model, "");
    Complete(state.node, seed);
    for (const Extra& extra : extras) {
      try {
        if (extra.virtual_functions > 0)
          SetVirtualFunctions(state, extra.address, extra.virtual_functions);
      } catch (const std::invalid_argument& error) {
        Refuse(extra.path + ".virtualFunctions", error.what());
      }
      if (!extra.plugged) state.unplugged.insert(extra.address);
    }
    return state;
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(path + ": " + error.what());
  }
}

}  // namespace rdma_simulator
