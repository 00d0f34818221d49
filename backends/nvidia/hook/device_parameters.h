#pragma once

#include "root_dir.h"

namespace nvidia_hook {

// Keeps NVIDIA's libraries in the container from making device nodes there: they would make those of every GPU of the
// host, as /proc/driver/nvidia/params tells them to. The container gets that file with "ModifyDeviceFiles: 0", on a
// mount of its own. Nothing happens where the file is not there, or says so already. Throws Error.
void StopDeviceNodeMaking(const RootDir& root);

}  // namespace nvidia_hook
