#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace dra {

// How deep brackets nest in a JSON text, strings left out. Looked at before a parse, because what works on deep values
// recurses. Of text that is no JSON, which no parse accepts, it says nothing. Pure.
size_t JsonNesting(absl::string_view text);

}  // namespace dra
