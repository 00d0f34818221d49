#pragma once

#include <string>
#include <vector>

#include "root_dir.h"

namespace nvidia_hook {

// Lets the container's loader find libraries in `directories` (paths in the container): its cache is made anew by the
// host's ldconfig ("" if there is none), which runs locked up in the container's root. The image's own programs are
// never run: they would have the host's rights.
// Nothing happens in a container without glibc's loader and cache (musl, static programs). Where the cache cannot be
// made, that is no error as long as every directory is one that the loader searches anyway. Throws Error.
void UpdateLoaderCache(const RootDir& root, const std::string& ldconfig,
                       const std::vector<std::string>& directories);

}  // namespace nvidia_hook
