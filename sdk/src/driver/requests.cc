#include "driver/requests.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "dra/base/status.h"
#include "dra/base/trusted_directory.h"

namespace dra::driver {
namespace {

constexpr char kDirectoryProblem[] = "";  // the name under which a problem of the directory is said

std::string RequestTimeText(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

absl::Time RequestTimeOf(const Json& json, absl::string_view key) {
  absl::Time time;
  std::string why;
  return absl::ParseTime(absl::RFC3339_full, StringOr(json, key), &time, &why) ? time
                                                                               : absl::UnixEpoch();
}

bool IsClearFault(absl::string_view name) {
  return absl::StartsWith(name, kClearFaultPrefix) && absl::EndsWith(name, ".json");
}

bool IsTaken(absl::string_view name) {
  return absl::ConsumePrefix(&name, kTakenPrefix) && IsClearFault(name);
}

}  // namespace

absl::StatusOr<DrainRequest> DecodeDrain(absl::string_view text) {
  DRA_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text, kDrainFile));
  DrainRequest request;
  const std::string mode = StringOr(json, "mode", "taint");
  if (mode != "taint" && mode != "withdraw") {
    return absl::InvalidArgumentError(
        absl::StrCat("mode \"", mode, "\" is not one of taint, withdraw"));
  }
  request.mode = mode == "taint" ? DrainRequest::Mode::kTaint : DrainRequest::Mode::kWithdraw;
  request.since = RequestTimeOf(json, "since");
  request.by = StringOr(json, "by");
  return request;
}

absl::StatusOr<ClearFaultRequest> DecodeClearFault(absl::string_view text) {
  DRA_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text, "request"));
  ClearFaultRequest request;
  request.pool = StringOr(json, "pool");
  request.device = StringOr(json, "device");
  request.evidence = StringOr(json, "evidence");
  request.by = StringOr(json, "by");
  request.at = RequestTimeOf(json, "at");
  if (request.device.empty() || request.evidence.empty()) {
    return absl::InvalidArgumentError("members \"device\" and \"evidence\" are required");
  }
  return request;
}

std::string EncodeDrain(const DrainRequest& request) {
  return DumpJsonPretty(
      {{"mode", request.mode == DrainRequest::Mode::kTaint ? "taint" : "withdraw"},
       {"since", RequestTimeText(request.since)},
       {"by", request.by}});
}

std::string EncodeClearFault(const ClearFaultRequest& request) {
  return DumpJsonPretty({{"pool", request.pool},
                         {"device", request.device},
                         {"evidence", request.evidence},
                         {"by", request.by},
                         {"at", RequestTimeText(request.at)}});
}

Requests::Requests(FileSystem* fs, std::string directory, Clock* clock, Logger logger,
                   ClearFault clear_fault, std::function<void(const Result&)> on_result)
    : fs_(fs),
      directory_(std::move(directory)),
      clock_(clock),
      logger_(std::move(logger)),
      clear_fault_(std::move(clear_fault)),
      on_result_(std::move(on_result)) {}

void Requests::Poll() {
  const absl::Status trusted = CheckTrustedDirectory(*fs_, directory_, DirectoryUse::kOurs);
  absl::StatusOr<std::vector<std::string>> names =
      trusted.ok() ? fs_->List(directory_) : absl::StatusOr<std::vector<std::string>>(trusted);
  if (absl::IsNotFound(names.status())) names = std::vector<std::string>();
  if (!names.ok()) {
    // Nothing is known: what was asked before goes on.
    SayOnce(kDirectoryProblem, std::string(names.status().message()));
    return;
  }
  said_.erase(kDirectoryProblem);
  bool drain = false;
  std::map<std::string, std::string> still_there;
  for (const std::string& name : *names) {
    if (const auto said = said_.find(name); said != said_.end()) still_there.insert(*said);
    if (IsTemporaryName(name) || name == kRefusedDirectory) continue;
    drain = drain || name == kDrainFile;
  }
  said_ = std::move(still_there);
  LookAtDrain(drain);
  for (const std::string& name : *names) {
    if (IsClearFault(name) || IsTaken(name)) {
      LookAtClearFault(name);
    } else if (name != kDrainFile && name != kRefusedDirectory && !IsTemporaryName(name)) {
      SayOnce(name, "is no request that this driver knows");
    }
  }
}

absl::StatusOr<std::string> Requests::ReadRequest(const std::string& name) {
  return fs_->ReadOwnFile(JoinPath(directory_, name), kMaxBytes);
}

void Requests::LookAtDrain(bool listed) {
  std::optional<DrainRequest> wanted;
  if (listed) {
    const absl::StatusOr<std::string> text = ReadRequest(kDrainFile);
    if (!absl::IsNotFound(text.status())) {
      const absl::StatusOr<DrainRequest> request = text.ok() ? DecodeDrain(*text) : text.status();
      if (!request.ok()) {
        SayOnce(kDrainFile, std::string(request.status().message()));
        return;
      }
      said_.erase(kDrainFile);
      wanted = *request;
      if (wanted->since == absl::UnixEpoch()) {
        // Written by hand without a time: that of the file.
        const absl::StatusOr<FileInfo> info = fs_->Stat(JoinPath(directory_, kDrainFile));
        if (info.ok()) wanted->since = absl::FromUnixNanos(info->mtime_ns);
      }
    }
  }
  const absl::MutexLock lock(&mutex_);
  drain_ = std::move(wanted);
}

