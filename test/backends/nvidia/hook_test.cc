// The hook's program, as the backend carries it, on roots in temporary directories.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "driver_tree.h"
#include "edits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nvidia {
namespace {

using dra::Json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kLoader[] = "/rootfs/lib64/ld-linux-x86-64.so.2";
constexpr char kCache[] = "/rootfs/etc/ld.so.cache";

struct Result {
  int code = -1;
  std::string output;
};

void WriteText(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  [[maybe_unused]] const ssize_t ignored = write(fd, text.data(), text.size());
  close(fd);
}

// In a child: a mount namespace, with a user namespace around it where this process is not root. Whether it is allowed.
bool EnterNamespaces() {
  const std::string uid = std::to_string(geteuid()), gid = std::to_string(getegid());
  if (geteuid() == 0 && unshare(CLONE_NEWNS) == 0) return true;
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  WriteText("/proc/self/setgroups", "deny");
  WriteText("/proc/self/uid_map", "0 " + uid + " 1");
  WriteText("/proc/self/gid_map", "0 " + gid + " 1");
  return true;
}

bool NamespacesAllowed() {
  const pid_t child = fork();
  if (child == 0) {
    const bool allowed = EnterNamespaces() && mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) == 0;
    _exit(allowed ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0;
}

class NvidiaHook : public testing::Test {
 protected:
  // tree_ is the bundle, "/rootfs" the container's root; "/outside" is what nothing may reach.
  NvidiaHook() : program_(tree_.Path("/hook")) {
    tree_.File("/hook", std::string(HookProgram()));
    chmod(program_.c_str(), 0755);
    tree_.Directory("/rootfs");
    tree_.Directory("/outside");
    SetRoot("rootfs");
  }

  void SetRoot(const std::string& path) {
    tree_.File("/config.json", Json({{"root", {{"path", path}}}}).dump());
  }
  std::string State() const {
    return Json({{"ociVersion", "1.2.0"},
                 {"id", "x"},
                 {"status", "creating"},
                 {"bundle", tree_.path()}})
        .dump();
  }

  // before: runs in the child, in the namespaces.
  Result Run(const std::vector<std::string>& arguments, const std::string& state,
             const std::function<bool()>& before = nullptr, bool in_namespaces = false) {
    tree_.File("/state", state);
    int fds[2];
    EXPECT_EQ(pipe(fds), 0);
    std::vector<const char*> argv = {"dra-nvidia-hook"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    argv.push_back(nullptr);
    const std::string input = tree_.Path("/state");
    const pid_t child = fork();
    if (child == 0) {
      if (in_namespaces && !EnterNamespaces()) _exit(99);
      if (before && !before()) _exit(98);
      dup2(open(input.c_str(), O_RDONLY), STDIN_FILENO);
      dup2(fds[1], STDOUT_FILENO);
      dup2(fds[1], STDERR_FILENO);
      close(fds[0]);
      close(fds[1]);
      execv(program_.c_str(), const_cast<char* const*>(argv.data()));
      _exit(97);
    }
    close(fds[1]);
    Result result;
    char part[512];
    for (ssize_t got; (got = read(fds[0], part, sizeof(part))) > 0;)
      result.output.append(part, static_cast<size_t>(got));
    close(fds[0]);
    int status = 0;
    waitpid(child, &status, 0);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
  }
  Result Run(const std::vector<std::string>& arguments) { return Run(arguments, State()); }
  Result RunInNamespaces(const std::vector<std::string>& arguments,
                         const std::function<bool()>& before = nullptr) {
    return Run(arguments, State(), before, /*in_namespaces=*/true);
  }

  void ExpectDone(const Result& result) {
    EXPECT_EQ(result.code, 0) << result.output;
    EXPECT_EQ(result.output, "");
  }
  void ExpectRefused(const Result& result, const std::string& text) {
    EXPECT_EQ(result.code, 1) << result.output;
    EXPECT_THAT(result.output, AllOf(testing::StartsWith("dra-nvidia-hook: "), HasSubstr(text)));
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1);
  }
  bool OutsideIsEmpty() const { return std::filesystem::is_empty(tree_.Path("/outside")); }

  DriverTree tree_;
  const std::string program_;
};

// ----------------------------------------------------------------------------------------- links

TEST_F(NvidiaHook, MakesLinksAndTheirDirectories) {
  ExpectDone(Run({"--link", "/usr/lib64/libcuda.so.1", "libcuda.so.580", "--link",
                  "/usr/lib64/libcuda.so", "libcuda.so.1"}));
  EXPECT_EQ(tree_.LinkTarget("/rootfs/usr/lib64/libcuda.so.1"), "libcuda.so.580");
  EXPECT_EQ(tree_.LinkTarget("/rootfs/usr/lib64/libcuda.so"), "libcuda.so.1");
  struct stat status;
  ASSERT_EQ(stat(tree_.Path("/rootfs/usr/lib64").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0755u);
}

TEST_F(NvidiaHook, RunsAgainWithoutTouchingWhatIsRight) {
  const std::vector<std::string> arguments = {"--link", "/usr/lib64/libcuda.so.1",
                                              "libcuda.so.580"};
  ExpectDone(Run(arguments));
  struct stat first, second;
  ASSERT_EQ(lstat(tree_.Path("/rootfs/usr/lib64/libcuda.so.1").c_str(), &first), 0);
  ExpectDone(Run(arguments));
  ASSERT_EQ(lstat(tree_.Path("/rootfs/usr/lib64/libcuda.so.1").c_str(), &second), 0);
  EXPECT_EQ(first.st_ino, second.st_ino);
}

TEST_F(NvidiaHook, PutsItsLinkInPlaceOfTheImagesCopy) {
  tree_.Link("/rootfs/usr/lib64/libcuda.so.1", "libcuda.so.450");
  tree_.File("/rootfs/usr/lib64/libnvidia-ml.so.1", "the image's own");
  ExpectDone(Run({"--link", "/usr/lib64/libcuda.so.1", "libcuda.so.580", "--link",
                  "/usr/lib64/libnvidia-ml.so.1", "libnvidia-ml.so.580"}));
  EXPECT_EQ(tree_.LinkTarget("/rootfs/usr/lib64/libcuda.so.1"), "libcuda.so.580");
  EXPECT_EQ(tree_.LinkTarget("/rootfs/usr/lib64/libnvidia-ml.so.1"), "libnvidia-ml.so.580");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(tree_.Path("/rootfs/usr/lib64")),
                          std::filesystem::directory_iterator()),
            2);  // no temporary name stays
}

TEST_F(NvidiaHook, LinksOfTheImageDoNotLeadOut) {
  // To a directory that is there on the host, and by more ".." than there are directories.
  tree_.Link("/rootfs/absolute", tree_.Path("/outside"));
  tree_.Link("/rootfs/a/relative", "../../../../../../../../../.." + tree_.Path("/outside"));
  tree_.Link("/rootfs/chain", "absolute");
  const std::vector<std::string> paths = {"/absolute/x", "/a/relative/x", "/chain/x",
                                          "/../../../../../.." + tree_.Path("/outside/y"),
                                          "/../outside/z"};
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    ExpectDone(Run({"--link", path, "target"}));
    EXPECT_TRUE(OutsideIsEmpty());
  }
  // They mean paths below the root.
  EXPECT_EQ(tree_.LinkTarget("/rootfs" + tree_.Path("/outside/x")), "target");
  EXPECT_EQ(tree_.LinkTarget("/rootfs" + tree_.Path("/outside/y")), "target");
  EXPECT_EQ(tree_.LinkTarget("/rootfs/outside/z"), "target");
}

