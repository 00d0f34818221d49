#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "dra/base/unique_fd.h"

namespace dra::bench {

// Costs that no driver can avoid, measured beside the calls in the same round. All in milliseconds.

// A bare HTTP/1.1 client on one kept TCP connection: a request, a blocking read until the answer is whole.
class BareHttpClient {
 public:
  static absl::StatusOr<BareHttpClient> Connect(int port);
  // GET of `path`; an error unless the answer is 200.
  absl::StatusOr<double> Get(const std::string& path);

 private:
  explicit BareHttpClient(UniqueFd socket) : socket_(std::move(socket)) {}
  UniqueFd socket_;
};

// What one durable write in `directory` takes: a new file of `bytes`, write, fsync, rename, fsync of the directory. The
// file is removed again, outside of the time.
absl::StatusOr<double> DurableWrite(const std::string& directory, size_t bytes);

}  // namespace dra::bench
