#pragma once

#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "dra/backend/abi.h"

namespace dra {

// How a backend fails: thrown inside a backend, turned into code and text at the boundary. `code`
// is one of DRA_...; pick it by what the caller can do: DRA_INVALID_ARGUMENT the user's object is
// wrong, DRA_UNAVAILABLE try again, DRA_FAILED_PRECONDITION somebody must act. The text names the
// object and says what to do.
class BackendError : public std::runtime_error {
 public:
  BackendError(dra_code code, const std::string& text) : std::runtime_error(text), code_(code) {}
  dra_code code() const noexcept { return code_; }

 private:
  dra_code code_;
};

inline dra_str ToStr(const char* data, size_t size) noexcept { return dra_str{data, size}; }
inline dra_str ToStr(const std::string& text) noexcept { return {text.data(), text.size()}; }
inline std::string FromStr(dra_str text) {
  return text.size == 0 ? std::string() : std::string(text.data, text.size);
}

namespace backend_internal {

// Writes code and text into the caller's error, cut at a character's start; returns the code.
inline dra_code Fail(dra_error* err, dra_code code, const char* text) noexcept {
  if (code == DRA_OK) code = DRA_INTERNAL;
  if (err == nullptr) return code;
  if (DRA_HAS(err, dra_error, code)) err->code = code;
  if (DRA_HAS(err, dra_error, message)) {
    size_t size = std::strlen(text);
    if (size >= sizeof(err->message)) {
      size = sizeof(err->message) - 1;
      while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
    }
    std::memcpy(err->message, text, size);
    err->message[size] = '\0';
  }
  return code;
}

// Runs `function`; nothing it throws gets out.
template <typename Function>
dra_code Guard(dra_error* err, Function&& function) noexcept {
  try {
    std::forward<Function>(function)();
    return DRA_OK;
  } catch (const BackendError& error) {
    return Fail(err, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return Fail(err, DRA_RESOURCE_EXHAUSTED, "backend is out of memory");
  } catch (const std::exception& error) {
    return Fail(err, DRA_INTERNAL, error.what());
  } catch (...) {
    return Fail(err, DRA_INTERNAL, "backend threw a value that is not a std::exception");
  }
}

}  // namespace backend_internal
}  // namespace dra
