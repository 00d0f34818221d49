#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

namespace nvidia {

// For walks over a path that follow its links by themselves: the backend's on the host, the hook's in a container.
inline constexpr int kMaxLinks = 40;  // as the kernel

// Puts the parts of `path` before those that are still to be walked.
inline void PutInFront(std::deque<std::string>& parts, const std::string& path) {
  std::vector<std::string> more;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) more.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.insert(parts.begin(), more.begin(), more.end());
}

}  // namespace nvidia
