#pragma once

#include <elf.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"
#include "options.h"

namespace nvidia {

// The smallest shared library that a loader and ldconfig take for one: a load segment over the whole file, a dynamic
// section and its strings.
inline std::string MakeElf(const std::string& soname) {
  struct File {
    Elf64_Ehdr header;
    Elf64_Phdr load, dynamic;
    Elf64_Dyn entries[7];
  } file = {};
  std::memcpy(file.header.e_ident, ELFMAG, SELFMAG);
  file.header.e_ident[EI_CLASS] = ELFCLASS64;
  file.header.e_ident[EI_DATA] = ELFDATA2LSB;
  file.header.e_ident[EI_VERSION] = EV_CURRENT;
  file.header.e_type = ET_DYN;
#ifdef __aarch64__
  file.header.e_machine = EM_AARCH64;
#else
  file.header.e_machine = EM_X86_64;
#endif
  file.header.e_version = EV_CURRENT;
  file.header.e_phoff = offsetof(File, load);
  file.header.e_ehsize = sizeof(Elf64_Ehdr);
  file.header.e_phentsize = sizeof(Elf64_Phdr);
  file.header.e_phnum = 2;
  const std::string strings = std::string(1, '\0') + soname + '\0';
  const uint64_t size = sizeof(File) + strings.size();
  file.load = {PT_LOAD, PF_R, 0, 0, 0, size, size, 4096};
  file.dynamic = {PT_DYNAMIC,
                  PF_R,
                  offsetof(File, entries),
                  offsetof(File, entries),
                  offsetof(File, entries),
                  sizeof(file.entries),
                  sizeof(file.entries),
                  8};
  const auto set = [&](size_t i, Elf64_Sxword tag, uint64_t value) {
    file.entries[i].d_tag = tag;
    file.entries[i].d_un.d_val = value;
  };
  set(0, DT_SONAME, 1);
  set(1, DT_STRTAB, sizeof(File));
  set(2, DT_STRSZ, strings.size());
  set(3, DT_SYMTAB, 0);
  set(4, DT_SYMENT, sizeof(Elf64_Sym));
  set(5, DT_HASH, 0);
  set(6, DT_NULL, 0);
  return std::string(reinterpret_cast<const char*>(&file), sizeof(file)) + strings;
}

// A host in a directory of its own.
class DriverTree {
 public:
  DriverTree() {
    std::string name = (std::filesystem::temp_directory_path() / "nvtree-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    // Links of the tree are resolved: the path itself has none.
    path_ = std::filesystem::canonical(name).string();
  }
  ~DriverTree() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  DriverTree(const DriverTree&) = delete;
  DriverTree& operator=(const DriverTree&) = delete;

  const std::string& path() const { return path_; }
  std::string Path(const std::string& name) const { return path_ + name; }

  void Directory(const std::string& name) { std::filesystem::create_directories(Path(name)); }
  void File(const std::string& name, const std::string& text = "") {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    std::ofstream(Path(name), std::ios::binary) << text;
  }
  void Library(const std::string& name, const std::string& soname) { File(name, MakeElf(soname)); }
  void Link(const std::string& name, const std::string& target) {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    std::filesystem::create_symlink(target, Path(name));
  }
  void Socket(const std::string& name) {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    ASSERT_EQ(mknod(Path(name).c_str(), S_IFSOCK | 0666, 0), 0);
  }
  // False where this process may not make device nodes.
  bool CharacterDevice(const std::string& name, unsigned major, unsigned minor) {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    return mknod(Path(name).c_str(), S_IFCHR | 0666, makedev(major, minor)) == 0;
  }
  // Whether this process may make device nodes.
  bool CanMakeNodes() {
    const bool can = CharacterDevice("/probe", 195, 0);
    unlink(Path("/probe").c_str());
    return can;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool Exists(const std::string& name) const {
    return std::filesystem::exists(std::filesystem::symlink_status(Path(name)));
  }
  std::string LinkTarget(const std::string& name) const {
    std::error_code error;
    return std::filesystem::read_symlink(Path(name), error).string();
  }

  // For a driver root inside the tree: "/run/nvidia/driver".
  Options ToOptions(const std::string& driver_root = "/") const {
    Options options;
    options.host_root = path_;
    options.driver_root = driver_root;
    return options;
  }

 private:
  std::string path_;
};

}  // namespace nvidia
