#include "mirror.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace rdma_simulator {
namespace {

namespace fs = std::filesystem;

constexpr char kWork[] = "/.rdma-simulator.new";
constexpr unsigned kNullMajor = 1, kNullMinor = 3;

struct Entry {
  enum class Kind { kDirectory, kFile, kNode, kLink } kind = Kind::kFile;
  std::string text;  // of a file; a link's target
  dev_t device = 0;
};
using Entries = std::map<std::string, Entry>;  // by path below the root: what is above comes first

[[noreturn]] void Fail(const std::string& what, const std::string& path) {
  throw std::runtime_error("cannot " + what + " " + path + ": " + std::strerror(errno));
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A node that WriteTree made, or could not make, as this host is to have it.
Entry NodeEntry(const State& state, const std::string& path) {
  Entry entry;
  entry.kind = Entry::Kind::kNode;
  switch (state.nodes) {
    case NodeKind::kStandIns:
      entry.device = makedev(kNullMajor, kNullMinor);
      break;
    case NodeKind::kLinks:
      entry.kind = Entry::Kind::kLink;
      entry.text = "/dev/null";
      break;
    case NodeKind::kReal: {
      struct stat info = {};
      if (lstat(path.c_str(), &info) != 0) Fail("look at", path);
      if (!S_ISCHR(info.st_mode))
        throw std::runtime_error(
            "cannot make device nodes: needs root with CAP_MKNOD and a file system without "
            "nodev, or --no-nodes");
      entry.device = info.st_rdev;
      break;
    }
  }
  return entry;
}

Entries WantedBelow(const State& state, const std::string& work) {
  Entries entries;
  for (const auto& item : fs::recursive_directory_iterator(work)) {
    const std::string path = item.path().lexically_relative(work);
    Entry& entry = entries[path];
    if (path.rfind("dev/", 0) == 0 && !item.is_directory()) {
      if (state.missing_nodes.contains(item.path().filename()))
        entries.erase(path);
      else
        entry = NodeEntry(state, item.path());
    } else if (item.is_symlink()) {
      entry = {Entry::Kind::kLink, fs::read_symlink(item.path()), 0};
    } else if (item.is_directory()) {
      entry.kind = Entry::Kind::kDirectory;
    } else {
      entry.text = ReadText(item.path());
    }
  }
  return entries;
}

bool IsThere(const std::string& path, const Entry& entry) {
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) return false;
  switch (entry.kind) {
    case Entry::Kind::kDirectory:
      return S_ISDIR(info.st_mode);
    case Entry::Kind::kFile:
      return S_ISREG(info.st_mode) && ReadText(path) == entry.text;
    case Entry::Kind::kNode:
      return S_ISCHR(info.st_mode) && info.st_rdev == entry.device;
    case Entry::Kind::kLink:
      return S_ISLNK(info.st_mode) && fs::read_symlink(path) == entry.text;
  }
  return false;
}

void Write(const std::string& path, const Entry& entry, const std::string& temporary) {
  if (IsThere(path, entry)) return;
  switch (entry.kind) {
    case Entry::Kind::kDirectory:
      fs::create_directories(path);
      return;
    case Entry::Kind::kFile: {
      std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
      file << entry.text;
      file.close();
      if (!file) Fail("write", temporary);
      break;
    }
    case Entry::Kind::kNode:
      // Whatever the umask is.
      if (mknod(temporary.c_str(), S_IFCHR | 0666, entry.device) != 0 ||
          chmod(temporary.c_str(), 0666) != 0)
        Fail(
            "make the device node (needs root with CAP_MKNOD and a file system without nodev, or "
            "--no-nodes)",
            path);
      break;
    case Entry::Kind::kLink:
      if (symlink(entry.text.c_str(), temporary.c_str()) != 0) Fail("make the link", path);
      break;
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) Fail("replace", path);
}

// Directories last, the innermost first; those that have something of others stay.
void RemoveAll(const std::string& root, const std::vector<std::string>& paths) {
  std::vector<std::string> others, directories;
  for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
    const std::string whole = root + "/" + *path;
    const fs::file_type type = fs::symlink_status(whole).type();
    if (type == fs::file_type::directory)
      directories.push_back(whole);
    else if (type == fs::file_type::symlink)
      unlink(whole.c_str());
    else
      others.push_back(whole);
  }
  for (const std::string& path : others)
    if (unlink(path.c_str()) != 0 && errno != ENOENT) Fail("remove", path);
  for (const std::string& path : directories)
    if (rmdir(path.c_str()) != 0 && errno != ENOENT && errno != ENOTEMPTY) Fail("remove", path);
}

class WorkDirectory {
 public:
  explicit WorkDirectory(std::string path) : path_(std::move(path)) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~WorkDirectory() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

}  // namespace

void SyncTree(State& state, const std::string& root) {
  const WorkDirectory work(root + kWork);
  const std::string tree = work.path() + "/tree", temporary = work.path() + "/next";
  WriteTree(Visible(state), tree);
  const Entries entries = WantedBelow(state, tree);

  const std::set<std::string> before(state.paths.begin(), state.paths.end());
  std::set<std::string> all = before;
  for (const auto& [path, entry] : entries) {
    const std::string whole = root + "/" + path;
    if (!all.insert(path).second || entry.kind == Entry::Kind::kDirectory ||
        fs::symlink_status(whole).type() == fs::file_type::not_found)
      continue;
    throw std::runtime_error(whole + " is there and is not the simulator's: choose another root");
  }
  // Recorded before it is written: what an interrupted run made is still known to the next.
  state.paths.assign(all.begin(), all.end());
  WriteState(root, state);
  for (const bool links : {false, true}) {
    for (const auto& [path, entry] : entries)
      if ((entry.kind == Entry::Kind::kLink) == links) Write(root + "/" + path, entry, temporary);
  }
  std::vector<std::string> gone;
  for (const std::string& path : before)
    if (!entries.contains(path)) gone.push_back(path);
  RemoveAll(root, gone);
  state.paths.clear();
  for (const auto& [path, entry] : entries) state.paths.push_back(path);
  WriteState(root, state);
}

}  // namespace rdma_simulator
