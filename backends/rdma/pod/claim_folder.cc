#include "claim_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <stdexcept>

namespace rdma {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char kPlan[] = "/plan.json";
constexpr char kClosedPlan[] = "/plan.closed.json";
constexpr char kState[] = "/state.json";
// One name for each: only who holds the lock, or who prepares, writes it.
constexpr char kTemporary[] = ".new";
constexpr size_t kMaxSize = 16 << 20;

[[noreturn]] void Fail(const std::string& what, const std::string& path) {
  throw std::runtime_error(what + " " + path + ": " + std::strerror(errno));
}

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  // Tells of an error that close has.
  bool Close() { return close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

// Durable are then the names in it.
void SyncDirectory(const std::string& path) {
  const Fd directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) Fail("open", path);
  if (fsync(directory.get()) != 0) Fail("sync", path);
}

void Write(const std::string& directory, const char* name, const Json& json) {
  const std::string path = directory + name, temporary = path + kTemporary;
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  Fd file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) Fail("make", temporary);
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(file.get(), text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) Fail("write", temporary);
    done += static_cast<size_t>(written);
  }
  if (fsync(file.get()) != 0) Fail("sync", temporary);
  if (!file.Close()) Fail("close", temporary);
  if (rename(temporary.c_str(), path.c_str()) != 0) Fail("rename " + temporary + " to", path);
  SyncDirectory(directory);
}

// Whether there was something.
bool Remove(const std::string& path) {
  if (unlink(path.c_str()) == 0) return true;
  if (errno != ENOENT) Fail("remove", path);
  return false;
}

std::optional<std::string> ReadText(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file.get() < 0) {
    if (errno == ENOENT) return std::nullopt;
    Fail("open", path);
  }
  std::string text;
  char part[16384];
  for (ssize_t got; (got = read(file.get(), part, sizeof(part))) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) Fail("read", path);
    text.append(part, static_cast<size_t>(got));
    if (text.size() > kMaxSize) throw std::runtime_error("read " + path + ": is over 16 MiB");
  }
  return text;
}

template <typename T>
std::optional<T> Read(const std::string& path, T (*from_json)(const Json&)) {
  const std::optional<std::string> text = ReadText(path);
  if (!text) return std::nullopt;
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw std::runtime_error(path + ": damaged: is no JSON");
  try {
    return from_json(json);
  } catch (const std::exception& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

}  // namespace

ClaimFolder::Lock::~Lock() { close(fd_); }

std::unique_ptr<ClaimFolder::Lock> ClaimFolder::TryLock(milliseconds limit) const {
  const int fd = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) Fail("open claim directory", path_);
  auto lock = std::make_unique<Lock>(fd);
  const auto end = steady_clock::now() + limit;
  // There is no lock call with a time limit.
  constexpr timespec kPause{0, 10'000'000};
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) Fail("lock claim directory", path_);
    if (steady_clock::now() >= end) return nullptr;
    nanosleep(&kPause, nullptr);
  }
  return lock;
}

std::optional<Plan> ClaimFolder::ReadPlan() const {
  return Read<Plan>(path_ + kPlan, PlanFromJson);
}

void ClaimFolder::WritePlan(const Plan& plan) const {
  Write(path_, kPlan, ToJson(plan));
  if (Remove(path_ + kClosedPlan)) SyncDirectory(path_);
}

std::optional<AttachState> ClaimFolder::ReadState() const {
  return Read<AttachState>(path_ + kState, AttachStateFromJson);
}

void ClaimFolder::WriteState(const AttachState& state) const {
  Write(path_, kState, ToJson(state));
}

void ClaimFolder::RemoveState() const {
  Remove(path_ + kState + kTemporary);
  if (Remove(path_ + kState)) SyncDirectory(path_);
}

void ClaimFolder::Close() const {
  if (rename((path_ + kPlan).c_str(), (path_ + kClosedPlan).c_str()) != 0) {
    if (errno == ENOENT) return;
    Fail("close the plan", path_ + kPlan);
  }
  SyncDirectory(path_);
}

std::optional<Plan> ClaimFolder::ReadPlanOrClosed() const {
  if (std::optional<Plan> plan = ReadPlan()) return plan;
  return Read<Plan>(path_ + kClosedPlan, PlanFromJson);
}

std::optional<NetworkNamespace> ClaimFolder::OpenPin() const {
  try {
    return NetworkNamespace::Open(pin());
  } catch (const NetlinkError& error) {
    if (error.error() == ENOENT || error.error() == EINVAL) return std::nullopt;
    throw;
  }
}

std::string ClaimFolder::BootId() {
  constexpr char kPath[] = "/proc/sys/kernel/random/boot_id";
  std::string id;
  if (!std::getline(std::ifstream(kPath), id) || id.empty())
    throw std::runtime_error(std::string(kPath) + ": cannot be read");
  return id;
}

void ClaimFolder::Clear() const {
  UnpinNamespace(pin());
  bool removed = false;
  for (const char* name : {kState, kPlan, kClosedPlan}) {
    removed = Remove(path_ + name + kTemporary) || removed;
    removed = Remove(path_ + name) || removed;
  }
  if (removed) SyncDirectory(path_);
}

}  // namespace rdma