TEST_F(NvidiaHook, LinksOfProcDoNotLeadOut) {
  if (!NamespacesAllowed()) GTEST_SKIP() << "no mount namespaces for this process";
  // As in a container: proc is mounted, and its links go where their text does not say.
  tree_.Directory("/rootfs/proc");
  tree_.Link("/rootfs/magic", "/proc/self/root" + tree_.Path("/outside"));
  ExpectDone(RunInNamespaces({"--link", "/magic/x", "t"}, [&] {
    return mount("/proc", tree_.Path("/rootfs/proc").c_str(), "", MS_BIND | MS_REC, nullptr) == 0;
  }));
  EXPECT_TRUE(OutsideIsEmpty());
  EXPECT_EQ(tree_.LinkTarget("/rootfs" + tree_.Path("/outside/x")), "t");
}

TEST_F(NvidiaHook, ALinkAtTheEndIsReplacedAndNotFollowed) {
  tree_.File("/outside/victim", "untouched");
  tree_.Link("/rootfs/lib/libcuda.so.1", tree_.Path("/outside/victim"));
  ExpectDone(Run({"--link", "/lib/libcuda.so.1", "libcuda.so.580"}));
  EXPECT_EQ(tree_.LinkTarget("/rootfs/lib/libcuda.so.1"), "libcuda.so.580");
  EXPECT_EQ(tree_.Read("/outside/victim"), "untouched");
}

