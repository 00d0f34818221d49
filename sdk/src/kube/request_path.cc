#include "kube/request_path.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace dra::kube {

std::string PercentEncode(absl::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || c == '-' || c == '.' || c == '_' || c == '~') {
      encoded.push_back(c);
    } else {
      encoded.push_back('%');
      encoded.push_back(kHex[byte >> 4]);
      encoded.push_back(kHex[byte & 15]);
    }
  }
  return encoded;
}

std::string ResourcePath(const Resource& resource, absl::string_view namespace_name,
                         absl::string_view name, absl::string_view subresource) {
  std::string path = resource.group.empty()
                         ? absl::StrCat("/api/", resource.version)
                         : absl::StrCat("/apis/", resource.group, "/", resource.version);
  if (resource.namespaced && !namespace_name.empty()) {
    absl::StrAppend(&path, "/namespaces/", PercentEncode(namespace_name));
  }
  absl::StrAppend(&path, "/", resource.plural);
  if (!name.empty()) absl::StrAppend(&path, "/", PercentEncode(name));
  if (!subresource.empty()) absl::StrAppend(&path, "/", subresource);
  return path;
}

std::string QueryString(const std::vector<std::pair<std::string, std::string>>& parameters) {
  std::string query;
  for (const auto& [key, value] : parameters) {
    if (value.empty()) continue;
    absl::StrAppend(&query, query.empty() ? "?" : "&", key, "=", PercentEncode(value));
  }
  return query;
}

}  // namespace dra::kube
