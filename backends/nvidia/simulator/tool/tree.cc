#include "tree.h"

#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>

#include "entries.h"
#include "files.h"

namespace nvidia_simulator {
namespace {

void Write(const std::string& path, const Entry& entry) {
  switch (entry.kind) {
    case Entry::Kind::kFile:
      return WriteFile(path, entry.text, entry.mode);
    case Entry::Kind::kLink:
      return WriteLink(path, entry.text);
    case Entry::Kind::kNode:
    case Entry::Kind::kSocket:
      return WriteNode(path, entry.mode, entry.device);
    case Entry::Kind::kDirectory:
      return MakeDirectory(path);
  }
}

}  // namespace

void SyncTree(Layout& layout, const State& state) {
  Entries entries;
  AddDriverFiles(layout, state, entries);
  AddKernelFiles(layout, state, entries);
  AddDeviceNodes(layout, state, entries);
  const std::set<std::string> before(layout.paths.begin(), layout.paths.end());
  std::set<std::string> all = before;
  for (const auto& [path, entry] : entries) {
    if (!all.insert(path).second || entry.kind == Entry::Kind::kDirectory) continue;
    std::error_code error;
    if (std::filesystem::symlink_status(layout.root + "/" + path, error).type() !=
        std::filesystem::file_type::not_found)
      throw std::runtime_error(layout.root + "/" + path +
                               " is there and is not the simulator's: choose another root");
  }
  // Recorded before it is written: what an interrupted run made is still known to the next.
  layout.paths.assign(all.begin(), all.end());
  WriteLayout(layout);
  // Links last: a soname never names a library that is not there yet.
  for (const bool links : {false, true}) {
    for (const auto& [path, entry] : entries)
      if ((entry.kind == Entry::Kind::kLink) == links) Write(layout.root + "/" + path, entry);
  }
  layout.paths.clear();
  for (const auto& [path, entry] : entries) layout.paths.push_back(path);
  for (const std::string& path : before)
    if (entries.count(path) == 0) RemovePath(layout.root + "/" + path, layout.root);
  // An empty directory that is wanted went with what was in it.
  for (const auto& [path, entry] : entries)
    if (entry.kind == Entry::Kind::kDirectory) Write(layout.root + "/" + path, entry);
  WriteLayout(layout);
}

}  // namespace nvidia_simulator
