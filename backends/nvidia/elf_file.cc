#include "elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

namespace nvidia {
namespace {

constexpr size_t kMaxProgramHeaders = 256;
constexpr size_t kMaxDynamicEntries = 4096;
constexpr size_t kMaxName = 255;  // NAME_MAX

bool ReadAt(int fd, uint64_t offset, void* into, size_t size) {
  char* to = static_cast<char*>(into);
  if (offset > static_cast<uint64_t>(INT64_MAX) - size) return false;
  while (size > 0) {
    const ssize_t got = pread(fd, to, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
  return true;
}

// The program headers; nullopt if this is no ELF file that we read.
std::optional<std::vector<Elf64_Phdr>> ProgramHeaders(int fd) {
  Elf64_Ehdr header;
  if (!ReadAt(fd, 0, &header, sizeof(header))) return std::nullopt;
  constexpr unsigned char kOwnOrder =
      std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != kOwnOrder ||
      (header.e_type != ET_DYN && header.e_type != ET_EXEC) ||
      header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 ||
      header.e_phnum > kMaxProgramHeaders) {
    return std::nullopt;
  }
  std::vector<Elf64_Phdr> headers(header.e_phnum);
  if (!ReadAt(fd, header.e_phoff, headers.data(), headers.size() * sizeof(Elf64_Phdr)))
    return std::nullopt;
  return headers;
}

// Where in the file the address lies.
std::optional<uint64_t> OffsetOf(const std::vector<Elf64_Phdr>& headers, uint64_t address) {
  for (const Elf64_Phdr& header : headers) {
    if (header.p_type != PT_LOAD || address < header.p_vaddr) continue;
    const uint64_t within = address - header.p_vaddr;
    if (within < header.p_filesz && header.p_offset <= UINT64_MAX - within)
      return header.p_offset + within;
  }
  return std::nullopt;
}

std::optional<std::string> ReadSoname(int fd) {
  const auto headers = ProgramHeaders(fd);
  if (!headers) return std::nullopt;
  for (const Elf64_Phdr& header : *headers) {
    if (header.p_type != PT_DYNAMIC) continue;
    const uint64_t count = header.p_filesz / sizeof(Elf64_Dyn);
    if (count > kMaxDynamicEntries) return std::nullopt;
    std::vector<Elf64_Dyn> entries(count);
    if (!ReadAt(fd, header.p_offset, entries.data(), entries.size() * sizeof(Elf64_Dyn)))
      return std::nullopt;
    std::optional<uint64_t> name, strings, strings_size;
    for (const Elf64_Dyn& entry : entries) {
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_SONAME) name = entry.d_un.d_val;
      if (entry.d_tag == DT_STRTAB) strings = entry.d_un.d_ptr;
      if (entry.d_tag == DT_STRSZ) strings_size = entry.d_un.d_val;
    }
    if (!name || !strings || !strings_size || *name >= *strings_size ||
        *strings > UINT64_MAX - *name) {
      return std::nullopt;
    }
    const auto offset = OffsetOf(*headers, *strings + *name);
    if (!offset) return std::nullopt;
    std::string text(std::min<uint64_t>(*strings_size - *name, kMaxName + 1), '\0');
    if (!ReadAt(fd, *offset, text.data(), text.size())) return std::nullopt;
    const size_t end = text.find('\0');
    if (end == 0 || end == std::string::npos) return std::nullopt;
    return text.substr(0, end);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> SonameOf(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  struct stat status;
  std::optional<std::string> name;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) name = ReadSoname(fd);
  close(fd);
  // It becomes the name of a link: a plain file name.
  if (name && (name->find('/') != std::string::npos || *name == "." || *name == ".."))
    return std::nullopt;
  return name;
}

bool IsStaticProgram(int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  const auto headers = ProgramHeaders(fd);
  if (!headers) return false;
  for (const Elf64_Phdr& header : *headers) {
    if (header.p_type == PT_INTERP) return false;
  }
  return true;
}

}  // namespace nvidia
