#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "dra/backend/backend.h"

namespace fake {

// One JSON line for each event, so that a test can count hook calls and see their order. Any thread, any process.
class HookLog {
 public:
  // path: "" writes nothing.
  explicit HookLog(std::string path) : path_(std::move(path)) {}

  // Adds "pid" and "sequence" (from 0 in each instance). Never throws: a log that cannot be written must not change
  // what the backend does.
  void Write(dra::Json event) noexcept;

 private:
  const std::string path_;
  std::atomic<uint64_t> next_{0};
};

}  // namespace fake
