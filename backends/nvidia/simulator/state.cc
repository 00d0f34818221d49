#include "state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "nvml.h"

namespace nvidia_simulator {
namespace {

constexpr size_t kEventsKept = 1000;

// Walks the list in both shapes, const and not.
template <typename Gpus>
auto* Find(Gpus& gpus, const std::string& uuid_or_index) {
  for (size_t index = 0; index < gpus.size(); ++index) {
    if (gpus[index].uuid == uuid_or_index || std::to_string(index) == uuid_or_index) {
      return &gpus[index];
    }
  }
  return static_cast<decltype(&gpus[0])>(nullptr);
}

[[noreturn]] void Fail(const std::string& path, const std::string& what) {
  throw std::system_error(errno, std::generic_category(), path + ": " + what);
}

// The file, open and locked until it goes out of scope.
class LockedFile {
 public:
  LockedFile(const std::string& path, int flags, int lock) : path_(path) {
    fd_ = open(path.c_str(), flags | O_CLOEXEC, 0644);
    if (fd_ < 0) Fail(path, "open");
    while (flock(fd_, lock) != 0) {
      if (errno == EINTR) continue;
      const int cause = errno;
      close(fd_);
      errno = cause;
      Fail(path, "lock");
    }
  }
  ~LockedFile() { close(fd_); }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  std::string Read() const {
    std::string text;
    char buffer[65536];
    for (;;) {
      const ssize_t got = pread(fd_, buffer, sizeof buffer, static_cast<off_t>(text.size()));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) Fail(path_, "read");
      if (got == 0) return text;
      text.append(buffer, static_cast<size_t>(got));
    }
  }

  // In place: the file is mounted into containers by its inode.
  void Write(const std::string& text) const {
    struct stat before {};
    if (fstat(fd_, &before) != 0) Fail(path_, "stat");
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t put =
          pwrite(fd_, text.data() + done, text.size() - done, static_cast<off_t>(done));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) Fail(path_, "write");
      done += static_cast<size_t>(put);
    }
    if (ftruncate(fd_, static_cast<off_t>(text.size())) != 0) Fail(path_, "truncate");
    // Two writes within one tick of the kernel's clock would have the same mtime, and readers would miss the second.
    struct stat after {};
    if (fstat(fd_, &after) != 0) Fail(path_, "stat");
    if (after.st_mtim.tv_sec < before.st_mtim.tv_sec ||
        (after.st_mtim.tv_sec == before.st_mtim.tv_sec &&
         after.st_mtim.tv_nsec <= before.st_mtim.tv_nsec)) {
      timespec times[2] = {{0, UTIME_OMIT}, before.st_mtim};
      if (++times[1].tv_nsec == 1'000'000'000) times[1] = {times[1].tv_sec + 1, 0};
      if (futimens(fd_, times) != 0) Fail(path_, "set mtime");
    }
  }

 private:
  const std::string path_;
  int fd_ = -1;
};

State Parse(const std::string& path, const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw std::runtime_error(path + ": not JSON");
  try {
    return StateFromJson(json);
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

std::string Text(const State& state) {
  return ToJson(state).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Gpu* State::FindGpu(const std::string& uuid_or_index) { return Find(gpus, uuid_or_index); }

const Gpu* State::FindGpu(const std::string& uuid_or_index) const {
  return Find(gpus, uuid_or_index);
}

State ReadState(const std::string& path) {
  return Parse(path, LockedFile(path, O_RDONLY, LOCK_SH).Read());
}

void WriteState(const std::string& path, const State& state) {
  LockedFile(path, O_RDWR | O_CREAT, LOCK_EX).Write(Text(state));
}

void UpdateState(const std::string& path, const std::function<void(State&)>& change) {
  const LockedFile file(path, O_RDWR, LOCK_EX);
  State state = Parse(path, file.Read());
  change(state);
  file.Write(Text(state));
}

uint64_t AddEvent(State& state, Event event) {
  event.id = state.next_event++;
  state.events.push_back(std::move(event));
  if (state.events.size() > kEventsKept) state.events.erase(state.events.begin());
  return state.events.back().id;
}

unsigned AddFault(State& state, Fault fault) {
  fault.id = state.next_fault++;
  state.faults.push_back(std::move(fault));
  return state.faults.back().id;
}

void ResetGpu(Gpu& gpu) {
  ApplyMigMode(gpu);
  gpu.ecc.volatile_corrected = gpu.ecc.volatile_uncorrected = 0;
  if (gpu.remapped_rows.pending) {
    gpu.remapped_rows.pending = false;
    ++gpu.remapped_rows.uncorrected;
  }
  gpu.retired_pages_pending = false;
  switch (gpu.recovery_action.value_or(nvml::kRecoveryNone)) {
    case nvml::kRecoveryGpuReset:
    case nvml::kRecoveryDrainP2p:
    case nvml::kRecoveryDrainAndReset:
      gpu.recovery_action = nvml::kRecoveryNone;
      break;
    default:
      break;
  }
}

void SetRecoveryAction(State& state, Gpu& gpu, unsigned action) {
  if (gpu.recovery_action == action) return;
  gpu.recovery_action = action;
  constexpr uint64_t kRecoveryActionChanged = 154;  // an XID
  AddEvent(state, {0, gpu.uuid, nvml::kEventXid, kRecoveryActionChanged, {}, {}});
  AddEvent(state, {0, gpu.uuid, nvml::kEventGpuRecoveryAction, action, {}, {}});
}

}  // namespace nvidia_simulator