void Requests::LookAtClearFault(const std::string& name) {
  std::string taken = name;
  if (IsClearFault(name)) {
    taken = absl::StrCat(kTakenPrefix, name);
    // A rename has one winner. Look before it: a link is not taken, it is not ours.
    const absl::StatusOr<FileInfo> info = fs_->Stat(JoinPath(directory_, name));
    if (absl::IsNotFound(info.status())) return;
    if (!info.ok() || info->type != FileType::kRegular) {
      SayOnce(name, info.ok() ? "is not a regular file" : std::string(info.status().message()));
      return;
    }
    const absl::Status renamed =
        fs_->Rename(JoinPath(directory_, name), JoinPath(directory_, taken));
    if (absl::IsNotFound(renamed)) return;
    if (!renamed.ok()) return SayOnce(name, std::string(renamed.message()));
  } else {
    // Taken by an instance that is at it now, waits for its devices, or has died. What it asks can be done twice.
    const absl::StatusOr<FileInfo> info = fs_->Stat(JoinPath(directory_, taken));
    if (!info.ok()) return;
    const bool ours = said_.contains(taken);
    if (!ours && clock_->Now() - absl::FromUnixNanos(info->mtime_ns) < kTakerDied) return;
  }
  const std::string original = taken.substr(sizeof(kTakenPrefix) - 1);
  const absl::StatusOr<std::string> text = ReadRequest(taken);
  if (absl::IsNotFound(text.status())) return;
  if (!text.ok()) return SayOnce(taken, std::string(text.status().message()));
  const absl::StatusOr<ClearFaultRequest> request = DecodeClearFault(*text);
  if (!request.ok()) return Answer(original, taken, *text, request.status());
  const absl::StatusOr<std::string> answer = clear_fault_(*request);
  // Kept under the taken name, and tried again at the next look.
  if (absl::IsUnavailable(answer.status()))
    return SayOnce(taken, std::string(answer.status().message()));
  Answer(original, taken, *text, answer);
}

void Requests::Answer(const std::string& name, const std::string& taken, const std::string& text,
                      const absl::StatusOr<std::string>& answer) {
  Result result;
  result.file = name;
  result.ok = answer.ok();
  result.message = answer.ok() ? *answer : std::string(answer.status().message());
  result.at = clock_->Now();
  if (!result.ok) Refuse(name, text, result.message);
  // Last: whoever waits for the answer sees the request go when the answer is there.
  const absl::Status removed = RemoveIfExists(*fs_, JoinPath(directory_, taken));
  if (!removed.ok()) SayOnce(taken, std::string(removed.message()));
  if (result.ok) {
    logger_.Info("request done", {{"request", name}, {"answer", result.message}});
  } else {
    logger_.Warn("request refused", {{"request", name}, {"error", result.message}});
  }
  on_result_(result);
  const absl::MutexLock lock(&mutex_);
  results_.push_back(std::move(result));
  if (results_.size() > kMaxResults) results_.pop_front();
}

void Requests::Refuse(const std::string& name, const std::string& text, const std::string& reason) {
  const std::string directory = JoinPath(directory_, kRefusedDirectory);
  const Json refusal = {{"request", text.substr(0, 1024)},
                        {"reason", reason},
                        {"at", RequestTimeText(clock_->Now())}};
  absl::Status written = fs_->MakeDirectory(directory, 0700);
  if (written.ok()) {
    written = WriteFileAtomically(*fs_, JoinPath(directory, name), DumpJsonPretty(refusal), 0600,
                                  Durability::kVolatile);
  }
  if (!written.ok()) SayOnce(name, std::string(written.message()));
  const absl::StatusOr<std::vector<std::string>> kept = fs_->List(directory);
  if (!kept.ok() || kept->size() <= kMaxRefused) return;
  // Request names carry their time, so the first in order is the oldest.
  for (size_t i = 0; i + kMaxRefused < kept->size(); ++i) {
    (void)RemoveIfExists(*fs_, JoinPath(directory, (*kept)[i]));
  }
}

void Requests::SayOnce(const std::string& name, const std::string& problem) {
  std::string& said = said_[name];
  if (said == problem) return;
  said = problem;
  logger_.Warn("request is not followed",
               {{"directory", directory_}, {"request", name}, {"error", problem}});
}

std::optional<DrainRequest> Requests::Drain() const {
  const absl::MutexLock lock(&mutex_);
  return drain_;
}

std::vector<Requests::Result> Requests::Results() const {
  const absl::MutexLock lock(&mutex_);
  return {results_.begin(), results_.end()};
}

}  // namespace dra::driver
