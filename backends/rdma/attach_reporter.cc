#include "attach_reporter.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "claim_plan.h"
#include "descriptor.h"
#include "pod/claim_folder.h"

namespace rdma {
namespace {

constexpr char kStateFile[] = "state.json";
constexpr int kRetryMs = 1000;

}  // namespace

class AttachReporter::Impl {
 public:
  explicit Impl(dra::Host host)
      : host_(host),
        events_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
        wake_(eventfd(0, EFD_CLOEXEC)) {
    if (events_.get() < 0 || wake_.get() < 0) {
      throw dra::BackendError(DRA_RESOURCE_EXHAUSTED,
                              std::string("cannot watch claim directories: ") +
                                  std::strerror(errno) + " (fs.inotify.max_user_instances?)");
    }
    thread_ = std::thread([this] { Loop(); });
  }
  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    Wake();
    thread_.join();
  }

  void Track(const std::string& claim_uid, const std::string& directory,
             std::map<std::string, Device> devices) {
    {
      const std::lock_guard lock(mutex_);
      ForgetLocked(claim_uid);
      // The rename of a new state.json into place.
      const int watch = inotify_add_watch(events_.get(), directory.c_str(), IN_MOVED_TO);
      if (watch < 0) {
        host_.Log(dra::Severity::kWarn,
                  "claim " + claim_uid + ": cannot watch " + directory + ": " +
                      std::strerror(errno) +
                      ": its status shows what the pod got only after the next start "
                      "(fs.inotify.max_user_watches?)");
      }
      if (watch >= 0) watches_[watch] = claim_uid;
      claims_[claim_uid] = {directory, std::move(devices), watch};
      due_.insert(claim_uid);
    }
    Wake();
  }

  void Forget(const std::string& claim_uid) {
    const std::lock_guard lock(mutex_);
    ForgetLocked(claim_uid);
  }

 private:
  struct Claim {
    std::string directory;
    std::map<std::string, Device> devices;
    int watch = -1;
  };

  void ForgetLocked(const std::string& claim_uid) {
    const auto found = claims_.find(claim_uid);
    if (found == claims_.end()) return;
    if (found->second.watch >= 0) {
      inotify_rm_watch(events_.get(), found->second.watch);
      watches_.erase(found->second.watch);
    }
    claims_.erase(found);
    due_.erase(claim_uid);
  }

  void Wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
  }

  void Loop() {
    while (true) {
      pollfd wait[] = {{events_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
      if (poll(wait, 2, again_ ? kRetryMs : -1) < 0 && errno != EINTR) return;
      if (wait[1].revents != 0) {
        uint64_t count;
        [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof(count));
      }
      ReadEvents();
      std::vector<std::pair<std::string, Claim>> due;
      {
        const std::lock_guard lock(mutex_);
        if (stopping_) return;
        for (const std::string& claim_uid : due_) {
          const auto found = claims_.find(claim_uid);
          if (found != claims_.end()) due.push_back(*found);
        }
        due_.clear();
      }
      again_ = false;
      for (const auto& [claim_uid, claim] : due) {
        if (Tell(claim_uid, claim)) {
          failed_.erase(claim_uid);
          continue;
        }
        again_ = true;
        const std::lock_guard lock(mutex_);
        due_.insert(claim_uid);
      }
    }
  }

  void ReadEvents() {
    alignas(inotify_event) char buffer[16384];
    for (ssize_t size; (size = read(events_.get(), buffer, sizeof(buffer))) > 0;) {
      const std::lock_guard lock(mutex_);
      for (ssize_t at = 0; at < size;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
        if ((event->mask & IN_Q_OVERFLOW) != 0) {
          for (const auto& [claim_uid, claim] : claims_) due_.insert(claim_uid);
        } else if (event->len != 0 && std::strcmp(event->name, kStateFile) == 0) {
          const auto watch = watches_.find(event->wd);
          if (watch != watches_.end()) due_.insert(watch->second);
        }
      }
    }
  }

  // False: to be tried again, the host cannot take it now.
  bool Tell(const std::string& claim_uid, const Claim& claim) {
    try {
      const std::optional<AttachState> state = ClaimFolder(claim.directory).ReadState();
      if (!state) return true;
      const auto update = [&](const Device& device, const dra::Json& status) {
        host_.UpdateDevice(claim_uid, device.pool_suffix, device.name, device.share_id, status);
      };
      if (!state->error.empty()) {
        for (const auto& [name, device] : claim.devices) update(device, FailedStatusOf(*state));
        return true;
      }
      if (state->phase != AttachState::Phase::kAttached) return true;
      for (const AttachedInterface& attached : state->interfaces) {
        const auto device = claim.devices.find(attached.device);
        if (device != claim.devices.end()) update(device->second, StatusOf(attached));
      }
    } catch (const dra::BackendError& error) {
      // The claim may have ended meanwhile.
      const bool first = failed_.insert(claim_uid).second;
      const auto severity =
          error.code() == DRA_NOT_FOUND || !first ? dra::Severity::kDebug : dra::Severity::kWarn;
      host_.Log(severity, "claim " + claim_uid + ": status of its interfaces: " + error.what());
      return error.code() == DRA_NOT_FOUND || error.code() == DRA_INVALID_ARGUMENT;
    } catch (const std::exception& error) {
      host_.Log(dra::Severity::kWarn,
                "claim " + claim_uid + ": status of its interfaces: " + error.what());
    }
    return true;
  }

  const dra::Host host_;
  const Descriptor events_, wake_;
  std::mutex mutex_;
  std::map<std::string, Claim> claims_;  // this and all below under mutex_
  std::map<int, std::string> watches_;   // claim by its watch
  std::set<std::string> due_;
  bool stopping_ = false;
  // The thread's own: claims to be told again, and of which that was said.
  bool again_ = false;
  std::set<std::string> failed_;
  std::thread thread_;
};

AttachReporter::AttachReporter(dra::Host host) : impl_(std::make_unique<Impl>(host)) {}
AttachReporter::~AttachReporter() = default;

void AttachReporter::Track(const std::string& claim_uid, const std::string& directory,
                           std::map<std::string, Device> devices) {
  impl_->Track(claim_uid, directory, std::move(devices));
}

void AttachReporter::Forget(const std::string& claim_uid) { impl_->Forget(claim_uid); }

}  // namespace rdma
