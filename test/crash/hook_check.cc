#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "test/crash/crash_node.h"

namespace dra::crash {

std::string FindHookViolation(const std::string& log) {
  std::map<std::string, std::string> holder;             // device -> claim
  std::map<std::string, std::set<std::string>> devices;  // claim -> devices
  for (const absl::string_view line : absl::StrSplit(log, '\n', absl::SkipEmpty())) {
    const auto parsed = ParseJsonObject(line, "hook log");
    if (!parsed.ok()) continue;  // the process died in the middle of the line
    const std::string event = StringOr(*parsed, "event");
    const std::string hook = StringOr(*parsed, "hook");
    const std::string claim = StringOr(*parsed, "claim");
    if (event == "begin" && hook == "prepare") {
      const Json* list = Find(*parsed, "devices");
      if (list == nullptr) continue;
      for (const Json& entry : *list) {
        const std::string device = entry.is_string() ? entry.get<std::string>() : DumpJson(entry);
        const auto [found, added] = holder.emplace(device, claim);
        if (!added && found->second != claim) {
          return absl::StrCat("device ", device, " was prepared for claim ", claim, " while claim ",
                              found->second, " had it");
        }
        devices[claim].insert(device);
      }
    }
    const bool unprepared =
        event == "end" && hook == "unprepare" && IntOr(*parsed, "code", -1) == 0;
    if (unprepared || event == kReleased) {
      for (const std::string& device : devices[claim]) holder.erase(device);
      devices.erase(claim);
    }
  }
  std::string left;
  for (const auto& [device, claim] : holder) {
    absl::StrAppend(&left, left.empty() ? "" : "; ", "claim ", claim, " was never unprepared of ",
                    device);
  }
  return left;
}

}  // namespace dra::crash
