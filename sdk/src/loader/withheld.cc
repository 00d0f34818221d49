#include "loader/withheld.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"

namespace dra::loader {
namespace {

constexpr size_t kMinBytes = 8;
constexpr size_t kMaxWord = 32;
constexpr absl::string_view kMark = "[withheld]";

bool IsWord(const std::string& text) {
  return text.size() <= kMaxWord && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalpha(static_cast<unsigned char>(c));
         });
}

}  // namespace

void Withheld::AddParameters(const Json& parameters) {
  if (parameters.is_string()) {
    const auto& text = parameters.get_ref<const std::string&>();
    if (text.size() < kMinBytes || IsWord(text)) return;
    texts_.push_back(text);
    // As a backend shows it that quotes the JSON.
    const std::string quoted = DumpJson(parameters);
    if (quoted.size() != text.size() + 2) texts_.push_back(quoted.substr(1, quoted.size() - 2));
  } else if (parameters.is_array()) {
    for (const Json& element : parameters) AddParameters(element);
  } else if (parameters.is_object()) {
    for (const auto& [key, value] : parameters.items()) {
      if (key != "apiVersion" && key != "kind") AddParameters(value);
    }
  }
}

void Withheld::AddDevices(absl::string_view devices_json) {
  const absl::StatusOr<Json> devices = ParseJson(devices_json, "devices");
  if (!devices.ok() || !devices->is_array()) return;
  for (const Json& device : *devices) {
    const Json* configs = Find(device, "configs");
    if (configs == nullptr || !configs->is_array()) continue;
    for (const Json& config : *configs) {
      if (const Json* parameters = Find(config, "parameters"); parameters != nullptr) {
        AddParameters(*parameters);
      }
    }
  }
}

void Withheld::AddUndo(absl::string_view undo) {
  if (undo.size() >= kMinBytes) texts_.emplace_back(undo);
}

std::string Withheld::Scrub(std::string text) const {
  std::vector<std::string> texts = texts_;
  // The longest first: one may be part of another.
  std::sort(texts.begin(), texts.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  });
  for (const std::string& secret : texts) {
    absl::StrReplaceAll({{secret, kMark}}, &text);
    // The text of a hook is cut at a length: a beginning at the very end counts too.
    for (size_t part = std::min(secret.size(), text.size()); part >= kMinBytes; --part) {
      if (!absl::EndsWith(text, absl::string_view(secret).substr(0, part))) continue;
      text.replace(text.size() - part, part, std::string(kMark));
      break;
    }
  }
  return text;
}

absl::Status Withheld::Scrub(const absl::Status& status) const {
  if (status.ok() || texts_.empty()) return status;
  absl::Status scrubbed(status.code(), Scrub(std::string(status.message())));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    scrubbed.SetPayload(type, payload);
  });
  return scrubbed;
}

}  // namespace dra::loader
