#pragma once

#include "test/crash/kill_points.h"

namespace dra::crash {

// Makes what a backend does to device nodes by itself a kill point from now on: "mknod dev/nvidia0 before" and "... after",
// and the same of chmod. points: null for none; outlives its use. Works by the names of the two functions, which a library
// looks for in this program first. Any thread.
void SetNodePoints(KillPoints* points);

}  // namespace dra::crash
