#include "kube/credentials.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dra/base/status.h"
#include "kube/exec_credential.h"

namespace dra::kube {
namespace {

constexpr uint64_t kMaxCredentialBytes = 4u << 20;
// A token that is about to expire is replaced a little early, so that it does not expire on its way.
constexpr absl::Duration kExpiryMargin = absl::Seconds(5);

}  // namespace

CredentialSource::CredentialSource(const ClusterConfig& config, absl::Duration reload,
                                   absl::Duration exec_timeout, FileSystem* fs, Clock* clock,
                                   Logger logger)
    : config_(config),
      reload_(reload),
      exec_timeout_(exec_timeout),
      fs_(fs),
      clock_(clock),
      logger_(std::move(logger)) {}

bool CredentialSource::CanRenew() const {
  return !config_.token_file.empty() || config_.exec.has_value();
}

absl::StatusOr<std::shared_ptr<const Credentials>> CredentialSource::Current(const Call& call) {
  std::unique_lock<std::mutex> lock(mutex_);
  const bool expired = expiry_.has_value() && clock_->Now() >= *expiry_ - kExpiryMargin;
  if (current_ != nullptr && !expired &&
      clock_->Monotonic() - read_at_ < absl::ToChronoNanoseconds(reload_)) {
    return current_;
  }
  // Files are quick and tolerant: whoever meets an ongoing refresh goes on with what there is.
  if (current_ != nullptr && refreshing_ && !expired) return current_;
  return Refresh(lock, call);
}

absl::StatusOr<std::shared_ptr<const Credentials>> CredentialSource::Renew(
    const std::shared_ptr<const Credentials>& refused, const Call& call) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (current_ != refused && current_ != nullptr && !refreshing_) return current_;
  expiry_ = absl::InfinitePast();  // the plugin must run, whatever it promised
  return Refresh(lock, call);
}

absl::StatusOr<std::shared_ptr<const Credentials>> CredentialSource::Refresh(
    std::unique_lock<std::mutex>& lock, const Call& call) {
  const std::shared_ptr<const Credentials> before = current_;
  while (refreshing_) {
    const MonotonicTime until = call.deadline.value_or(
        std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(exec_timeout_) * 2);
    if (!refreshed_.wait_until(lock, call.stop, until, [this] { return !refreshing_; })) {
      DRA_RETURN_IF_ERROR(call.Check("read credentials"));
      return absl::DeadlineExceededError("read credentials: another thread's refresh did not end");
    }
    if (current_ != before && current_ != nullptr) return current_;
  }
  refreshing_ = true;
  const bool run_plugin = !expiry_.has_value() || clock_->Now() >= *expiry_ - kExpiryMargin;
  std::optional<absl::Time> expiry = run_plugin ? std::nullopt : expiry_;
  lock.unlock();
  absl::StatusOr<Credentials> read = Read(before, call, expiry);
  lock.lock();
  refreshing_ = false;
  refreshed_.notify_all();
  if (!read.ok()) {
    if (!std::exchange(failing_, true)) {
      logger_.Warn("cannot read API credentials", {{"error", read.status().ToString()}});
    }
    return read.status();
  }
  if (std::exchange(failing_, false)) logger_.Info("API credentials are readable again");
  current_ = std::make_shared<const Credentials>(*std::move(read));
  read_at_ = clock_->Monotonic();
  expiry_ = expiry;
  return current_;
}

absl::Status CredentialSource::ReadFileInto(const std::string& path, bool trim,
                                            const std::string& last, std::string& out) {
  absl::StatusOr<std::string> text = fs_->ReadFile(path, kMaxCredentialBytes);
  if (text.ok()) {
    const absl::string_view stripped = absl::StripAsciiWhitespace(*text);
    if (!stripped.empty()) {
      out = trim ? std::string(stripped) : *std::move(text);
      return absl::OkStatus();
    }
    text = absl::FailedPreconditionError(absl::StrCat(path, " is empty"));
  }
  if (last.empty()) return text.status();
  logger_.Warn("credential file is unreadable, keeping what was read last",
               {{"error", text.status().ToString()}});
  out = last;
  return absl::OkStatus();
}

absl::StatusOr<Credentials> CredentialSource::Read(const std::shared_ptr<const Credentials>& last,
                                                   const Call& call,
                                                   std::optional<absl::Time>& expiry) {
  static const Credentials& none = *new Credentials;
  const Credentials& old = last == nullptr ? none : *last;
  Credentials read;
  read.token = config_.token;
  read.client_certificate = config_.client_certificate_data;
  read.client_key = config_.client_key_data;
  read.ca = config_.ca_data;
  if (read.ca.empty() && !config_.ca_file.empty()) {
    DRA_RETURN_IF_ERROR(
        Annotate(ReadFileInto(config_.ca_file, false, old.ca, read.ca), "certificate authority"));
  }
  if (read.token.empty() && !config_.token_file.empty()) {
    DRA_RETURN_IF_ERROR(
        Annotate(ReadFileInto(config_.token_file, true, old.token, read.token), "token"));
    for (const char c : read.token) {
      if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
        return absl::InvalidArgumentError(
            absl::StrCat("token file ", config_.token_file, ": has a control character"));
      }
    }
  }
  if (read.client_certificate.empty() && !config_.client_certificate_file.empty()) {
    DRA_RETURN_IF_ERROR(Annotate(ReadFileInto(config_.client_certificate_file, false,
                                              old.client_certificate, read.client_certificate),
                                 "client certificate"));
  }
  if (read.client_key.empty() && !config_.client_key_file.empty()) {
    DRA_RETURN_IF_ERROR(
        Annotate(ReadFileInto(config_.client_key_file, false, old.client_key, read.client_key),
                 "client key"));
  }
  if (!config_.exec.has_value()) return read;
  if (expiry.has_value() && last != nullptr) {  // still good
    read.token = old.token;
    read.client_certificate = old.client_certificate;
    read.client_key = old.client_key;
    return read;
  }
  DRA_ASSIGN_OR_RETURN(ExecCredential answer,
                       RunExecPlugin(*config_.exec, call.AtMost(exec_timeout_)));
  read.token = std::move(answer.token);
  read.client_certificate = std::move(answer.client_certificate);
  read.client_key = std::move(answer.client_key);
  // A plugin that names no expiry is asked again only after a 401.
  expiry = answer.expiry.value_or(absl::InfiniteFuture());
  return read;
}

}  // namespace dra::kube
