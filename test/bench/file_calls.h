#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dra::bench {

// The command line that runs a program under strace and writes its file calls to `output`. The program keeps the pid of
// the started process (-D: the tracer is a grandchild). Empty if there is no strace that may trace.
std::vector<std::string> TracePrefix(const std::string& output);

// The calls in a trace that touched a file below one of `directories`: "write", "fsync", "rename", "unlink", "open for
// writing", "mkdir", "lock" -> how many. Lines before `from_byte` are left out.
std::map<std::string, int> CountFileCalls(const std::string& trace, size_t from_byte,
                                          const std::vector<std::string>& directories);

size_t FileSize(const std::string& path);

}  // namespace dra::bench
