// Stands in for the host's ldconfig in hook_test: writes what a program in its place has of the host to /report.
// Linked statically, as that is.
#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

int main(int argc, char** argv, char** environment) {
  std::FILE* report = std::fopen("/report", "w");
  if (report == nullptr) return 1;
  for (int i = 0; i < argc; ++i) std::fprintf(report, "argument %s\n", argv[i]);
  for (char** variable = environment; *variable != nullptr; ++variable)
    std::fprintf(report, "environment %s\n", *variable);
  // The highest of the test; beyond 40 none is known.
  for (int capability = 0; capability < 64; ++capability) {
    if (prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1)
      std::fprintf(report, "capability %d\n", capability);
  }
  std::fprintf(report, "no_new_privs %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
  for (int fd = 3; fd < 256; ++fd) {
    if (fd != fileno(report) && fcntl(fd, F_GETFD) >= 0)
      std::fprintf(report, "descriptor %d\n", fd);
  }
  // One step above the root is the root.
  struct stat root, above;
  const bool closed = stat("/", &root) == 0 && stat("/..", &above) == 0 &&
                      root.st_dev == above.st_dev && root.st_ino == above.st_ino;
  std::fprintf(report, "root %s\n", closed ? "closed" : "open");
  if (DIR* directory = opendir("/")) {
    while (const dirent* entry = readdir(directory)) {
      if (entry->d_name[0] != '.') std::fprintf(report, "file %s\n", entry->d_name);
    }
    closedir(directory);
  }
  return std::fclose(report) == 0 ? 0 : 1;
}
