#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "dra/base/unique_fd.h"

namespace dra::testing {

// Watches a directory tree for unix sockets as the kubelet's plugin watcher does: existing ones count as created at the
// start, names that begin with '.' and other files are ignored, only Create and Remove matter. A socket that is renamed
// over another is a Remove and a Create.
class RegistryWatcher {
 public:
  using Callback = std::function<void(const std::string& path)>;

  // Callbacks come from one thread, in order.
  static absl::StatusOr<std::unique_ptr<RegistryWatcher>> Start(const std::string& directory,
                                                                Callback on_create,
                                                                Callback on_remove);
  ~RegistryWatcher();

 private:
  RegistryWatcher(Callback on_create, Callback on_remove);
  void AddTree(const std::string& directory);
  void Consider(const std::string& path);
  void Run();

  const Callback on_create_;
  const Callback on_remove_;
  UniqueFd inotify_;
  UniqueFd stop_;
  std::unordered_map<int, std::string> directories_;  // by watch descriptor
  std::map<std::string, ino_t> sockets_;              // by path: the inode
  std::thread thread_;
};

}  // namespace dra::testing
