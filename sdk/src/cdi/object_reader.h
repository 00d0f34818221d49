#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra::cdi {

// Reads the members of one JSON object strictly. The first error is kept and the rest is skipped, so a caller reads all
// members and asks Finish() once. Absent members leave the target as it is.
class ObjectReader {
 public:
  ObjectReader(const Json& value, std::string path);

  void String(absl::string_view key, std::string& out);
  void RequiredString(absl::string_view key, std::string& out);
  void Bool(absl::string_view key, bool& out);
  void Int64(absl::string_view key, int64_t& out);
  void Int64(absl::string_view key, std::optional<int64_t>& out);
  void Uint32(absl::string_view key, std::optional<uint32_t>& out);
  void Strings(absl::string_view key, std::vector<std::string>& out);
  void Strings(absl::string_view key, std::optional<std::vector<std::string>>& out);
  void Uint32s(absl::string_view key, std::vector<uint32_t>& out);
  void StringMap(absl::string_view key, std::map<std::string, std::string>& out);

  // Calls read(element, element_path) -> absl::Status for each element of the array at `key`.
  template <typename Read>
  void Each(absl::string_view key, Read read) {
    const Json* array = Array(key);
    if (array == nullptr) return;
    for (size_t i = 0; i < array->size() && status_.ok(); ++i) {
      status_ = read((*array)[i], ElementPath(key, i));
    }
  }
  // Calls read(value, value_path) -> absl::Status if `key` is there.
  template <typename Read>
  void Member(absl::string_view key, Read read) {
    if (const Json* value = Get(key)) status_ = read(*value, MemberPath(key));
  }

  void Require(absl::string_view key);
  // The first error, or the first member that nothing asked for.
  absl::Status Finish();

 private:
  const Json* Get(absl::string_view key);
  const Json* Array(absl::string_view key);
  std::string MemberPath(absl::string_view key) const;
  std::string ElementPath(absl::string_view key, size_t index) const;
  void Fail(const std::string& path, absl::string_view problem);

  const Json& value_;
  const std::string path_;
  std::set<std::string> known_;
  absl::Status status_;
};

// The path of the first key that its object has twice, or "".
std::string FindDuplicateKey(absl::string_view text);

}  // namespace dra::cdi
