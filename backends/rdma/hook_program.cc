#include "hook_program.h"

#include "dra/backend/embedded_file.h"

// What hook/ builds; hook/CMakeLists.txt says where it is.
DRA_EMBEDDED_FILE(dra_rdma_hook, DRA_RDMA_HOOK);

namespace rdma {

std::string_view HookProgram() { return DRA_EMBEDDED(dra_rdma_hook); }

}  // namespace rdma
