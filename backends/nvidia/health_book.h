#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dra/backend/types.h"
#include "gpu_state.h"
#include "hardware.h"
#include "health.h"

namespace nvidia {

// What the watch knows of every device, and what follows from it. Asks nothing; one thread at a time.
class HealthBook {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit HealthBook(const HealthOptions& options) : options_(options) {}

  void Take(const NodeHardware& node);

  // What is needed to ask a GPU.
  struct Question {
    std::string uuid;
    bool mig = false;
    nvml::Device handle = nullptr;    // nullptr: to be looked up
    std::vector<std::string> unread;  // identities whose note was not read yet
  };
  std::vector<Question> ToLookAt() const;
  std::vector<Question> ToRegister() const;  // with a handle, and not watched for events yet
  std::optional<std::string> UuidOf(nvml::Device handle) const;
  // nullptr: of no GPU that is watched, or to be looked up anew.
  nvml::Device HandleOf(const std::string& uuid) const;

  // text: "" or what cannot be read, which counts as none.
  void TakeNote(const std::string& identity, const std::string& text);
  void TakeHandle(const std::string& uuid, nvml::Device handle);
  // reason: why the events of a GPU, or of all with "", are not watched; "" if they are. True if it is another one.
  bool TakeRegistration(const std::string& uuid, const std::string& reason);
  // True if the MIG layout is another one than Take was told, and than the last call of this that said so.
  bool TakeState(const std::string& uuid, const GpuState& state, TimePoint now);
  // Of a GPU as a whole, or of the instance. False if it is of an instance that is not served.
  bool TakeEvent(const nvml::EventData& event, const std::string& uuid, const FaultClass& fault,
                 TimePoint now);
  // An event that no GPU can be found for: nothing is known of any for a while.
  void TakeUnplacedEvent(const std::string& text, TimePoint now);
  void TakeLibraryLost(const std::string& reason) { library_lost_ = reason; }
  const std::optional<std::string>& library_lost() const { return library_lost_; }

  // told: these go to the host.
  std::vector<dra::HealthReport> Reports(TimePoint now, bool told);
  // The notes that differ from what was written, identity -> text.
  std::map<std::string, std::string> UnwrittenNotes(TimePoint now);
  void NoteWritten(const std::string& identity, const std::string& text);

 private:
  // What a device's last fault waits for, and how to see that it has come.
  struct Note {
    std::string clears_with, epoch;
    std::optional<uint64_t> uncorrected;
    std::optional<unsigned> recovery_action;  // the last one that was no "none"
    std::string ToText() const;
    static std::optional<Note> FromText(const std::string& text);
  };
  struct Event {
    FaultClass fault;
    TimePoint until;
    bool told = false;
  };
  struct Device {
    std::string name, identity;
    std::optional<std::pair<unsigned, unsigned>> instance;  // GPU and compute instance
    std::map<std::string, Event> events;                    // by class
    bool note_read = false;
    std::optional<Note> note;
    std::string written;      // the note as the host has it
    bool reset_seen = false;  // since the last fault
  };
  struct Card {
    std::string uuid;
    bool mig = false;
    std::string mig_layout;         // as Take was told
    std::string other_layout;       // the last one that differed; "" since Take
    nvml::Device handle = nullptr;  // as long as the library is open, it stands for this card
    bool handle_dead = true;        // to be looked up anew
    std::string unwatched = "its events are not watched yet";  // "" = they are
    std::optional<GpuState> state;
    TimePoint looked;
    std::vector<Device> devices;
  };

  static std::vector<Device> DevicesOf(const Gpu& gpu);
  static Question QuestionOf(const Card& card);
  Card* Find(const std::string& uuid);
  void AddEvent(Device& device, const FaultClass& fault, TimePoint now);
  void Forget(TimePoint now);  // events that are over
  static std::vector<FaultClass> FaultsOf(const Card& card, const Device& device);
  std::string WhyUnknown(const Card& card, TimePoint now) const;
  bool IsResetSince(const Card& card, const Device& device) const;

  const HealthOptions& options_;
  std::map<std::string, Card> cards_;  // by UUID
  std::optional<std::string> library_lost_;
  std::string unplaced_;
  TimePoint unplaced_until_;
};

}  // namespace nvidia
