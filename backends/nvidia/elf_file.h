#pragma once

#include <optional>
#include <string>

namespace nvidia {

// What a library or program on disk says of itself. 64-bit files of this machine's byte order only; every number in
// them is checked against the file's size. Also part of the hook, hence without exceptions and the SDK.

// The name under which the loader looks for the library ("libcuda.so.1"); nullopt if the file has none or is none.
std::optional<std::string> SonameOf(const std::string& path);

// Whether the file at `fd` is a program that needs no loader and no library, so that it can be run where the loader
// beside it is not to be trusted. fd is only read with pread.
bool IsStaticProgram(int fd);

}  // namespace nvidia
