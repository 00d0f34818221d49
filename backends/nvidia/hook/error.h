#pragma once

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace nvidia_hook {

// Why the container cannot start. The runtime shows the text to the user.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// With errno's text.
[[noreturn]] inline void Fail(const std::string& what) {
  throw Error(what + ": " + std::strerror(errno));
}

}  // namespace nvidia_hook
