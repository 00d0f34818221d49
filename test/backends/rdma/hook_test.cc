// The hook's program, as the backend carries it.
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>

#include <cstring>

#include "gmock/gmock.h"
#include "hook_program.h"
#include "pod_fixture.h"

namespace rdma {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class RdmaHookTest : public PodTest {
 protected:
  void SetUp() override {
    PodTest::SetUp();
    if (IsSkipped()) return;
    program_ = directory_ + "/hook";
    bundle_ = directory_ + "/bundle";
    std::filesystem::create_directory(bundle_);
    std::ofstream(program_, std::ios::binary) << HookProgram();
    ASSERT_EQ(chmod(program_.c_str(), 0500), 0);
    // The container's first process, which waits.
    int ready[2];
    ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
    container_ = fork();
    if (container_ == 0) {
      const bool entered = setns(pod_->fd(), CLONE_NEWNET) == 0;
      if (entered && write(ready[1], "x", 1) == 1) {
        for (;;) pause();
      }
      _exit(1);
    }
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    AddNic();
  }
  void TearDown() override {
    if (container_ > 0) {
      kill(container_, SIGKILL);
      waitpid(container_, nullptr, 0);
    }
    PodTest::TearDown();
  }

  Json State(Json annotations) {
    return {{"ociVersion", "1.2.0"}, {"id", "c1"},        {"status", "creating"},
            {"pid", container_},     {"bundle", bundle_}, {"annotations", std::move(annotations)}};
  }
  // Its output, with the exit code in front.
  std::string Run(const std::string& state, const std::string& arguments) {
    std::ofstream(directory_ + "/state") << state;
    FILE* pipe =
        popen((program_ + " " + arguments + " < " + directory_ + "/state 2>&1").c_str(), "r");
    std::string text;
    for (int byte; (byte = fgetc(pipe)) != EOF;) text += static_cast<char>(byte);
    const int status = pclose(pipe);
    return std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : -1) + " " + text;
  }
  std::string Run(const Json& state) { return Run(state.dump(), folder().path()); }

  std::string program_, bundle_;
  pid_t container_ = -1;
};

TEST_F(RdmaHookTest, TakesThePodFromTheRuntimesAnnotations) {
  const struct {
    const char* name;
    Json state, config;
  } cases[] = {
      {"containerd",
       {{"io.kubernetes.cri.sandbox-uid", kPod}, {"io.kubernetes.cri.sandbox-id", "sandbox"}},
       Json::object()},
      {"containerd, only in the bundle",
       nullptr,
       {{"io.kubernetes.cri.sandbox-uid", kPod}, {"io.kubernetes.cri.sandbox-id", "sandbox"}}},
      {"one here, one there",
       {{"io.kubernetes.cri.sandbox-uid", kPod}},
       {{"io.kubernetes.cri.sandbox-uid", "wrong"}, {"io.kubernetes.cri.sandbox-id", "sandbox"}}},
      {"CRI-O",
       {{"io.kubernetes.pod.uid", kPod}, {"io.kubernetes.cri-o.SandboxID", "sandbox"}},
       Json::object()},
      {"CRI-O's labels",
       {{"io.kubernetes.cri-o.Labels", Json{{"io.kubernetes.pod.uid", kPod}}.dump()},
        {"io.kubernetes.cri-o.SandboxID", "sandbox"}},
       Json::object()},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    WritePlan({AttachmentOf("eth3", "net1")});
    std::ofstream(bundle_ + "/config.json") << Json{{"annotations", c.config}};
    EXPECT_EQ(Run(State(c.state)), "0 ");
    EXPECT_FALSE(PodLink("net1").is_null());
    EXPECT_EQ(folder().ReadState().value().sandbox, "sandbox");
    Back();
  }
}

TEST_F(RdmaHookTest, StopsTheContainerWithOneLine) {
  WritePlan({AttachmentOf("eth3", "net1")});
  std::ofstream(bundle_ + "/config.json") << "{}";
  const Json good = {{"io.kubernetes.cri.sandbox-uid", kPod},
                     {"io.kubernetes.cri.sandbox-id", "sandbox"}};
  Json no_pid = State(good), dead = State(good), no_bundle = State(Json::object());
  no_pid.erase("pid");
  dead["pid"] = 1 << 30;
  no_bundle["bundle"] = directory_ + "/none";
  const std::string directory = folder().path();
  const struct {
    std::string state, arguments, text;
  } cases[] = {
      {"{}", "", "usage: dra-rdma-hook CLAIM-DIRECTORY"},
      {"{}", "a b", "usage:"},
      {"{}", "relative", "usage:"},
      {"no JSON", directory, "the container's state on stdin is no JSON object"},
      {no_pid.dump(), directory, "has no pid"},
      {dead.dump(), directory,
       "open network namespace /proc/1073741824/ns/net: No such file or directory"},
      {State(Json::object()).dump(), directory, "does not say of which pod it is"},
      {no_bundle.dump(), directory, "/none/config.json: No such file or directory"},
      {State({{"io.kubernetes.cri.sandbox-uid", "other"}, {"io.kubernetes.cri.sandbox-id", "s"}})
           .dump(),
       directory, "is prepared for pod"},
      {State(good).dump(), directory + "/gone",
       "open claim directory " + directory + "/gone: No such file"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    const std::string output = Run(c.state, c.arguments);
    EXPECT_THAT(output, AllOf(testing::StartsWith("1 dra-rdma-hook: "), HasSubstr(c.text)));
    EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1);
    EXPECT_TRUE(HostHas("eth3"));
  }
}

TEST_F(RdmaHookTest, IsSmallAndNeedsNothingOfTheHost) {
  const std::string program(HookProgram());
  EXPECT_LT(program.size(), size_t{2} << 20);
  ElfW(Ehdr) header;
  ASSERT_GT(program.size(), sizeof(header));
  std::memcpy(&header, program.data(), sizeof(header));
  ASSERT_EQ(std::string(program, 0, SELFMAG), ELFMAG);
  for (int i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) part;
    std::memcpy(&part,
                program.data() + header.e_phoff + static_cast<size_t>(i) * header.e_phentsize,
                sizeof(part));
    EXPECT_NE(part.p_type, static_cast<uint32_t>(PT_INTERP)) << "it needs a loader";
  }
}

}  // namespace
}  // namespace rdma
