#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dra {

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kOff };
enum class LogFormat { kText, kJson };

// "trace", "debug", "info", "warn", "error", "off". Errors: InvalidArgument that lists them.
absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view text);

// Writes one line an event: text, then key=value pairs. Keys are fixed (style.md 8): driver pool slice claim
// claim_uid device backend rpc code took_ms error. Never put tokens or opaque parameters in.
// Copies share the sink; With() gives a logger that adds fields to each line. Any thread.
class Logger {
 public:
  using Field = std::pair<absl::string_view, std::string>;
  using Fields = std::initializer_list<Field>;

  // Drops everything; the default for tests.
  Logger();
  // To stderr.
  static Logger ToStderr(LogLevel level, LogFormat format);
  // Every line (without a time stamp) to `sink`, any thread; for tests.
  static Logger ToFunction(LogLevel level, LogFormat format,
                           void (*sink)(void* context, absl::string_view line), void* context);

  Logger With(Fields fields) const;
  bool Enabled(LogLevel level) const;

  void Log(LogLevel level, absl::string_view text, Fields fields = {}) const;
  void Trace(absl::string_view text, Fields fields = {}) const {
    Log(LogLevel::kTrace, text, fields);
  }
  void Debug(absl::string_view text, Fields fields = {}) const {
    Log(LogLevel::kDebug, text, fields);
  }
  void Info(absl::string_view text, Fields fields = {}) const {
    Log(LogLevel::kInfo, text, fields);
  }
  void Warn(absl::string_view text, Fields fields = {}) const {
    Log(LogLevel::kWarn, text, fields);
  }
  void Error(absl::string_view text, Fields fields = {}) const {
    Log(LogLevel::kError, text, fields);
  }

 private:
  struct Core;
  std::shared_ptr<Core> core_;
  std::vector<std::pair<std::string, std::string>> fields_;
};

}  // namespace dra
