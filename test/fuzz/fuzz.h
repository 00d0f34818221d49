#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

// What every fuzz target is made of. A target is one function over bytes that must return for any input; a broken
// promise ends the process, which libFuzzer and replay_main.cc report with the input.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace dra::fuzz {

inline absl::string_view Text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Ends the process with the promise that was broken.
void Require(bool kept, absl::string_view promise);

}  // namespace dra::fuzz
