#include "dra/base/trusted_directory.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "dra/base/status.h"

namespace dra {
namespace {

constexpr uint32_t kGroupWrites = 0020;
constexpr uint32_t kOthersWrite = 0002;
constexpr uint32_t kSticky = 01000;

}  // namespace

absl::Status CheckTrustedDirectory(FileSystem& fs, absl::string_view path, DirectoryUse use) {
  DRA_ASSIGN_OR_RETURN(const FileInfo info, fs.Stat(path, /*follow=*/use == DirectoryUse::kAbove));
  const auto refuse = [&](const std::string& problem, const std::string& cure) {
    return absl::FailedPreconditionError(absl::StrCat("directory ", path, " (owner ", info.uid,
                                                      ", mode ", absl::StrFormat("%04o", info.mode),
                                                      ") ", problem, "; ", cure));
  };
  if (info.type == FileType::kSymlink) {
    return refuse("is a symbolic link, which is not followed",
                  "put a directory there, or configure the path that it leads to");
  }
  if (info.type != FileType::kDirectory) return refuse("is not a directory", "remove it");
  const uint32_t self = ::geteuid();
  if (info.uid != 0 && info.uid != self) {
    return refuse("belongs to another user, who can change what is in it",
                  absl::StrCat("chown it to ", self == 0 ? "0" : absl::StrCat("0 or ", self)));
  }
  const bool guarded = use != DirectoryUse::kOurs && (info.mode & kSticky) != 0;
  if ((info.mode & (kGroupWrites | kOthersWrite)) != 0 && !guarded) {
    return refuse(absl::StrCat("can be written by ",
                               (info.mode & kOthersWrite) != 0 ? "everybody" : "its group"),
                  "chmod go-w it");
  }
  return absl::OkStatus();
}

}  // namespace dra