TEST_F(NvidiaHook, RefusesPathsThatCannotBeMade) {
  tree_.Link("/rootfs/circle", "circle");
  ExpectRefused(Run({"--link", "/circle/x", "t"}),
                "/circle in the container goes through more than 40 links");
  tree_.File("/rootfs/file");
  ExpectRefused(Run({"--link", "/file/x", "t"}), "file of /file in the container is no directory");
  tree_.Directory("/rootfs/directory");
  ExpectRefused(Run({"--link", "/directory", "t"}),
                "put link /directory to t in place of what the container");
  EXPECT_FALSE(tree_.Exists("/rootfs/.dra-"));
  for (const char* path : {"x", "/x/", "/x/..", "/", ""})
    ExpectRefused(Run({"--link", path, "t"}), "is no absolute path of a file");
  ExpectRefused(Run({"--link", "/x", ""}), "link /x has no target");
}

TEST_F(NvidiaHook, LeavesWhatThePodHasMountedAlone) {
  if (!NamespacesAllowed()) GTEST_SKIP() << "no mount namespaces for this process";
  tree_.File("/rootfs/lib/libcuda.so.1", "image");
  tree_.File("/own", "the pod's own");
  ExpectDone(RunInNamespaces({"--link", "/lib/libcuda.so.1", "libcuda.so.580"}, [&] {
    return mount(tree_.Path("/own").c_str(), tree_.Path("/rootfs/lib/libcuda.so.1").c_str(), "",
                 MS_BIND, nullptr) == 0;
  }));
  EXPECT_EQ(tree_.Read("/rootfs/lib/libcuda.so.1"), "image");
}

// ------------------------------------------------------------------------------------------ state

TEST_F(NvidiaHook, TakesTheRootFromTheBundle) {
  tree_.Directory("/elsewhere");
  SetRoot(tree_.Path("/elsewhere"));
  ExpectDone(Run({"--link", "/x", "t"}));
  EXPECT_EQ(tree_.LinkTarget("/elsewhere/x"), "t");
}

TEST_F(NvidiaHook, RefusesAStateOrBundleThatSaysNothing) {
  ExpectRefused(Run({}, ""), "the container's state is no JSON object");
  ExpectRefused(Run({}, "[]"), "the container's state is no JSON object");
  ExpectRefused(Run({}, "{}"), "the container's state has no bundle");
  ExpectRefused(Run({}, R"({"bundle": 1})"), "the container's state has no bundle");
  ExpectRefused(Run({}, R"({"bundle": "/nowhere"})"), "read /nowhere/config.json: No such file");
  tree_.File("/config.json", "{");
  ExpectRefused(Run({}), "config.json is no JSON object");
  tree_.File("/config.json", "{}");
  ExpectRefused(Run({}), "config.json has no root");
  tree_.File("/config.json", R"({"root": {}})");
  ExpectRefused(Run({}), "config.json: root has no path");
  SetRoot("absent");
  ExpectRefused(Run({}), "open the container's root " + tree_.Path("/absent") + ": No such file");
}

TEST_F(NvidiaHook, NeverTakesItsOwnRootForAContainers) {
  SetRoot("/");
  ExpectRefused(Run({"--link", tree_.Path("/outside/x"), "t"}), "/ is this process's own root");
  EXPECT_TRUE(OutsideIsEmpty());
}

