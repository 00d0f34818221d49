#pragma once

#include <optional>
#include <string>

namespace fake {

// The file at `path`, or nullopt if there is none. Throws dra::BackendError (kInternal) with the path and the system's
// text for everything else.
std::optional<std::string> ReadFileIfExists(const std::string& path);

// Replaces `path` by rename, so that a reader sees the old text or the new one. Throws dra::BackendError.
void ReplaceFile(const std::string& path, const std::string& text);

// Adds one line with a single write, so that lines of several processes do not mix. Throws dra::BackendError.
void AppendLine(const std::string& path, const std::string& line);

// What tells one version of a file from another without reading it; "" if there is no file.
std::string FileStamp(const std::string& path);

// Holds flock(2) on `path` (created if absent) while it lives: two processes that simulate one machine take turns.
class FileLock {
 public:
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

}  // namespace fake
