#include "health.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <stop_token>
#include <thread>
#include <tuple>
#include <utility>

#include "health_book.h"

namespace nvidia {
namespace {

using std::chrono::milliseconds;

constexpr unsigned kWaitMilliseconds = 1000;  // for an event: the longest that a stop waits
constexpr uint64_t kFaultEvents = nvml::kEventXid | nvml::kEventDoubleBitEcc;
// What these tell is polled too: for older drivers, and because events are lost while a set is made anew.
constexpr uint64_t kHintEvents = nvml::kEventMigConfigChange | nvml::kEventGpuRecoveryAction;

bool IsSame(const std::vector<dra::HealthReport>& a, const std::vector<dra::HealthReport>& b) {
  const auto fields = [](const dra::HealthReport& r) {
    return std::tie(r.device, r.pool, r.state, r.fault_class, r.message, r.remedy, r.clears_with,
                    r.severity);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const auto& x, const auto& y) { return fields(x) == fields(y); });
}

}  // namespace

class HealthWatch::Impl {
 public:
  Impl(std::shared_ptr<const NvmlLibrary> nvml, HealthOptions options)
      : nvml_(std::move(nvml)),
        options_(std::move(options)),
        book_(options_),
        events_([this](const std::stop_token& stop) { WatchEvents(stop); }),
        states_([this](const std::stop_token& stop) { WatchStates(stop); }) {}

