#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace dra {

// One sync of a path for all who ask for it while another runs. What a caller did before Run is covered, because the sync
// that answers it starts afterwards; a failure reaches every caller that it was to answer. Any thread.
class SharedSyncs {
 public:
  explicit SharedSyncs(std::function<absl::Status(const std::string&)> sync)
      : sync_(std::move(sync)) {}

  absl::Status Run(absl::string_view path);

 private:
  struct Batch {
    bool done = false;
    absl::Status status;
  };
  struct Path {
    std::shared_ptr<Batch> next = std::make_shared<Batch>();  // of those who wait for the next sync
    bool running = false;
    int users = 0;
  };

  const std::function<absl::Status(const std::string&)> sync_;
  absl::Mutex mutex_;
  std::map<std::string, Path, std::less<>> paths_ ABSL_GUARDED_BY(mutex_);  // in use now
};

}  // namespace dra