TEST_F(NvidiaHook, RefusesArgumentsItDoesNotKnow) {
  ExpectRefused(Run({"--lnk"}), "unknown argument \"--lnk\"");
  ExpectRefused(Run({"--link", "/x"}), "--link lacks a value");
  ExpectRefused(Run({"--library-directory", "-r"}),
                "--library-directory \"-r\" is no absolute path");
}

// ------------------------------------------------------------------------------------ device nodes

TEST_F(NvidiaHook, KeepsNvidiasLibrariesFromMakingDeviceNodes) {
  if (!NamespacesAllowed()) GTEST_SKIP() << "no mount namespaces for this process";
  const std::string params = "/rootfs/proc/driver/nvidia/params";
  const std::string before = "EnableMSI: 1\nModifyDeviceFiles: 1\nDeviceFileMode: 438\n";
  tree_.File(params, before);
  tree_.File("/rootfs/proc/driver/nvidia/version", "580");
  for (const int runs : {1, 2}) {
    SCOPED_TRACE(runs);
    // What the container would see, and its mounts.
    ExpectDone(RunInNamespaces({}, [&] {
      for (int i = 0; i < runs; ++i) {
        const pid_t child = fork();
        if (child == 0) return true;
        int status = 0;
        waitpid(child, &status, 0);
        if (status != 0) _exit(WEXITSTATUS(status));
      }
      tree_.File("/seen", tree_.Read(params) + tree_.Read("/rootfs/proc/driver/nvidia/version"));
      std::ifstream from("/proc/self/mountinfo");
      std::ofstream(tree_.Path("/mounts")) << from.rdbuf();
      const bool writable = access(tree_.Path(params).c_str(), W_OK) == 0;
      _exit(writable ? 96 : 0);
    }));
    EXPECT_EQ(tree_.Read("/seen"), "EnableMSI: 1\nModifyDeviceFiles: 0\nDeviceFileMode: 438\n580");
    const std::string mounts = tree_.Read("/mounts");
    const size_t first = mounts.find("/rootfs/proc/driver/nvidia");
    ASSERT_NE(first, std::string::npos);
    EXPECT_EQ(mounts.find("/rootfs/proc/driver/nvidia", first + 1), std::string::npos) << mounts;
  }
  EXPECT_EQ(tree_.Read(params), before);  // the host's stays
}

TEST_F(NvidiaHook, NeedsNoMountWhereNoDeviceNodesAreMade) {
  ExpectDone(Run({}));
  tree_.Directory("/rootfs/proc/driver/nvidia");
  ExpectDone(Run({}));
  // A process without rights to mount would be told.
  tree_.File("/rootfs/proc/driver/nvidia/params", "ModifyDeviceFiles: 0\n");
  ExpectDone(Run({}));
  tree_.File("/rootfs/proc/driver/nvidia/params", "DoModifyDeviceFiles: 1\n");
  ExpectDone(Run({}));
}

// ------------------------------------------------------------------------------------------ cache

TEST_F(NvidiaHook, LeavesAContainerWithoutGlibcsLoaderAlone) {
  tree_.File("/rootfs/lib/ld-musl-x86_64.so.1");
  tree_.Directory("/rootfs/etc/ld.so.conf.d");
  ExpectDone(Run({"--library-directory", "/usr/lib64"}));
  EXPECT_FALSE(tree_.Exists(kCache));
  EXPECT_TRUE(std::filesystem::is_empty(tree_.Path("/rootfs/etc/ld.so.conf.d")));
}

TEST_F(NvidiaHook, NeedsNoCacheWhereTheLoaderSearchesAnyway) {
  tree_.File(kLoader);
  tree_.File("/rootfs/usr/lib64/libc.so.6");
  ExpectDone(Run({"--library-directory", "/usr/lib64"}));
  ExpectDone(Run({"--library-directory", "/lib64"}));
  ExpectRefused(Run({"--library-directory", "/usr/lib64", "--library-directory", "/opt/driver"}),
                "does not find the driver's libraries in /opt/driver: its cache /etc/ld.so.cache "
                "could not be made (the host has no ldconfig)");
}

