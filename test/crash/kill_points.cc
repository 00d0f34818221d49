#include "test/crash/kill_points.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "dra/base/file_system.h"
#include "dra/base/ids.h"

namespace dra::crash {
namespace {

constexpr size_t kShortestHash = 20;

bool LooksLikeHash(absl::string_view text) {
  return text.size() >= kShortestHash && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
         });
}

// "<uid>.json" and "<hash>" of one component; "." separates.
std::string ComponentClass(absl::string_view component) {
  if (IsTemporaryName(component)) {
    absl::string_view name = component.substr(1);
    name.remove_suffix(4);  // ".tmp"
    name = name.substr(0, name.rfind('.'));
    return absl::StrCat(".", ComponentClass(name), ".*.tmp");
  }
  std::vector<std::string> parts = absl::StrSplit(component, '.');
  for (std::string& part : parts) {
    // A CDI file is "k8s.<driver>-claim_<uid>.json": the UID is behind the last "_".
    const size_t from = part.rfind('_') == std::string::npos ? 0 : part.rfind('_') + 1;
    if (IsUuid(absl::string_view(part).substr(from))) {
      part = absl::StrCat(part.substr(0, from), "<uid>");
    } else if (LooksLikeHash(part)) {
      part = "<hash>";
    }
  }
  return absl::StrJoin(parts, ".");
}

}  // namespace

void KillPoints::Arm() { ArmToKill("", 0); }

void KillPoints::ArmToKill(absl::string_view label, int occurrence) {
  const absl::MutexLock lock(&mutex_);
  counts_.clear();
  kill_label_ = std::string(label);
  kill_occurrence_ = occurrence;
  armed_ = true;
}

void KillPoints::Disarm() {
  const absl::MutexLock lock(&mutex_);
  armed_ = false;
}

bool KillPoints::armed() const {
  const absl::MutexLock lock(&mutex_);
  return armed_;
}

bool KillPoints::IsTheOne(absl::string_view label) {
  const absl::MutexLock lock(&mutex_);
  if (!armed_) return false;
  const int passed = ++counts_[std::string(label)];
  return kill_occurrence_ == passed && label == kill_label_;
}

void KillPoints::Reach(absl::string_view label) {
  if (IsTheOne(label)) Die();
}

void KillPoints::Die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

std::map<std::string, int> KillPoints::Counts() const {
  const absl::MutexLock lock(&mutex_);
  return {counts_.begin(), counts_.end()};
}

std::string PathClass(absl::string_view path, absl::string_view root) {
  std::vector<std::string> components;
  absl::string_view rest = path;
  if (absl::ConsumePrefix(&rest, root)) absl::ConsumePrefix(&rest, "/");
  for (absl::string_view component : absl::StrSplit(rest, '/'))
    components.push_back(ComponentClass(component));
  std::string result = absl::StrJoin(components, "/");
  const std::string plugins = "kubelet/plugins/";
  if (absl::StartsWith(result, plugins)) {
    const size_t slash = result.find('/', plugins.size());
    result = absl::StrCat("data", slash == std::string::npos ? "" : result.substr(slash));
  }
  return result;
}

}  // namespace dra::crash
