#include "files.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace nvidia_simulator {
namespace {

[[noreturn]] void Fail(const std::string& what, const std::string& path, int error_number) {
  throw std::runtime_error("cannot " + what + " " + path + ": " + std::strerror(error_number));
}

std::string Temporary(const std::string& path) {
  const std::filesystem::path whole(path);
  MakeDirectory(whole.parent_path());
  return whole.parent_path() / (".new-" + std::to_string(getpid()));
}

void Place(const std::string& temporary, const std::string& path) {
  if (std::rename(temporary.c_str(), path.c_str()) == 0) return;
  const int error_number = errno;
  unlink(temporary.c_str());
  Fail("replace", path, error_number);
}

}  // namespace

std::optional<std::string> ReadFile(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) Fail("read", path, errno);
  const auto size = std::filesystem::file_size(path, error);
  if (error) throw std::runtime_error("cannot read " + path + ": " + error.message());
  std::string text(size, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

void WriteFile(const std::string& path, const std::string& text, mode_t mode) {
  struct stat info = {};
  if (lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & 07777) == mode &&
      static_cast<size_t>(info.st_size) == text.size() && ReadFile(path) == text)
    return;
  const std::string temporary = Temporary(path);
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file << text;
    file.flush();
    if (!file) Fail("write", temporary, errno);
  }
  if (chmod(temporary.c_str(), mode) != 0) Fail("set the mode of", temporary, errno);
  Place(temporary, path);
}

void WriteLink(const std::string& path, const std::string& target) {
  std::error_code error;
  if (std::filesystem::is_symlink(path, error) &&
      std::filesystem::read_symlink(path, error) == target)
    return;
  const std::string temporary = Temporary(path);
  if (symlink(target.c_str(), temporary.c_str()) != 0) Fail("make the link", path, errno);
  Place(temporary, path);
}

void WriteNode(const std::string& path, mode_t mode, dev_t device) {
  const mode_t kind = device != 0 ? S_IFCHR : S_IFSOCK;
  struct stat info = {};
  if (lstat(path.c_str(), &info) == 0 && info.st_mode == (kind | mode) &&
      (device == 0 || info.st_rdev == device))
    return;
  const std::string temporary = Temporary(path);
  if (mknod(temporary.c_str(), kind | mode, device) != 0) {
    const int error_number = errno;
    if (device == 0) Fail("make the socket", path, error_number);
    Fail("make the device node (c " + std::to_string(major(device)) + " " +
             std::to_string(minor(device)) +
             "; needs root with CAP_MKNOD and a file system without nodev, or --no-nodes)",
         path, error_number);
  }
  if (chmod(temporary.c_str(), mode) != 0) Fail("set the mode of", temporary, errno);
  Place(temporary, path);
}

void MakeDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw std::runtime_error("cannot make the directory " + path + ": " + error.message());
}

void RemovePath(const std::string& path, const std::string& root) {
  if (unlink(path.c_str()) != 0 && rmdir(path.c_str()) != 0 && errno != ENOENT &&
      errno != ENOTEMPTY)
    Fail("remove", path, errno);
  std::string above = std::filesystem::path(path).parent_path();
  while (above.size() > root.size() && rmdir(above.c_str()) == 0)
    above = std::filesystem::path(above).parent_path();
}

}  // namespace nvidia_simulator
