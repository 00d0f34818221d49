// In the glibc image: tells what a program in its container can reach, one word or path a line. Without arguments it waits
// until it is told to end.
//   probe open PATH                  opens a device: "opened", or the name of the error
//   probe mknod PATH MAJOR MINOR     makes a character device: "made", or the name of the error
//   probe load NAME                  loads a library as a program that needs it: the path of its file
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static int say(int failed, const char* done) {
  puts(failed ? strerrorname_np(errno) : done);
  return 0;
}

static int load(const char* name) {
  struct link_map* map = NULL;
  char path[PATH_MAX];
  void* library = dlopen(name, RTLD_NOW);
  if (library == NULL || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 ||
      realpath(map->l_name, path) == NULL) {
    fprintf(stderr, "probe: load %s: %s\n", name, library == NULL ? dlerror() : strerror(errno));
    return 1;
  }
  puts(path);
  return 0;
}

static void end(int signal) {
  (void)signal;
  _exit(0);
}

int main(int argc, char** argv) {
  if (argc == 1) {
    signal(SIGTERM, end);  // as the first process of its container it has no default action
    for (;;) pause();
  }
  if (argc == 3 && strcmp(argv[1], "open") == 0)
    return say(open(argv[2], O_RDWR | O_NONBLOCK) < 0, "opened");
  if (argc == 5 && strcmp(argv[1], "mknod") == 0) {
    const dev_t device = makedev(strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10));
    return say(mknod(argv[2], S_IFCHR | 0666, device) != 0, "made");
  }
  if (argc == 3 && strcmp(argv[1], "load") == 0) return load(argv[2]);
  fprintf(stderr, "probe: see its source for what it can be asked\n");
  return 2;
}
