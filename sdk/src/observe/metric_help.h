#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace dra::observe {

// The HELP line of a metric, as docs/metrics.md says it; where that page lists none, a reference to it. Pure.
std::string MetricHelp(absl::string_view metric);

}  // namespace dra::observe
