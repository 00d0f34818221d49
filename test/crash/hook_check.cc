#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "test/crash/crash_node.h"

namespace dra::crash {
namespace {

// Follows the undo data of each claim: what the backend saved last is what it is given, to the byte.
class UndoCheck {
 public:
  // "" or the violation.
  std::string Add(const Json& line) {
    const std::string event = StringOr(line, "event");
    const std::string hook = StringOr(line, "hook");
    const std::string claim = StringOr(line, "claim");
    const std::string undo = StringOr(line, "undo");
    std::set<std::string>& possible =
        possible_.try_emplace(claim, std::set<std::string>{""}).first->second;
    if (event == kSaving) possible.insert(undo);  // cut short, it may be saved or not
    if (event == kSaved) possible = {undo};
    if (event == kForgotten) possible.insert("");
    // The record may be gone with the unprepare, or be there still.
    if (event == "end" && hook == "unprepare" && IntOr(line, "code", -1) == 0) possible.insert("");
    if (event != "begin" || Find(line, "undo") == nullptr) return "";
    if (!possible.contains(undo)) {
      return absl::StrCat(hook, " of claim ", claim, " got the undo data \"", undo, "\" and not \"",
                          *possible.rbegin(), "\"");
    }
    possible = {undo};
    return "";
  }

 private:
  std::map<std::string, std::set<std::string>> possible_;  // claim -> what may be saved
};

}  // namespace

std::string FindHookViolation(const std::string& log) {
  std::map<std::string, std::set<std::string>> devices;  // claim -> devices of its last prepare
  std::map<std::string, std::string> holder;             // device -> claim told to be prepared
  std::set<std::string> owed;                            // claims that an unprepare has to reach
  UndoCheck undo;
  for (const absl::string_view line : absl::StrSplit(log, '\n', absl::SkipEmpty())) {
    const auto parsed = ParseJsonObject(line, "hook log");
    if (!parsed.ok()) continue;  // the process died in the middle of the line
    const std::string event = StringOr(*parsed, "event");
    const std::string hook = StringOr(*parsed, "hook");
    const std::string claim = StringOr(*parsed, "claim");
    std::string wrong_undo = undo.Add(*parsed);
    if (!wrong_undo.empty()) return wrong_undo;
    if (event == "begin" && hook == "prepare") {
      const Json* list = Find(*parsed, "devices");
      if (list == nullptr) continue;
      devices[claim].clear();
      for (const Json& entry : *list) {
        const std::string device = entry.is_string() ? entry.get<std::string>() : DumpJson(entry);
        const auto found = holder.find(device);
        if (found != holder.end() && found->second != claim) {
          return absl::StrCat("device ", device, " was prepared for claim ", claim, " while claim ",
                              found->second, " had it");
        }
        devices[claim].insert(device);
      }
    }
    if (event == kAnswered) {
      for (const std::string& device : devices[claim]) holder[device] = claim;
      owed.insert(claim);
    }
    if (event == "begin" && hook == "unprepare") {
      for (const std::string& device : devices[claim]) {
        const auto found = holder.find(device);
        if (found != holder.end() && found->second == claim) holder.erase(found);
      }
    }
    if (event == "end" && hook == "unprepare" && IntOr(*parsed, "code", -1) == 0) owed.erase(claim);
    if (event == kReleased && owed.contains(claim))
      return absl::StrCat("claim ", claim, " was let go without an unprepare of the backend");
  }
  if (!owed.empty()) return absl::StrCat("claim ", *owed.begin(), " was never unprepared");
  return "";
}

}  // namespace dra::crash
