#pragma once

#include <functional>
#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/logger.h"
#include "dra/base/unique_fd.h"

namespace dra::kubelet {

// One thread that accepts connections on listening sockets and hands each on. Any thread.
class Acceptor {
 public:
  // Owns what it is given: a connected, non-blocking descriptor. Must return at once.
  using OnConnection = std::function<void(UniqueFd connection)>;

  explicit Acceptor(Logger logger);
  // Stops the thread.
  ~Acceptor();

  absl::Status Start();
  // `listening_fd` is non-blocking and stays open until Remove returns.
  void Add(int listening_fd, OnConnection on_connection);
  // When this returns, on_connection is not running and is not called any more.
  void Remove(int listening_fd);

 private:
  void Run();
  void Wake();
  // False when the process has no descriptor left: accepting must pause.
  bool AcceptAll(int listening_fd, const OnConnection& on_connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Logger logger_;
  absl::Mutex mutex_;
  std::map<int, OnConnection> listening_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool starved_ ABSL_GUARDED_BY(mutex_) = false;
  UniqueFd wake_;  // eventfd
  std::thread thread_;
};

}  // namespace dra::kubelet
