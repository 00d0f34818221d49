#include "control.h"

#include <string>
#include <utility>

#include "dra/backend/json_reader.h"
#include "files.h"

namespace fake {
namespace {

using dra::JsonReader;
using nlohmann::json;

constexpr int64_t kMaxMilliseconds = 24LL * 60 * 60 * 1000;

Fault ReadFault(JsonReader& reader, const std::string& hook) {
  Fault fault;
  fault.hook = hook;
  reader.Optional<std::string>("id");  // only makes the entry another one, and so its count
  fault.at = reader
                 .OptionalEnum<const char*>("at", {{"begin", "begin"},
                                                   {"undoSaved", "undoSaved"},
                                                   {"configured", "configured"},
                                                   {"end", "end"}})
                 .value_or("begin");
  fault.claim = reader.Optional<std::string>("claim").value_or("");
  fault.skip = reader.Optional("skip", 0, INT32_MAX).value_or(0);
  fault.times = reader.Optional("times", 0, INT32_MAX).value_or(-1);
  fault.latency_ms = reader.Optional("latencyMs", 0, kMaxMilliseconds).value_or(0);
  reader.OptionalObject("fail", [&](JsonReader& fail) {
    fault.fail_code = fail.Enum<int32_t>("code", {{"CANCELLED", DRA_CANCELLED},
                                                  {"UNKNOWN", DRA_UNKNOWN},
                                                  {"INVALID_ARGUMENT", DRA_INVALID_ARGUMENT},
                                                  {"DEADLINE_EXCEEDED", DRA_DEADLINE_EXCEEDED},
                                                  {"NOT_FOUND", DRA_NOT_FOUND},
                                                  {"ALREADY_EXISTS", DRA_ALREADY_EXISTS},
                                                  {"PERMISSION_DENIED", DRA_PERMISSION_DENIED},
                                                  {"RESOURCE_EXHAUSTED", DRA_RESOURCE_EXHAUSTED},
                                                  {"FAILED_PRECONDITION", DRA_FAILED_PRECONDITION},
                                                  {"ABORTED", DRA_ABORTED},
                                                  {"OUT_OF_RANGE", DRA_OUT_OF_RANGE},
                                                  {"UNIMPLEMENTED", DRA_UNIMPLEMENTED},
                                                  {"INTERNAL", DRA_INTERNAL},
                                                  {"UNAVAILABLE", DRA_UNAVAILABLE},
                                                  {"DATA_LOSS", DRA_DATA_LOSS},
                                                  {"UNAUTHENTICATED", DRA_UNAUTHENTICATED}});
    fault.fail_text = fail.Optional<std::string>("message").value_or(hook + " failed on demand");
  });
  fault.hang = reader
                   .OptionalEnum<const char*>("hang", {{"untilCancelled", "untilCancelled"},
                                                       {"untilRemoved", "untilRemoved"}})
                   .value_or("");
  fault.crash =
      reader
          .OptionalEnum<const char*>(
              "crash", {{"abort", "abort"}, {"exit", "exit"}, {"kill", "kill"}, {"segv", "segv"}})
          .value_or("");
  fault.thrown = reader
                     .OptionalEnum<const char*>(
                         "throw", {{"exception", "exception"}, {"int", "int"}, {"own", "own"}})
                     .value_or("");
  fault.junk = reader
                   .OptionalEnum<const char*>("junk", {{"notJson", "notJson"},
                                                       {"notUtf8", "notUtf8"},
                                                       {"wrongType", "wrongType"},
                                                       {"nothing", "nothing"},
                                                       {"twice", "twice"},
                                                       {"badIndex", "badIndex"},
                                                       {"badNumber", "badNumber"},
                                                       {"badCode", "badCode"},
                                                       {"nullText", "nullText"}})
                   .value_or("");
  reader.OptionalObject("callback", [&](JsonReader& callback) {
    Callback what;
    what.function =
        callback.Enum<const char*>("function", {{"inventoryChanged", "inventoryChanged"},
                                                {"healthChanged", "healthChanged"},
                                                {"saveUndo", "saveUndo"},
                                                {"requestRestart", "requestRestart"},
                                                {"log", "log"}});
    what.delay_ms = callback.Optional("delayMs", 0, kMaxMilliseconds).value_or(0);
    what.text = callback.Optional<std::string>("text").value_or("");
    fault.callback = what;
  });
  return fault;
}

void ReadFaults(const json& value, const std::string& hook, std::vector<Fault>& faults) {
  const json list = value.is_array() ? value : json::array({value});
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string path =
        value.is_array() ? "hooks." + hook + "[" + std::to_string(i) + "]" : "hooks." + hook;
    JsonReader::Read(list[i], path, [&](JsonReader& reader) {
      Fault fault = ReadFault(reader, hook);
      fault.key = hook + "[" + std::to_string(i) + "]" + list[i].dump();
      faults.push_back(std::move(fault));
    });
  }
}

void ReadCard(JsonReader& reader, const std::string& card, ControlState& state) {
  CardCondition condition;
  condition.absent = reader.Optional<bool>("absent").value_or(false);
  condition.lost = reader.Optional<bool>("lost").value_or(false);
  condition.replaced = reader.Optional("replaced", 0, INT32_MAX).value_or(0);
  condition.configurable = reader.Optional<bool>("configurable").value_or(true);
  condition.error = reader.Optional<std::string>("error").value_or("");
  state.cards[card] = condition;
  if (const auto text = reader.Optional<std::string>("configureError")) {
    state.configure_errors[card] = *text;
  }
  if (const auto text = reader.Optional<std::string>("restoreError")) {
    state.restore_errors[card] = *text;
  }
}

ControlledHealth ReadControlledHealth(JsonReader& reader) {
  ControlledHealth health;
  health.state = reader.Enum<const char*>(
      "state", {{"healthy", "healthy"}, {"unhealthy", "unhealthy"}, {"unknown", "unknown"}});
  health.fault_class = reader.Optional<std::string>("faultClass").value_or("");
  health.message = reader.Optional<std::string>("message").value_or("");
  health.remedy = reader.Optional<std::string>("remedy").value_or("");
  health.clears_with = reader.Optional<std::string>("clearsWith").value_or("");
  health.severity = reader
                        .OptionalEnum<dra::FaultSeverity>(
                            "severity", {{"minor", dra::FaultSeverity::kMinor},
                                         {"major", dra::FaultSeverity::kMajor},
                                         {"critical", dra::FaultSeverity::kCritical}})
                        .value_or(dra::FaultSeverity::kUnset);
  return health;
}

ControlState ParseControl(const std::string& text, const std::string& file) {
  ControlState state;
  const json document = dra::ParseStrictJson(text, file);
  JsonReader::Read(document, "", [&](JsonReader& reader) {
    if (const auto hooks = reader.Optional<json>("hooks")) {
      JsonReader::Read(*hooks, "hooks", [&](JsonReader& members) {
        for (const char* hook : {"create", "describe", "discover", "validate_config", "prepare",
                                 "unprepare", "reconcile_begin", "reconcile_record",
                                 "reconcile_end", "busy", "health", "destroy"}) {
          if (const auto value = members.Optional<json>(hook))
            ReadFaults(*value, hook, state.faults);
        }
      });
    }
    const json cards = reader.Optional<json>("cards").value_or(json::object());
    for (const auto& [card, value] : cards.items()) {
      JsonReader::Read(value, "cards." + card,
                       [&, &name = card](JsonReader& fields) { ReadCard(fields, name, state); });
    }
    const json busy = reader.Optional<json>("busy").value_or(json::object());
    JsonReader::Read(busy, "busy", [&](JsonReader& devices) {
      for (const auto& [device, value] : busy.items()) {
        state.busy[device] = devices.Enum<const char*>(
            device, {{"idle", "idle"}, {"busy", "busy"}, {"unknown", "unknown"}});
      }
    });
    const json health = reader.Optional<json>("health").value_or(json::object());
    for (const auto& [device, value] : health.items()) {
      JsonReader::Read(value, "health." + device, [&, &name = device](JsonReader& fields) {
        state.health[name] = ReadControlledHealth(fields);
      });
    }
    state.partial = reader.Optional<std::string>("partial").value_or("");
    state.save_undo = reader.Optional<bool>("saveUndo").value_or(true);
    state.inventory_text = cards.dump() + state.partial;
    state.health_text = health.dump();
  });
  return state;
}

}  // namespace

