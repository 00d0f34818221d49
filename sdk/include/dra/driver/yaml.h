#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra::driver {

// YAML documents of `text` as JSON values, by the YAML 1.2 core schema as Kubernetes reads manifests: quoted scalars are
// strings; plain ones are null, bool, integer, float or string. Empty documents are left out. Errors: InvalidArgument
// "<what>:<line>:<column>: <problem>" for a syntax error, a duplicate key or a key that is no string.
absl::StatusOr<std::vector<Json>> YamlToJson(absl::string_view text, absl::string_view what);

// Reads a YAML mapping strictly: what is not asked for is an error that names its line and the nearest known key.
// Getters leave `out` alone when the key is absent. All errors are collected; Finish returns them in order of line.
class YamlMapping {
 public:
  // One document. Errors as YamlToJson; also when the top level is not a mapping.
  static absl::StatusOr<YamlMapping> Parse(absl::string_view text, absl::string_view what);

  YamlMapping(const YamlMapping&);
  YamlMapping(YamlMapping&&) noexcept;
  YamlMapping& operator=(const YamlMapping&) = delete;
  ~YamlMapping();

  void String(absl::string_view key, std::string* out);
  void Bool(absl::string_view key, bool* out);
  // An integer within [min, max].
  void Int(absl::string_view key, int min, int max, int* out);
  // A Go-style duration ("30s", "500ms", "1m30s") within [min, max].
  void Duration(absl::string_view key, absl::Duration min, absl::Duration max, absl::Duration* out);
  void Strings(absl::string_view key, std::vector<std::string>* out);
  // Any YAML below the key, as JSON.
  void Any(absl::string_view key, Json* out);
  // One of `allowed`.
  void OneOf(absl::string_view key, const std::vector<std::string>& allowed, std::string* out);
  // The keys of this mapping, for one whose keys are names.
  std::vector<std::string> Keys() const;
  // The mapping at the key, empty if absent. It reports to this one's Finish.
  YamlMapping Mapping(absl::string_view key);
  // The mappings of the list at the key.
  std::vector<YamlMapping> Mappings(absl::string_view key);

  // Adds an error at the key's line (at this mapping's if the key is absent).
  void Fail(absl::string_view key, absl::string_view problem);
  // Checks for unknown keys in every mapping handed out. InvalidArgument with one line an error, or OK.
  absl::Status Finish();

 private:
  struct Document;
  struct Level;
  explicit YamlMapping(std::shared_ptr<Level> level);
  static std::shared_ptr<Level> AddLevel(const std::shared_ptr<Document>& document,
                                         std::string path);
  std::shared_ptr<Document> Owner() const;

  std::shared_ptr<Level> level_;
};

// The candidate with the least edit distance, if it is near enough to be a slip of the pen; "" otherwise.
std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates);

}  // namespace dra::driver
