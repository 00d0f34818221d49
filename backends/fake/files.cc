#include "files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "dra/backend/backend.h"

namespace fake {
namespace {

[[noreturn]] void FailErrno(const std::string& what, const std::string& path) {
  const int error_number = errno;
  throw dra::BackendError(DRA_INTERNAL, what + " " + path + ": " + std::strerror(error_number));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

void WriteAll(int fd, const std::string& text, const std::string& path) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = write(fd, text.data() + done, text.size() - done);
    if (wrote < 0) {
      if (errno == EINTR) continue;
      FailErrno("write", path);
    }
    done += static_cast<size_t>(wrote);
  }
}

}  // namespace

std::optional<std::string> ReadFileIfExists(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    if (errno == ENOENT) return std::nullopt;
    FailErrno("open", path);
  }
  std::string text;
  char buffer[65536];
  while (true) {
    const ssize_t got = read(file.get(), buffer, sizeof(buffer));
    if (got < 0) {
      if (errno == EINTR) continue;
      FailErrno("read", path);
    }
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

void ReplaceFile(const std::string& path, const std::string& text) {
  const std::string temporary = path + "." + std::to_string(getpid()) + ".tmp";
  {
    const Descriptor file(
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (file.get() < 0) FailErrno("create", temporary);
    WriteAll(file.get(), text, temporary);
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) FailErrno("replace", path);
}

void AppendLine(const std::string& path, const std::string& line) {
  const Descriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (file.get() < 0) FailErrno("open", path);
  WriteAll(file.get(), line + "\n", path);
}

std::string FileStamp(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return "";
  return std::to_string(info.st_ino) + ":" + std::to_string(info.st_size) + ":" +
         std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec);
}

FileLock::FileLock(const std::string& path)
    : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR)) {
  if (fd_ < 0) FailErrno("open", path);
  while (flock(fd_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const int error_number = errno;
    close(fd_);
    errno = error_number;
    FailErrno("lock", path);
  }
}

FileLock::~FileLock() { close(fd_); }

}  // namespace fake
