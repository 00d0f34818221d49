#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "control.h"

namespace fake {
namespace {

constexpr std::chrono::milliseconds kLook(5);

// Not a std::exception, and of a type no other library knows.
struct OwnException {
  int value = 0;
};

bool StillThere(Control& control, const Fault& fault) {
  const std::shared_ptr<const ControlState> state = control.Read();
  for (const Fault& other : state->faults) {
    if (other.key == fault.key) return true;
  }
  return false;
}

[[noreturn]] void Crash(const std::string& how) {
  if (how == "exit") _exit(3);
  if (how == "kill") kill(getpid(), SIGKILL);
  if (how == "segv") {
    // The default action, whatever handler a sanitizer or the host has put there.
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
  }
  std::abort();
}

}  // namespace

void Suffer(const Fault& fault, Control& control, const dra::HookCall& call) {
  // Latency and hangs stand for hardware that does not answer: the deadline does not shorten them, and a
  // cancellation only where the fault says so.
  if (fault.latency_ms > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(fault.latency_ms));
  if (fault.hang == "untilCancelled") {
    while (true) {
      call.Check(fault.hook);
      pollfd wait = {call.cancel_fd(), POLLIN, 0};
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(call.Remaining());
      poll(&wait, 1, static_cast<int>(std::clamp<int64_t>(left.count() + 1, 1, 50)));
    }
  }
  if (fault.hang == "untilRemoved") {
    while (StillThere(control, fault)) std::this_thread::sleep_for(kLook);
  }
  if (!fault.crash.empty()) Crash(fault.crash);
  if (fault.thrown == "exception") throw std::runtime_error(fault.hook + " threw on demand");
  if (fault.thrown == "int") throw 7;
  if (fault.thrown == "own") throw OwnException{7};
  if (fault.fail_code) throw dra::BackendError(*fault.fail_code, fault.fail_text);
}

}  // namespace fake
