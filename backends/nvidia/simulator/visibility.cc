#include "visibility.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace nvidia_simulator {
namespace {

constexpr int kNvidiaMajor = 195;
constexpr int kAnyMajor = -1;  // that of nvidia-caps is dynamic

bool Exists(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
}

// A device cgroup answers EPERM, a node's mode EACCES; anything else (no driver behind the number) is not a refusal.
bool Refused(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd >= 0) {
    close(fd);
    return false;
  }
  return errno == EPERM || errno == EACCES;
}

}  // namespace

bool Visibility::ByNodes(const State& state) const {
  if (state.visibility != "auto") return state.visibility == "nodes";
  const bool on_the_host = state.host_dev_root.empty() || Exists(state.host_dev_root);
  return !on_the_host && Exists(dev_ + "/nvidiactl");
}

nvml::Return Visibility::ControlNode(const State& state) const {
  if (!ByNodes(state)) return nvml::kSuccess;
  if (!Exists(dev_ + "/nvidiactl")) return nvml::kDriverNotLoaded;
  return Refused(dev_ + "/nvidiactl") ? nvml::kUnknown : nvml::kSuccess;
}

bool Visibility::Openable(const std::string& name, int major_number, unsigned minor_number) const {
  const std::string path = dev_ + "/" + name;
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISCHR(info.st_mode)) return false;
  if (minor(info.st_rdev) != minor_number) return false;
  if (major_number != kAnyMajor && major(info.st_rdev) != static_cast<unsigned>(major_number)) {
    return false;
  }
  return !Refused(path);
}

std::shared_ptr<const State> Visibility::Of(const std::shared_ptr<const State>& state) {
  if (!ByNodes(*state)) return state;
  const auto capability = [&](const Gpu& gpu, unsigned gi, std::optional<unsigned> ci) {
    const unsigned cap = CapMinor(*state, gpu.minor, gi, ci);
    return Openable("nvidia-caps/nvidia-cap" + std::to_string(cap), kAnyMajor, cap);
  };
  std::vector<bool> seen;
  for (const Gpu& gpu : state->gpus) {
    seen.push_back(Openable("nvidia" + std::to_string(gpu.minor), kNvidiaMajor, gpu.minor));
    if (!seen.back()) continue;
    for (const MigInstance& instance : gpu.mig) {
      const bool instance_seen = capability(gpu, instance.gi, std::nullopt);
      for (const ComputeInstance& compute : instance.compute) {
        seen.push_back(instance_seen && capability(gpu, instance.gi, compute.ci));
      }
    }
  }
  if (from_ == state && seen == seen_) return visible_;

  auto visible = std::make_shared<State>(*state);
  visible->gpus.clear();
  size_t next = 0;
  for (const Gpu& gpu : state->gpus) {
    if (!seen[next++]) continue;
    Gpu& copy = visible->gpus.emplace_back(gpu);
    for (MigInstance& instance : copy.mig) {
      const auto hidden = [&](const ComputeInstance&) { return !seen[next++]; };
      std::vector<ComputeInstance>& compute = instance.compute;
      compute.erase(std::remove_if(compute.begin(), compute.end(), hidden), compute.end());
    }
    const auto empty = [](const MigInstance& instance) { return instance.compute.empty(); };
    copy.mig.erase(std::remove_if(copy.mig.begin(), copy.mig.end(), empty), copy.mig.end());
  }
  from_ = state;
  seen_ = std::move(seen);
  visible_ = std::move(visible);
  return visible_;
}

}  // namespace nvidia_simulator
