#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "nlohmann/json.hpp"

namespace fake {

// What a card is set to: the registers that a GpuConfig of a claim changes. The initial values are those of a card
// after reset.
struct CardSetting {
  std::string strategy = "TimeSlicing";  // or "SpacePartitioning"
  std::string interval = "Default";      // of TimeSlicing: "Default", "Short", "Medium", "Long"
  int64_t partition_count = 1;           // of SpacePartitioning

  nlohmann::json ToJson() const;
  // Lenient, for text that this backend wrote itself, perhaps in another version: what is absent or of another type
  // stays at the reset value.
  static CardSetting FromJson(const nlohmann::json& object);
  // "TimeSlicing/Long" or "SpacePartitioning/4".
  std::string ToString() const;
  friend bool operator==(const CardSetting&, const CardSetting&) = default;
};

// The cards' registers. With a state file they outlive the process, as hardware does, and are shared by the processes
// that name the same file; without one they live as long as this object. Any thread. Failures throw dra::BackendError.
//
// The file: {"cards": {"<card>": {"sharing": {...}, "writes": <number of sets since the file began>}}}
class Hardware {
 public:
  // state_file: "" for none.
  explicit Hardware(std::string state_file) : state_file_(std::move(state_file)) {}

  CardSetting Get(const std::string& card);
  void Set(const std::string& card, const CardSetting& setting);
  // Every card that was ever set.
  std::map<std::string, CardSetting> All();

 private:
  // Runs `change` on the state and stores the result if it returns true.
  void WithState(const std::function<bool(nlohmann::json&)>& change);

  const std::string state_file_;
  std::mutex mutex_;
  nlohmann::json memory_ = nlohmann::json::object();  // the state if there is no file; under mutex_
};

}  // namespace fake