TEST_F(NvidiaHook, RunsNoProgramThatTheImageCouldHaveAHandIn) {
  tree_.File(kLoader);
  // A program with a loader would be run by the image's loader; a script by the image's shell.
  std::string dynamic = MakeElf("x");
  Elf64_Phdr interpreter = {};
  interpreter.p_type = PT_INTERP;
  std::memcpy(dynamic.data() + sizeof(Elf64_Ehdr), &interpreter, sizeof(interpreter));
  tree_.File("/dynamic", dynamic);
  tree_.File("/script", "#!/bin/sh\ntouch /ran\n");
  tree_.File("/rootfs/sbin/ldconfig", "#!/bin/sh\ntouch /ran\n");
  for (const char* name : {"/dynamic", "/script"}) {
    chmod(tree_.Path(name).c_str(), 0755);
    ExpectRefused(Run({"--ldconfig", tree_.Path(name), "--library-directory", "/opt/driver"}),
                  tree_.Path(name) + " of the host is no statically linked program");
  }
  ExpectRefused(Run({"--ldconfig", "/nowhere", "--library-directory", "/opt/driver"}),
                "open /nowhere of the host: No such file");
  EXPECT_FALSE(tree_.Exists("/rootfs/ran"));
}

// With the ldconfig of the machine the test runs on.
class NvidiaHookCache : public NvidiaHook {
 protected:
  void SetUp() override {
    const auto ldconfig = HostFiles(Options()).Ldconfig();
    if (!ldconfig) GTEST_SKIP() << "this machine has no statically linked ldconfig";
    if (!NamespacesAllowed()) GTEST_SKIP() << "no mount namespaces for this process";
    ldconfig_ = *ldconfig;
    tree_.File(kLoader);
    tree_.Library("/rootfs/opt/driver/libcuda.so.580", "libcuda.so.1");
  }

  // What a loader of the container would find.
  std::string Cached() {
    const std::string command = ldconfig_ + " -p -C " + tree_.Path(kCache) + " 2>&1";
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    std::string text;
    for (char part[512]; fgets(part, sizeof(part), pipe.get()) != nullptr;) text += part;
    return text;
  }
  std::vector<std::string> Arguments() const {
    return {"--ldconfig",    ldconfig_, "--library-directory",
            "/opt/driver",   "--link",  "/opt/driver/libcuda.so.1",
            "libcuda.so.580"};
  }

  std::string ldconfig_;
};

TEST_F(NvidiaHookCache, IsMadeByTheHostsLdconfig) {
  tree_.Directory("/rootfs/etc");
  ExpectDone(RunInNamespaces(Arguments()));
  EXPECT_THAT(Cached(),
              AllOf(HasSubstr("libcuda.so.1 ("), HasSubstr("=> /opt/driver/libcuda.so.1\n")));
  ExpectDone(RunInNamespaces(Arguments()));
  EXPECT_THAT(Cached(), HasSubstr("=> /opt/driver/libcuda.so.1\n"));
}

TEST_F(NvidiaHookCache, KeepsTheImagesLibrariesAndPutsTheDriversFirst) {
  tree_.File("/rootfs/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n");
  tree_.File("/rootfs/etc/ld.so.conf.d/image.conf", "/opt/image\n");
  tree_.Library("/rootfs/opt/image/libimage.so.2", "libimage.so.2");
  tree_.Library("/rootfs/opt/image/libcuda.so.1", "libcuda.so.1");
  ExpectDone(RunInNamespaces(Arguments()));
  const std::string cached = Cached();
  EXPECT_THAT(cached, HasSubstr("=> /opt/image/libimage.so.2\n"));
  EXPECT_LT(cached.find("=> /opt/driver/libcuda.so.1\n"),
            cached.find("=> /opt/image/libcuda.so.1\n"));
  // For an ldconfig that the container runs later.
  EXPECT_EQ(tree_.Read("/rootfs/etc/ld.so.conf.d/00-dra-nvidia.conf"), "/opt/driver\n");
}

