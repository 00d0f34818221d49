#include "loader/library_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "dra/base/status.h"
#include "dra/base/unique_fd.h"

namespace dra::loader {
namespace {

std::string MachineName(uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "arm64";
    case EM_386:
      return "i386";
    case EM_ARM:
      return "arm";
    case EM_PPC64:
      return "ppc64";
    case EM_S390:
      return "s390x";
    case EM_RISCV:
      return "riscv64";
    default:
      return absl::StrCat("ELF machine ", machine);
  }
}

// This very program's ELF header says what fits.
constexpr uint16_t kThisMachine =
#if defined(__x86_64__)
    EM_X86_64;
#elif defined(__aarch64__)
    EM_AARCH64;
#elif defined(__riscv)
    EM_RISCV;
#elif defined(__powerpc64__)
    EM_PPC64;
#elif defined(__s390x__)
    EM_S390;
#else
#error "add this machine's ELF number"
#endif
constexpr unsigned char kThisClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
constexpr unsigned char kThisOrder =
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;

absl::Status CheckElf(int fd, const std::string& path) {
  // e_ident, e_type and e_machine have the same place in 32- and 64-bit files.
  Elf64_Ehdr header = {};
  const ssize_t size = ::pread(fd, &header, sizeof(header), 0);
  if (size < 0) return ErrnoStatus(errno, absl::StrCat("read backend ", path));
  if (size < static_cast<ssize_t>(sizeof(Elf32_Ehdr)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "backend ", path,
        ": not a shared library (no ELF header): give the path of the .so file that was built"));
  }
  if (header.e_ident[EI_DATA] != kThisOrder || header.e_machine != kThisMachine ||
      header.e_ident[EI_CLASS] != kThisClass) {
    const std::string found =
        header.e_ident[EI_DATA] != kThisOrder
            ? std::string("another byte order")
            : absl::StrCat(MachineName(header.e_machine),
                           header.e_ident[EI_CLASS] == ELFCLASS64 ? "" : " (32 bit)");
    return absl::FailedPreconditionError(absl::StrCat("backend ", path, ": built for ", found,
                                                      ", this node is ", MachineName(kThisMachine),
                                                      ": use the build for this architecture"));
  }
  if (header.e_type != ET_DYN) {
    return absl::FailedPreconditionError(
        absl::StrCat("backend ", path, ": an ELF file but no shared library (type ", header.e_type,
                     "): build it with dra_add_backend()"));
  }
  return absl::OkStatus();
}

// Whoever may replace the file or a directory on the way decides what this process runs. The real path counts, and of
// each directory: writable by all is in order only with the sticky bit, where only the owner may rename.
absl::Status CheckNotReplaceable(const std::string& path, const struct stat& file) {
  if ((file.st_mode & S_IWOTH) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("backend ", path, ": everybody may write this file: chmod o-w ", path));
  }
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  if (real == nullptr) return ErrnoStatus(errno, absl::StrCat("resolve backend ", path));
  std::string directory = real.get();
  while (directory.size() > 1) {
    const size_t slash = directory.rfind('/');
    directory.resize(slash == 0 ? 1 : slash);
    struct stat info = {};
    if (::stat(directory.c_str(), &info) != 0) {
      return ErrnoStatus(errno,
                         absl::StrCat("look at directory ", directory, " of backend ", path));
    }
    if ((info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0) {
      return absl::PermissionDeniedError(absl::StrCat("backend ", path,
                                                      ": everybody may replace files in ",
                                                      directory, ": chmod o-w ", directory));
    }
  }
  return absl::OkStatus();
}

FileIdentity ToIdentity(const struct stat& info) {
  return {info.st_dev, info.st_ino, info.st_size,
          static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec};
}

}  // namespace

absl::StatusOr<FileIdentity> ReadFileIdentity(absl::string_view path) {
  struct stat info = {};
  if (::stat(std::string(path).c_str(), &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("look at ", path));
  }
  return ToIdentity(info);
}

absl::StatusOr<FileIdentity> InspectLibraryFile(absl::string_view path_view) {
  const std::string path(path_view);
  // A path without a slash would be searched by the linker, and a relative one depends on where the daemon was started.
  if (path.empty() || path.front() != '/') {
    return absl::InvalidArgumentError(
        absl::StrCat("backend \"", path, "\": the path must be absolute: write it from / on"));
  }
  // Not blocking: a named pipe in its place must not stop the start.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) {
      return absl::NotFoundError(absl::StrCat(
          "backend ", path, ": no such file: check the path and that the image or mount has it"));
    }
    return ErrnoStatus(error, absl::StrCat("open backend ", path));
  }
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0)
    return ErrnoStatus(errno, absl::StrCat("look at backend ", path));
  if (S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("backend ", path, ": is a directory: give the path of the .so file in it"));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("backend ", path, ": is no regular file: give the path of a .so file"));
  }
  DRA_RETURN_IF_ERROR(CheckElf(fd.get(), path));
  DRA_RETURN_IF_ERROR(CheckNotReplaceable(path, info));
  return ToIdentity(info);
}

}  // namespace dra::loader
