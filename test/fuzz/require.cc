#include <cstdlib>
#include <iostream>
#include <string>

#include "test/fuzz/fuzz.h"

namespace dra::fuzz {

void Require(bool kept, absl::string_view promise) {
  if (kept) return;
  std::cerr << "broken promise: " << std::string(promise) << "\n";
  std::abort();
}

}  // namespace dra::fuzz
