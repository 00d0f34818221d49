/* The contract needs nothing but itself. */
#include "dra/backend/abi.h"

int dra_header_alone(const dra_backend_api* api);
int dra_header_alone(const dra_backend_api* api) {
  return DRA_HAS(api, dra_backend_api, health) && api->health != NULL;
}
