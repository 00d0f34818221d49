#include "test/bench/file_calls.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace dra::bench {
namespace {

// "1234 fsync(7</tmp/x/claims/y.json>) = 0" -> "fsync"; "" for lines that end a call or tell of signals.
std::string CallOf(const std::string& line) {
  const size_t open = line.find('(');
  if (open == std::string::npos || line.find("resumed>") < open) return "";
  const size_t space = line.rfind(' ', open);
  const size_t begin = space == std::string::npos ? 0 : space + 1;
  return line.substr(begin, open - begin);
}

std::string KindOf(const std::string& call, const std::string& line) {
  if (call == "write" || call == "pwrite64" || call == "writev") return "write";
  if (call == "fsync" || call == "fdatasync") return "fsync";
  if (call.rfind("rename", 0) == 0) return "rename";
  if (call == "unlink" || call == "unlinkat" || call == "rmdir") return "unlink";
  if (call.rfind("mkdir", 0) == 0) return "mkdir";
  if (call == "fcntl") return line.find("SETLK") != std::string::npos ? "lock" : "";
  if (call == "openat")
    return line.find("O_CREAT") != std::string::npos ? "open to create" : "open";
  if (call == "newfstatat" || call == "statx" || call == "fstat") return "stat";
  if (call == "getdents64") return "list";
  return "";
}

}  // namespace

std::vector<std::string> TracePrefix(const std::string& output) {
  for (absl::string_view directory : {"/usr/bin", "/usr/local/bin", "/bin"}) {
    const std::string strace = absl::StrCat(directory, "/strace");
    if (::access(strace.c_str(), X_OK) != 0) continue;
    // It may be there and not be allowed to trace.
    if (std::system(absl::StrCat(strace, " -o /dev/null true >/dev/null 2>&1").c_str()) != 0)
      continue;
    return {strace,
            "-D",
            "-f",
            "-y",
            "-s",
            "0",
            "-qq",
            "-o",
            output,
            "-e",
            "signal=none",
            "-e",
            "trace=write,pwrite64,writev,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,"
            "rmdir,mkdir,"
            "mkdirat,openat,fcntl,newfstatat,statx,fstat,getdents64"};
  }
  return {};
}

std::map<std::string, int> CountFileCalls(const std::string& trace, size_t from_byte,
                                          const std::vector<std::string>& directories) {
  std::map<std::string, int> counts;
  std::ifstream in(trace);
  in.seekg(static_cast<std::streamoff>(from_byte));
  for (std::string line; std::getline(in, line);) {
    const bool ours = std::any_of(directories.begin(), directories.end(), [&](const auto& prefix) {
      return line.find(prefix) != std::string::npos;
    });
    if (!ours) continue;
    const std::string kind = KindOf(CallOf(line), line);
    if (!kind.empty()) ++counts[kind];
  }
  return counts;
}

size_t FileSize(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<size_t>(size);
}

}  // namespace dra::bench
