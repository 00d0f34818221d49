#pragma once

#include <string>

#include "test/crash/kill_points.h"

namespace dra::crash {

// Makes every byte lock that this program takes or lets go from now on a kill point, after it is done: "Lock
// data/publish.lock owner after", "Unlock ..." (before it, all is as after the operation before). A try that finds the
// byte taken is none. The bytes that end with their file have no point of their own. points: null for none; outlives
// its use. root: see PathClass. Works by fcntl, which the linker leads here (--wrap=fcntl). Any thread.
void SetLockPoints(KillPoints* points, std::string root);

}  // namespace dra::crash
