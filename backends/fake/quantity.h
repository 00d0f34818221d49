#pragma once

#include <string>

namespace fake {

// A Kubernetes quantity that is not negative as a plain decimal number: "10G" and "9765625Ki" are "10000000000",
// "1500m" is "1.5". The API server and the scheduler write one amount in several ways. Text that is no such quantity,
// or is too large to be read exactly, comes back as it is.
std::string PlainNumber(const std::string& quantity);

}  // namespace fake
