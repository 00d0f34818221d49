#pragma once

#include <string_view>

namespace rdma {

// The bytes of the static hook program that hook/ builds.
std::string_view HookProgram();

}  // namespace rdma
