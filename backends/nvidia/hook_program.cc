#include "dra/backend/embedded_file.h"
#include "edits.h"

// What hook/ builds; hook/CMakeLists.txt says where it is.
DRA_EMBEDDED_FILE(dra_nvidia_hook, DRA_NVIDIA_HOOK);

namespace nvidia {

std::string_view HookProgram() { return DRA_EMBEDDED(dra_nvidia_hook); }

}  // namespace nvidia
