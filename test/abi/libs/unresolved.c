/* Uses a vendor's function that no library has. */
#include "dra/backend/abi.h"

extern const dra_backend_api* vendor_function_that_is_missing(void);

const dra_backend_api* dra_backend_entry(uint32_t host_major) {
  (void)host_major;
  return vendor_function_that_is_missing();
}
