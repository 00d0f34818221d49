#include "hook_log.h"

#include <unistd.h>

#include <exception>

#include "files.h"

namespace fake {

void HookLog::Write(dra::Json event) noexcept {
  if (path_.empty()) return;
  try {
    event["pid"] = getpid();
    event["sequence"] = next_++;
    AppendLine(path_, event.dump(-1, ' ', false, dra::Json::error_handler_t::replace));
  } catch (const std::exception&) {
    // The reader of the log sees that it ends.
  }
}

}  // namespace fake
