/* Was linked against a newer libstdc++ than the one it meets. */
#include "dra/backend/abi.h"

int dra_test_newer_runtime_function(void);

const dra_backend_api* dra_backend_entry(uint32_t host_major) {
  return (const dra_backend_api*)(uintptr_t)(host_major +
                                             (uint32_t)dra_test_newer_runtime_function());
}
