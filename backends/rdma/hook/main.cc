// The createRuntime hook of the RDMA backend: brings a claim's network devices into the pod's network namespace. The
// runtime runs it on the host, in the host's namespaces, once the container's are there and before its program starts;
// the container's state comes on stdin.
// Source: opencontainers/runtime-spec: runtime.md, config.md (POSIX-platform hooks).
//
//   dra-rdma-hook CLAIM-DIRECTORY
//
// May run again for the same container, for others of the pod, and for a new sandbox of it. Exit code 1 with one line
// on stderr, which the runtime shows in the pod's events, if the container must not start.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "attach.h"
#include "claim_folder.h"
#include "namespace.h"
#include "nlohmann/json.hpp"

namespace rdma {
namespace {

constexpr size_t kMaxState = 16 << 20;  // annotations are in it

// Annotations that container runtimes give a pod's containers.
// Source: containerd/containerd: internal/cri/annotations; cri-o/cri-o: pkg/annotations, kubernetes: labels of the
// kubelet.
constexpr const char* kPodUid[] = {"io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"};
constexpr const char* kSandbox[] = {"io.kubernetes.cri.sandbox-id",
                                    "io.kubernetes.cri-o.SandboxID"};
// CRI-O's labels are a JSON object as text.
constexpr char kLabels[] = "io.kubernetes.cri-o.Labels";

std::string ReadAll(int fd, const std::string& what) {
  std::string text;
  char part[16384];
  for (ssize_t got; (got = read(fd, part, sizeof(part))) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw std::runtime_error("read " + what + ": " + std::strerror(errno));
    text.append(part, static_cast<size_t>(got));
    if (text.size() > kMaxState) throw std::runtime_error(what + " is over 16 MiB");
  }
  return text;
}

Json Parse(const std::string& text, const std::string& what) {
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) throw std::runtime_error(what + " is no JSON object");
  return value;
}

// The text of a member; "" if there is none.
std::string Text(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end() || !found->is_string()) return "";
  return found->get<std::string>();
}

template <size_t size>
std::string FirstOf(const Json& annotations, const char* const (&keys)[size]) {
  for (const char* key : keys) {
    const std::string value = Text(annotations, key);
    if (!value.empty()) return value;
  }
  return "";
}

void Fill(PodSandbox& sandbox, const Json& object) {
  const auto annotations = object.find("annotations");
  if (annotations == object.end()) return;
  if (sandbox.pod_uid.empty()) sandbox.pod_uid = FirstOf(*annotations, kPodUid);
  if (sandbox.pod_uid.empty()) {
    const Json labels =
        Json::parse(Text(*annotations, kLabels), nullptr, /*allow_exceptions=*/false);
    sandbox.pod_uid = FirstOf(labels, kPodUid);
  }
  if (sandbox.sandbox_id.empty()) sandbox.sandbox_id = FirstOf(*annotations, kSandbox);
}

// Out of the state or, where runtimes leave annotations out of it, of the bundle's configuration.
PodSandbox SandboxOf(const Json& state) {
  PodSandbox sandbox;
  Fill(sandbox, state);
  const std::string bundle = Text(state, "bundle");
  if (bundle.empty() || (!sandbox.pod_uid.empty() && !sandbox.sandbox_id.empty())) return sandbox;
  const std::string path = bundle + "/config.json";
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw std::runtime_error("open " + path + ": " + std::strerror(errno));
  const std::string text = ReadAll(fd, path);
  close(fd);
  Fill(sandbox, Parse(text, path));
  return sandbox;
}

void Run(int argc, char** argv) {
  if (argc != 2 || argv[1][0] != '/')
    throw std::runtime_error("usage: dra-rdma-hook CLAIM-DIRECTORY, an absolute path");
  const std::string what = "the container's state on stdin";
  const Json state = Parse(ReadAll(STDIN_FILENO, what), what);
  const auto pid = state.find("pid");
  if (pid == state.end() || !pid->is_number_integer() || pid->get<int64_t>() <= 0)
    throw std::runtime_error(what + " has no pid: run as createRuntime");
  const NetworkNamespace pod =
      NetworkNamespace::Open("/proc/" + std::to_string(pid->get<int64_t>()) + "/ns/net");
  const PodSandbox sandbox = SandboxOf(state);
  if (sandbox.pod_uid.empty()) {
    throw std::runtime_error(what + " does not say of which pod it is: neither annotation " +
                             kPodUid[0] + " nor " + kPodUid[1] +
                             "; network devices need containerd or CRI-O");
  }
  Attach(ClaimFolder(argv[1]), sandbox, pod);
}

}  // namespace
}  // namespace rdma

int main(int argc, char** argv) {
  try {
    rdma::Run(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    std::string text = error.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    std::fprintf(stderr, "dra-rdma-hook: %s\n", text.c_str());
    return 1;
  }
}
