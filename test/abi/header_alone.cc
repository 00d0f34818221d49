// The contract needs nothing but itself.
#include "dra/backend/abi.h"

bool DraHeaderAlone(const dra_backend_api* api);
bool DraHeaderAlone(const dra_backend_api* api) {
  return DRA_HAS(api, dra_backend_api, health) && api->health != nullptr;
}