std::shared_ptr<const ControlState> Control::Read() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string stamp = file_.empty() ? "" : FileStamp(file_);
  if (state_ != nullptr && stamp == stamp_) return state_;
  std::shared_ptr<const ControlState> state;
  const std::optional<std::string> text = stamp.empty() ? std::nullopt : ReadFileIfExists(file_);
  if (text) {
    try {
      state = std::make_shared<const ControlState>(ParseControl(*text, file_));
    } catch (const dra::BackendError& error) {
      throw dra::BackendError(error.code(), "control file " + file_ + ": " + error.what());
    }
  } else {
    state = std::make_shared<const ControlState>();
  }
  state_ = state;
  stamp_ = stamp;
  return state;
}

bool Control::Count(const Fault& fault) {
  if (fault.skip == 0 && fault.times < 0) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (counts_file_.empty()) {
    const int64_t before = counts_[fault.key]++;
    return before >= fault.skip && (fault.times < 0 || before < fault.skip + fault.times);
  }
  // On disk before the fault strikes: a crash that is to come once must not come again in the next process.
  const FileLock file_lock(counts_file_ + ".lock");
  json counts = json::object();
  if (const std::optional<std::string> text = ReadFileIfExists(counts_file_)) {
    counts = json::parse(*text, nullptr, false);
    if (!counts.is_object()) counts = json::object();
  }
  const auto known = counts.find(fault.key);
  const int64_t before =
      known != counts.end() && known->is_number_integer() ? known->get<int64_t>() : 0;
  counts[fault.key] = before + 1;
  ReplaceFile(counts_file_, counts.dump() + "\n");
  return before >= fault.skip && (fault.times < 0 || before < fault.skip + fault.times);
}

std::optional<Fault> Control::Take(const std::string& hook, const std::string& at,
                                   const std::string& claim, bool junk) {
  const std::shared_ptr<const ControlState> state = Read();
  for (const Fault& fault : state->faults) {
    if (fault.hook != hook || fault.at != at || fault.junk.empty() == junk) continue;
    if (!fault.claim.empty() && fault.claim != claim) continue;
    if (Count(fault)) return fault;
  }
  return std::nullopt;
}

}  // namespace fake
