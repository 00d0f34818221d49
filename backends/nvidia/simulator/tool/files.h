#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace nvidia_simulator {

// All throw std::runtime_error with path and cause. Directories above are made.

std::optional<std::string> ReadFile(const std::string& path);  // nullopt if it is not there
// Replaces the file by rename; leaves it alone if it has this text and mode already.
void WriteFile(const std::string& path, const std::string& text, mode_t mode);
void WriteLink(const std::string& path, const std::string& target);
// A character device (device != 0) or a socket, with this mode whatever the umask is.
void WriteNode(const std::string& path, mode_t mode, dev_t device);
void MakeDirectory(const std::string& path);
// Nothing if it is not there; then the directories above it that are empty, up to `root`.
void RemovePath(const std::string& path, const std::string& root);

}  // namespace nvidia_simulator