  void Watch(const NodeHardware& node) {
    const std::lock_guard<std::mutex> lock(mutex_);
    book_.Take(node);
    look_now_ = true;
    wake_.notify_all();
  }
  std::vector<dra::HealthReport> Health() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return book_.Reports(Clock::now(), true);
  }
  std::optional<std::string> LibraryLost() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return book_.library_lost();
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Both threads do this after what they learnt, and the one for events at least each second: it also sees that nothing
  // was learnt for too long.
  void Announce() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      std::vector<dra::HealthReport> reports = book_.Reports(Clock::now(), false);
      if (IsSame(reports, announced_)) return;
      announced_ = std::move(reports);
    }
    if (options_.changed) options_.changed();
  }

  void Log(const std::string& text) const {
    if (options_.log) options_.log(text);
  }

  void LoseLibrary(const std::string& reason) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (book_.library_lost()) return;
      book_.TakeLibraryLost(reason);
    }
    Log(reason + "; NVML has to be opened anew");
  }
  bool HasLostLibrary() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return book_.library_lost().has_value();
  }

  // Until `done` (under the lock), the time is over or a stop is asked for.
  template <typename Done>
  void Wait(const std::stop_token& stop, milliseconds time, Done done) {
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait_for(lock, stop, time, done);
  }

  // ---- events

  void WatchEvents(const std::stop_token& stop) {
    Clock::time_point next_try;
    while (!stop.stop_requested()) {
      bool waited = false;
      if (!HasLostLibrary()) {
        if (TakeRegisterNow() || next_try <= Clock::now()) {
          next_try = Clock::now() + options_.poll;
          if (set_ == nullptr) set_ = CreateSet();
          if (set_ != nullptr) Register();
        }
        waited = set_ != nullptr && watched_ > 0 && WaitForEvent(kWaitMilliseconds);
      }
      Announce();
      if (!waited) {
        Wait(stop, milliseconds(kWaitMilliseconds),
             [this] { return register_now_ && !book_.library_lost(); });
      }
    }
    FreeSet();
  }

  bool TakeRegisterNow() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(register_now_, false);
  }
  void FreeSet() {
    if (set_ != nullptr) nvml_->nvmlEventSetFree(set_);
    set_ = nullptr;
    watched_ = 0;
  }

  nvml::EventSet CreateSet() {
    nvml::EventSet set = nullptr;
    const nvml::Return result = nvml_->nvmlEventSetCreate(&set);
    if (result == nvml::kSuccess) return set;
    const std::string text = "nvmlEventSetCreate: " + nvml_->Describe(result);
    if (IsLibraryLost(result)) {
      LoseLibrary(text);
    } else {
      TakeRegistration("", "its events cannot be watched: " + text);
    }
    return nullptr;
  }

  void TakeRegistration(const std::string& uuid, const std::string& reason) {
    bool changed = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      changed = book_.TakeRegistration(uuid, reason);
    }
    if (changed && !reason.empty()) Log((uuid.empty() ? "every GPU" : uuid) + ": " + reason);
  }

  void Register() {
    std::vector<HealthBook::Question> questions;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      questions = book_.ToRegister();
    }
    std::vector<std::string> registered;
    for (const HealthBook::Question& question : questions) {
      const std::string reason = RegisterOne(question.handle);
      if (reason.empty()) {
        registered.push_back(question.uuid);
      } else {
        TakeRegistration(question.uuid, reason);
      }
    }
    watched_ += registered.size();
    // After a wait that failed, they are watched only when one has succeeded.
    if (registered.empty() || (wait_failed_ && !WaitForEvent(0))) return;
    for (const std::string& uuid : registered) TakeRegistration(uuid, "");
  }

  std::string RegisterOne(nvml::Device device) {
    unsigned long long supported = 0;
    const char* function = "nvmlDeviceGetSupportedEventTypes";
    nvml::Return result = nvml_->nvmlDeviceGetSupportedEventTypes(device, &supported);
    if (result == nvml::kSuccess) {
      if ((supported & nvml::kEventXid) == 0) {
        return "its events cannot be watched: this GPU gives no XID events";
      }
      function = "nvmlDeviceRegisterEvents";
      result =
          nvml_->nvmlDeviceRegisterEvents(device, supported & (kFaultEvents | kHintEvents), set_);
      if (result == nvml::kNotSupported && (supported & kHintEvents) != 0) {
        // Refused as a whole for one of them; no fault may be missed for a hint.
        result = nvml_->nvmlDeviceRegisterEvents(device, supported & kFaultEvents, set_);
      }
    }
    if (result == nvml::kSuccess) return "";
    const std::string text = std::string(function) + ": " + nvml_->Describe(result);
    if (IsLibraryLost(result)) LoseLibrary(text);
    return "its events cannot be watched: " + text;
  }

  // False if it failed: then nothing is watched, and the next try begins with a new set.
  bool WaitForEvent(unsigned timeout_ms) {
    nvml::EventData data = {};
    data.gpu_instance_id = data.compute_instance_id = nvml::kNoInstance;
    const nvml::Return result = nvml_->nvmlEventSetWait_v2(set_, &data, timeout_ms);
    wait_failed_ = result != nvml::kSuccess && result != nvml::kTimeout;
    if (result == nvml::kSuccess) TakeEvent(data);
    if (!wait_failed_) return true;
    const std::string text = "nvmlEventSetWait: " + nvml_->Describe(result);
    FreeSet();
    if (IsLibraryLost(result)) {
      LoseLibrary(text);
      return false;
    }
    TakeRegistration("", "its events cannot be watched: " + text);
    // Which one is lost, its own state tells; the others are then watched without it.
    if (result == nvml::kGpuIsLost) LookNow();
    return false;
  }

  void LookNow(bool layout = false) {
    const std::lock_guard<std::mutex> lock(mutex_);
    look_now_ = true;
    layout_event_ = layout_event_ || layout;
    wake_.notify_all();
  }

  void TakeEvent(const nvml::EventData& data) {
    if ((data.event_type & kHintEvents) != 0) {
      return LookNow(data.event_type == nvml::kEventMigConfigChange);
    }
    std::optional<FaultClass> fault;
    if (data.event_type == nvml::kEventXid) {
      fault = FaultOfXid(data.event_data, options_.ignored_xids);
    } else if (data.event_type == nvml::kEventDoubleBitEcc) {
      fault = UncorrectableEcc("double-bit ECC error");
    }
    if (!fault) return;
    const std::optional<std::string> uuid = UuidOf(data.device);
    if (uuid && data.event_type == nvml::kEventXid && data.event_data == kXidRecoveryAction &&
        TellsRecoveryAction(*uuid)) {
      Log(*uuid + ": XID 154: what the driver asks for to recover it has changed");
      return LookNow();
    }
    bool taken = true;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (uuid) {
        taken = book_.TakeEvent(data, *uuid, *fault, Clock::now());
      } else {
        book_.TakeUnplacedEvent(fault->message + " came from a GPU that NVML does not name",
                                Clock::now());
      }
      look_now_ = true;
      wake_.notify_all();
    }
    Log((uuid ? *uuid : std::string("a GPU that NVML does not name")) + ": " + fault->message +
        (taken ? "" : ", of no device that is served"));
  }

  // Then the state tells which action it is, and when there is none any more.
  bool TellsRecoveryAction(const std::string& uuid) {
    nvml::Device device = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      device = book_.HandleOf(uuid);
    }
    return device != nullptr && RecoveryActionOf(*nvml_, device).has_value();
  }

  // The handle first: a GPU that is lost does not tell its UUID.
  std::optional<std::string> UuidOf(nvml::Device device) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (auto uuid = book_.UuidOf(device)) return uuid;
    }
    unsigned is_mig = 0;
    nvml::Device parent = nullptr;
    if (nvml_->nvmlDeviceIsMigDeviceHandle(device, &is_mig) == nvml::kSuccess && is_mig != 0 &&
        nvml_->nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device, &parent) == nvml::kSuccess) {
      device = parent;
    }
    char text[nvml::kUuidBytes] = {};
    if (nvml_->nvmlDeviceGetUUID(device, text, sizeof(text)) != nvml::kSuccess) return std::nullopt;
    return std::string(text, strnlen(text, sizeof(text)));
  }

  // ---- states

  void WatchStates(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!HasLostLibrary()) {
        std::vector<HealthBook::Question> questions;
        {
          const std::lock_guard<std::mutex> lock(mutex_);
          look_now_ = false;
          layout_due_ = std::exchange(layout_event_, false) || layout_due_;
          questions = book_.ToLookAt();
        }
        for (const HealthBook::Question& question : questions) {
          if (stop.stop_requested()) return;
          LookAt(question);
        }
        WriteNotes();
        Announce();
        TellLayout();
      }
      const milliseconds pause = layout_due_ ? options_.layout_pause : options_.poll;
      Wait(stop, std::min(options_.poll, pause),
           [this] { return look_now_ && !book_.library_lost(); });
    }
  }

  // A change of many instances is many events, and some discoveries.
  void TellLayout() {
    if (!layout_due_ || Clock::now() < layout_next_) return;
    layout_due_ = false;
    layout_next_ = Clock::now() + options_.layout_pause;
    if (options_.inventory_changed) options_.inventory_changed();
  }

  void LookAt(const HealthBook::Question& question) {
    for (const std::string& identity : question.unread) ReadNote(identity);
    try {
      nvml::Device device = question.handle;
      GpuState state;
      if (device == nullptr) {
        const nvml::Return result =
            nvml_->nvmlDeviceGetHandleByUUID(question.uuid.c_str(), &device);
        if (result != nvml::kSuccess) {
          device = nullptr;
          state = StateOfFailure(result, "nvmlDeviceGetHandleByUUID of " + question.uuid + ": " +
                                             nvml_->Describe(result));
        }
      }
      const LookOptions look = {
          .mig = question.mig,
          .recovery = !options_.ignored_xids.contains(static_cast<int64_t>(kXidRecoveryAction))};
      if (device != nullptr) state = LookAtState(*nvml_, device, question.uuid, look);
      const std::lock_guard<std::mutex> lock(mutex_);
      if (device != nullptr && question.handle == nullptr) book_.TakeHandle(question.uuid, device);
      if (state.lost || question.handle == nullptr) {
        // It can be registered, or the others without it.
        register_now_ = true;
        wake_.notify_all();
      }
      layout_due_ = book_.TakeState(question.uuid, state, Clock::now()) || layout_due_;
    } catch (const NvmlError& error) {
      LoseLibrary(error.what());
    }
  }

  void ReadNote(const std::string& identity) {
    std::string text;
    try {
      if (options_.read_note) text = options_.read_note(identity).value_or("");
    } catch (const std::exception& error) {
      LogNoteFailure(identity + ": what its last fault waits for cannot be read: " + error.what());
      return;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    book_.TakeNote(identity, text);
  }

  void WriteNotes() {
    if (!options_.write_note) return;
    std::map<std::string, std::string> notes;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      notes = book_.UnwrittenNotes(Clock::now());
    }
    for (const auto& [identity, text] : notes) {
      try {
        options_.write_note(identity, text);
      } catch (const std::exception& error) {
        LogNoteFailure(identity +
                       ": what its fault waits for cannot be noted, so that it may need "
                       "dra-driver clear-fault after a reset: " +
                       error.what());
        continue;
      }
      note_failure_.clear();
      const std::lock_guard<std::mutex> lock(mutex_);
      book_.NoteWritten(identity, text);
    }
  }

  void LogNoteFailure(const std::string& text) {
    if (std::exchange(note_failure_, text) != text) Log(text);
  }

  const std::shared_ptr<const NvmlLibrary> nvml_;
  const HealthOptions options_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  HealthBook book_;  // under mutex_, as what follows
  bool look_now_ = false, register_now_ = false, layout_event_ = false;
  std::vector<dra::HealthReport> announced_;
  // The events' thread's own.
  nvml::EventSet set_ = nullptr;
  size_t watched_ = 0;        // registered with the set
  bool wait_failed_ = false;  // the last one
  // The states' thread's own.
  std::string note_failure_;
  bool layout_due_ = false;  // inventory_changed is to be called
  Clock::time_point layout_next_;
  // Last: they end before anything they use.
  std::jthread events_, states_;
};

HealthWatch::HealthWatch(std::shared_ptr<const NvmlLibrary> nvml, HealthOptions options)
    : impl_(std::make_unique<Impl>(std::move(nvml), std::move(options))) {}
HealthWatch::~HealthWatch() = default;
void HealthWatch::Watch(const NodeHardware& node) { impl_->Watch(node); }
std::vector<dra::HealthReport> HealthWatch::Health() const { return impl_->Health(); }
std::optional<std::string> HealthWatch::LibraryLost() const { return impl_->LibraryLost(); }

}  // namespace nvidia
