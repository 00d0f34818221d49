#pragma once

#include <algorithm>
#include <string>

#include "dra/backend/json_reader.h"

namespace dra {

// An option that is an absolute path, in its one form: "/a//b/" is "/a/b". Absent or "": `fallback`. Refused are relative
// paths, NUL bytes and "..": a root must not be left by its own name.
inline std::string ReadHostPath(JsonReader& reader, const std::string& key,
                                const std::string& fallback) {
  const std::string path = reader.Optional<std::string>(key).value_or("");
  if (path.empty()) return fallback;
  if (path.front() != '/') reader.Refuse(key, "\"" + path + "\" is not an absolute path");
  if (path.find('\0') != std::string::npos) reader.Refuse(key, "has a NUL byte");
  std::string clean;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (part == "..") reader.Refuse(key, "\"" + path + "\" must not contain \"..\"");
    if (!part.empty() && part != ".") clean += "/" + part;
    begin = end + 1;
  }
  return clean.empty() ? "/" : clean;
}

// root + path, "//" avoided where root is "/". path: absolute.
inline std::string PathBelow(const std::string& root, const std::string& path) {
  return root == "/" ? path : root + path;
}

}  // namespace dra