TEST_F(NvidiaHookCache, IsNotMadeOutsideOfTheContainer) {
  tree_.Link("/rootfs/etc", tree_.Path("/outside"));
  tree_.Link("/rootfs/opt/driver/libx.so.1", tree_.Path("/outside/libx.so.1"));
  tree_.Library("/outside/libx.so.1", "libx.so.1");
  // Below the root there is no such directory to write to.
  ExpectRefused(RunInNamespaces(Arguments()), "ldconfig of the host: exit code 1: ");
  EXPECT_FALSE(tree_.Exists("/outside/ld.so.cache"));
  // Where it is, the cache goes there, and the host's library is not in it.
  tree_.Directory("/rootfs" + tree_.Path("/outside"));
  ExpectDone(RunInNamespaces(Arguments()));
  EXPECT_FALSE(tree_.Exists("/outside/ld.so.cache"));
  EXPECT_TRUE(tree_.Exists("/rootfs" + tree_.Path("/outside/ld.so.cache")));
}

TEST_F(NvidiaHookCache, LeavesNoMountBehind) {
  tree_.Directory("/rootfs/etc");
  Result mounts;
  const std::string list = tree_.Path("/mounts");
  ExpectDone(RunInNamespaces(Arguments(), [&] {
    // Mounts of namespaces that this one shares with come here, as a host's do.
    if (mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("", "/", "", MS_REC | MS_SHARED, nullptr) != 0) {
      return false;
    }
    // A grandchild of the test runs the hook; this process then looks at its own namespace.
    const pid_t child = fork();
    if (child == 0) return true;
    int status = 0;
    waitpid(child, &status, 0);
    std::ifstream from("/proc/self/mountinfo");
    std::ofstream(list) << from.rdbuf();
    _exit(WEXITSTATUS(status));
  }));
  EXPECT_THAT(tree_.Read("/mounts"), AllOf(Not(testing::IsEmpty()), Not(HasSubstr("/rootfs"))));
}

TEST_F(NvidiaHookCache, OnAReadOnlyEtcIsRefusedUnlessTheLoaderSearchesAnyway) {
  tree_.Directory("/rootfs/etc");
  const auto read_only_etc = [&] {
    const std::string etc = tree_.Path("/rootfs/etc");
    return mount(etc.c_str(), etc.c_str(), "", MS_BIND, nullptr) == 0 &&
           mount("", etc.c_str(), "", MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  };
  ExpectRefused(RunInNamespaces(Arguments(), read_only_etc),
                "the container's loader does not find the driver's libraries in /opt/driver");
  ExpectRefused(RunInNamespaces(Arguments(), read_only_etc), "make /etc of the container writable");
  tree_.File("/rootfs/opt/driver/libc.so.6");
  ExpectDone(RunInNamespaces(Arguments(), read_only_etc));
  EXPECT_FALSE(tree_.Exists(kCache));
}

TEST_F(NvidiaHookCache, WhatLdconfigSaysReachesTheUser) {
  // The hook itself is a static program too, and one that does not know ldconfig's arguments.
  ExpectRefused(RunInNamespaces({"--ldconfig", program_, "--library-directory", "/opt/driver"}),
                "(ldconfig of the host: exit code 1: dra-nvidia-hook: unknown argument \"-i\")");
}

TEST_F(NvidiaHookCache, ProgramIsLockedUpInTheContainersRoot) {
  std::filesystem::copy(NVIDIA_HOOK_PROBE, tree_.Path("/probe"));
  tree_.Directory("/rootfs/etc");
  setenv("SECRET", "of the host", 1);
  ExpectDone(RunInNamespaces(
      {"--ldconfig", tree_.Path("/probe"), "--library-directory", "/opt/driver"}, [] {
        return open("/", O_PATH) >= 0;  // what a runtime might leave open
      }));
  unsetenv("SECRET");
  std::vector<std::string> lines;
  std::ifstream report(tree_.Path("/rootfs/report"));
  for (std::string line; std::getline(report, line);) lines.push_back(line);
  EXPECT_THAT(lines, testing::UnorderedElementsAre(
                         "argument ldconfig", "argument -i", "argument -X", "argument -C",
                         "argument /etc/ld.so.cache", "argument /opt/driver",
                         // CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER
                         "capability 0", "capability 1", "capability 3", "no_new_privs 1",
                         "root closed", "file etc", "file lib64", "file opt", "file report"));
}

}  // namespace
}  // namespace nvidia
