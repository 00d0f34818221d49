#include "hardware.h"

#include <optional>
#include <string>
#include <utility>

#include "dra/backend/backend.h"
#include "files.h"

namespace fake {

using nlohmann::json;

json CardSetting::ToJson() const {
  json object = {{"strategy", strategy}};
  if (strategy == "SpacePartitioning") {
    object["partitionCount"] = partition_count;
  } else {
    object["interval"] = interval;
  }
  return object;
}

CardSetting CardSetting::FromJson(const json& object) {
  CardSetting setting;
  if (!object.is_object()) return setting;
  const auto strategy = object.find("strategy");
  if (strategy != object.end() && strategy->is_string()) setting.strategy = *strategy;
  const auto interval = object.find("interval");
  if (interval != object.end() && interval->is_string()) setting.interval = *interval;
  const auto count = object.find("partitionCount");
  if (count != object.end() && count->is_number_integer()) setting.partition_count = *count;
  return setting;
}

std::string CardSetting::ToString() const {
  return strategy + "/" +
         (strategy == "SpacePartitioning" ? std::to_string(partition_count) : interval);
}

void Hardware::WithState(const std::function<bool(json&)>& change) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (state_file_.empty()) {
    change(memory_);
    return;
  }
  const FileLock file_lock(state_file_ + ".lock");
  json state = json::object();
  if (const std::optional<std::string> text = ReadFileIfExists(state_file_)) {
    state = json::parse(*text, nullptr, false);
    if (!state.is_object()) {
      throw dra::BackendError(DRA_DATA_LOSS,
                              "simulated hardware state " + state_file_ +
                                  " is not a JSON object: remove the file to reset the cards");
    }
  }
  if (change(state)) ReplaceFile(state_file_, state.dump(2) + "\n");
}

CardSetting Hardware::Get(const std::string& card) {
  CardSetting setting;
  WithState([&](json& state) {
    const json::json_pointer where = json::json_pointer("/cards") / card / "sharing";
    if (state.contains(where)) setting = CardSetting::FromJson(state.at(where));
    return false;
  });
  return setting;
}

void Hardware::Set(const std::string& card, const CardSetting& setting) {
  WithState([&](json& state) {
    json& entry = state["cards"][card];
    if (!entry.is_object()) entry = json::object();
    entry["sharing"] = setting.ToJson();
    const auto writes = entry.find("writes");
    const int64_t before =
        writes != entry.end() && writes->is_number_integer() ? writes->get<int64_t>() : 0;
    entry["writes"] = before + 1;
    return true;
  });
}

std::map<std::string, CardSetting> Hardware::All() {
  std::map<std::string, CardSetting> cards;
  WithState([&](json& state) {
    const auto entries = state.find("cards");
    if (entries == state.end() || !entries->is_object()) return false;
    for (const auto& [card, entry] : entries->items()) {
      if (entry.is_object() && entry.contains("sharing")) {
        cards[card] = CardSetting::FromJson(entry["sharing"]);
      }
    }
    return false;
  });
  return cards;
}

}  // namespace fake
