#include "loader_cache.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>
#include <optional>

#include "../elf_file.h"
#include "error.h"

namespace nvidia_hook {
namespace {

constexpr char kCache[] = "/etc/ld.so.cache";
// First of its directory, as the driver's libraries outrank copies in the image.
constexpr char kConf[] = "/etc/ld.so.conf.d/00-dra-nvidia.conf";
constexpr size_t kMaxOutput = 1024;

bool UsesLoaderCache(const RootDir& root) {
  for (const char* path : {kCache, "/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"}) {
    if (root.Exists(path)) return true;
  }
  return false;
}

// The loader searches by itself where the C library lies. /usr/lib/x and /lib/x count as one.
bool IsDefault(const RootDir& root, const std::string& directory) {
  const std::string other =
      directory.rfind("/usr/", 0) == 0 ? directory.substr(4) : "/usr" + directory;
  return root.Exists(directory + "/libc.so.6") || root.Exists(other + "/libc.so.6");
}

// In the child: "/" becomes the container's root, in a mount namespace of its own; nothing of the host is left to open.
// What is left of root's rights is what it takes to write a file that is somebody else's. The step that failed, or
// nullptr.
const char* LockUp(const char* root) {
  if (unshare(CLONE_NEWNS) != 0) return "unshare";
  if (mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) != 0) return "make mounts private";
  if (mount(root, root, "", MS_BIND | MS_REC, nullptr) != 0) return "bind the root";
  const int old_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (old_root < 0) return "open /";
  if (chdir(root) != 0) return "enter the root";
  if (syscall(SYS_pivot_root, ".", ".") != 0) return "pivot_root";
  if (fchdir(old_root) != 0 || umount2(".", MNT_DETACH) != 0) return "detach the host's root";
  if (chdir("/") != 0) return "enter the new root";
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return "set no_new_privs";
  for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0;
       ++capability) {
    if (capability == CAP_DAC_OVERRIDE || capability == CAP_FOWNER || capability == CAP_CHOWN)
      continue;
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) return "drop capabilities";
  }
  return nullptr;
}

[[noreturn]] void RunChild(int program, const char* root, int output,
                           const std::vector<const char*>& argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  const char* failed = LockUp(root);
  if (failed == nullptr) {
    dup2(null, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
#ifdef SYS_close_range
    // What the runtime left open: only the three above outlive the exec. Before Linux 5.11 that is the runtime's care.
    syscall(SYS_close_range, 3U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
#endif
    const char* environment[] = {nullptr};
    syscall(SYS_execveat, program, "", argv.data(), environment, AT_EMPTY_PATH);
    failed = "execute";
  }
  const std::string text = std::string(failed) + ": " + std::strerror(errno);
  [[maybe_unused]] const ssize_t ignored = write(output, text.data(), text.size());
  _exit(127);
}

// What the program says, as one line of at most kMaxOutput bytes; reads to its end.
std::string ReadOutput(int fd) {
  std::string text;
  char part[512];
  for (ssize_t got; (got = read(fd, part, sizeof(part))) > 0 || (got < 0 && errno == EINTR);) {
    for (ssize_t i = 0; i < got && text.size() < kMaxOutput; ++i)
      text += part[i] == '\n' ? ' ' : part[i];
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

// Why the cache was not made; nullopt: it was.
std::optional<std::string> RunLdconfig(const RootDir& root, const std::string& ldconfig,
                                       const std::vector<std::string>& directories) {
  if (ldconfig.empty()) return "the host has no ldconfig";
  const Fd program(open(ldconfig.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!program) return "open " + ldconfig + " of the host: " + std::strerror(errno);
  // One with a loader would be run by the loader of the image.
  if (!nvidia::IsStaticProgram(program.get()))
    return ldconfig + " of the host is no statically linked program";
  // Links are made already (-X); an auxiliary cache would be the image's (-i).
  std::vector<const char*> argv = {"ldconfig", "-i", "-X", "-C", kCache};
  for (const std::string& directory : directories) argv.push_back(directory.c_str());
  argv.push_back(nullptr);
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) Fail("make a pipe");
  const Fd output(pipe_fds[0]);
  Fd input(pipe_fds[1]);
  const pid_t child = fork();
  if (child < 0) Fail("fork");
  if (child == 0) RunChild(program.get(), root.path().c_str(), input.get(), argv);
  input = Fd();
  const std::string text = ReadOutput(output.get());
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) Fail("wait for ldconfig");
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::nullopt;
  return "ldconfig of the host: " +
         (WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status))
                              : "exit code " + std::to_string(WEXITSTATUS(status))) +
         (text.empty() ? "" : ": " + text);
}

}  // namespace

void UpdateLoaderCache(const RootDir& root, const std::string& ldconfig,
                       const std::vector<std::string>& directories) {
  if (directories.empty() || !UsesLoaderCache(root)) return;
  // For an ldconfig that the container runs later. Where it cannot be written, the cache below is all there is.
  std::string conf;
  for (const std::string& directory : directories) conf += directory + "\n";
  root.PutFile(kConf, conf);
  const std::optional<std::string> problem = RunLdconfig(root, ldconfig, directories);
  if (!problem) return;
  for (const std::string& directory : directories) {
    if (IsDefault(root, directory)) continue;
    throw Error("the container's loader does not find the driver's libraries in " + directory +
                ": its cache " + kCache + " could not be made (" + *problem +
                "): make /etc of the container writable, give the host an ldconfig, or use an "
                "image whose loader searches that directory");
  }
}

}  // namespace nvidia_hook
