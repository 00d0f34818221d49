#include "dra/base/logger.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra {
namespace {

constexpr absl::string_view kLevelNames[] = {"trace", "debug", "info", "warn", "error", "off"};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::trace, spdlog::level::debug,
                                                   spdlog::level::info,  spdlog::level::warn,
                                                   spdlog::level::err,   spdlog::level::off};
  return kLevels[static_cast<int>(level)];
}

// A value as key=value shows it: quoted when it has a space, a quote or a control character in it.
std::string TextValue(const std::string& value) {
  const bool plain = !value.empty() && value.find_first_of(" \"\\=\n\r\t") == std::string::npos;
  return plain ? value : DumpJson(Json(value));
}

std::string OneLine(absl::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return line;
}

class FunctionSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  FunctionSink(void (*function)(void*, absl::string_view), void* context)
      : function_(function), context_(context) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    function_(context_, absl::string_view(message.payload.data(), message.payload.size()));
  }
  void flush_() override {}

  void (*const function_)(void*, absl::string_view);
  void* const context_;
};

}  // namespace

struct Logger::Core {
  std::shared_ptr<spdlog::logger> logger;
  LogFormat format = LogFormat::kText;
};

absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view text) {
  for (int i = 0; i < 6; ++i) {
    if (kLevelNames[i] == text) return static_cast<LogLevel>(i);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("log level \"", text, "\" is not one of ", absl::StrJoin(kLevelNames, ", ")));
}

Logger::Logger() = default;

Logger Logger::ToStderr(LogLevel level, LogFormat format) {
  Logger logger;
  logger.core_ = std::make_shared<Core>();
  logger.core_->format = format;
  logger.core_->logger =
      std::make_shared<spdlog::logger>("dra", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger.core_->logger->set_level(ToSpdlog(level));
  logger.core_->logger->set_pattern("%v");
  return logger;
}

Logger Logger::ToFunction(LogLevel level, LogFormat format,
                          void (*sink)(void* context, absl::string_view line), void* context) {
  Logger logger;
  logger.core_ = std::make_shared<Core>();
  logger.core_->format = format;
  logger.core_->logger =
      std::make_shared<spdlog::logger>("dra", std::make_shared<FunctionSink>(sink, context));
  logger.core_->logger->set_level(ToSpdlog(level));
  return logger;
}

Logger Logger::With(Fields fields) const {
  Logger logger = *this;
  for (const Field& field : fields) {
    // A layer that adds what its caller has added already does not show it twice.
    const auto same = std::find_if(logger.fields_.begin(), logger.fields_.end(),
                                   [&](const auto& known) { return known.first == field.first; });
    if (same == logger.fields_.end()) {
      logger.fields_.emplace_back(std::string(field.first), field.second);
    } else {
      same->second = field.second;
    }
  }
  return logger;
}

bool Logger::Enabled(LogLevel level) const {
  return core_ != nullptr && core_->logger->should_log(ToSpdlog(level));
}

void Logger::Log(LogLevel level, absl::string_view text, Fields fields) const {
  if (!Enabled(level)) return;
  const std::string time =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
  const absl::string_view name = kLevelNames[static_cast<int>(level)];
  std::string line;
  if (core_->format == LogFormat::kJson) {
    Json object = {{"time", time}, {"level", std::string(name)}, {"msg", std::string(text)}};
    for (const auto& [key, value] : fields_) object[key] = value;
    for (const Field& field : fields) object[std::string(field.first)] = field.second;
    line = DumpJson(object);
  } else {
    line = absl::StrCat(time, " ", name, " ", OneLine(text));
    for (const auto& [key, value] : fields_)
      absl::StrAppend(&line, " ", key, "=", TextValue(value));
    for (const Field& field : fields)
      absl::StrAppend(&line, " ", field.first, "=", TextValue(field.second));
  }
  core_->logger->log(ToSpdlog(level), line);
}

}  // namespace dra
