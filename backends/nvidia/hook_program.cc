#include "edits.h"

// The program hook/ builds, put into the backend as it is: DRA_NVIDIA_HOOK is its path (hook/CMakeLists.txt).
__asm__(
    ".pushsection .rodata\n"
    ".global dra_nvidia_hook_begin\n"
    ".hidden dra_nvidia_hook_begin\n"
    "dra_nvidia_hook_begin:\n"
    ".incbin \"" DRA_NVIDIA_HOOK
    "\"\n"
    ".global dra_nvidia_hook_end\n"
    ".hidden dra_nvidia_hook_end\n"
    "dra_nvidia_hook_end:\n"
    ".popsection\n");

extern "C" {
extern const char dra_nvidia_hook_begin[] __attribute__((visibility("hidden")));
extern const char dra_nvidia_hook_end[] __attribute__((visibility("hidden")));
}

namespace nvidia {

std::string HookProgram() { return {dra_nvidia_hook_begin, dra_nvidia_hook_end}; }

}  // namespace nvidia
