#pragma once

#include <string>

namespace nvidia {

// Where the driver's libraries are searched, below its root, in this order.
// Source: kubernetes-sigs/dra-driver-nvidia-gpu: cmd/gpu-kubelet-plugin/root.go.
inline constexpr const char* kLibraryDirectories[] = {
    "/",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
};

// "/usr/bin/x" below "/run/nvidia/driver" or "/".
inline std::string Below(const std::string& root, const std::string& path) {
  return root == "/" ? path : root + path;
}

}  // namespace nvidia
