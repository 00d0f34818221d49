#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "dra/base/file_system.h"
#include "dra/base/json.h"
#include "dra/testing/api_server.h"
#include "dra/testing/kubelet_double.h"
#include "dra/testing/temp_directory.h"
#include "nlohmann/json.hpp"
#include "test/crash/child.h"

namespace dra::crash {

inline constexpr char kDriver[] = "gpu.sdk.test";
inline constexpr char kNode[] = "n1";
inline constexpr int kDevices = 4;
inline constexpr absl::Duration kPatience = absl::Seconds(30);

// Looks until the condition holds; false if it does not within `patience`.
bool WaitFor(const std::function<bool()>& condition, absl::Duration patience = kPatience);

// What the kubelet was told of one claim, with the claim's UID taken out so that two runs can be compared.
struct ClaimAnswer {
  std::string devices;  // requests, pool, device, CDI ids
  std::string cdi;      // content of the CDI file
  friend bool operator==(const ClaimAnswer&, const ClaimAnswer&) = default;
};

// What the node's driver drives.
struct Hardware {
  std::string library;               // the backend, behind kill points
  Json config;                       // the backend's part of the configuration
  std::vector<std::string> devices;  // kDevices names, as they are published
  Json parameters;                   // the configuration of a claim that has one
};

struct StartOptions {
  std::string pod_uid;
  std::string boot_id = "11111111-0000-4000-8000-000000000001";
  int clock_ahead_seconds = 120;  // files of a process that died just now count as left over
  Json arm;                       // null: not armed
  std::map<std::string, std::string>
      verdicts;                    // claim UID -> what the backend answers in its reconcile
  bool looks_for_orphans = false;  // all the time, with next to no grace
};

// A node whose daemon is another process: doubles of the API server and of the kubelet, real sockets and files, a
// backend behind kill points. One thread at a time; claims of another thread may be prepared meanwhile.
class CrashNode {
 public:
  // With the fake backend. `keeps_undo`: whether it saves undo data.
  explicit CrashNode(bool keeps_undo);
  explicit CrashNode(Hardware hardware);
  ~CrashNode();

  std::unique_ptr<Child> StartChild(const StartOptions& options = {});
  // Waits until the process is ready and connected, and this node's slices are complete.
  bool WaitForReady(Child* child, int endpoints = 1, absl::Duration patience = kPatience);
  // What a failed wait leaves: the conditions, the endpoints, the slices.
  std::string Describe(Child* child) const;

  // Names of devices by their places.
  std::vector<std::string> Devices(const std::vector<size_t>& places) const;
  // An allocated claim; with `config` the hardware's parameters are its own: those of the fake backend change the cards.
  testing::KubeletClaim MakeClaim(const std::string& name, const std::vector<std::string>& devices,
                                  bool config);
  // The claim gets other devices, as after a deallocation.
  void Reallocate(const testing::KubeletClaim& claim, const std::vector<std::string>& devices);
  void DeleteClaim(const testing::KubeletClaim& claim);

  // One call, as it comes.
  absl::Status PrepareOnce(const testing::KubeletClaim& claim);
  absl::Status UnprepareOnce(const testing::KubeletClaim& claim);
  // As the kubelet: again until it is done. "" or what came last.
  absl::Status Prepare(const testing::KubeletClaim& claim, ClaimAnswer* answer = nullptr);
  absl::Status Unprepare(const testing::KubeletClaim& claim);

  // Writes the fake backend's control file.
  void Control(Json control);
  // Writes the kubelet's checkpoint: the claims that it will still unprepare.
  void KubeletKnows(const std::vector<testing::KubeletClaim>& claims);
  // The claim's record is gone, as by somebody's hand. No process may run.
  void LoseRecord(const testing::KubeletClaim& claim);
  // What is tmpfs or in the hardware is empty now.
  void LoseTmpfs();
  void ResetHardware();

  // Invariants; each gives "" or what is wrong.
  std::string CheckSlices() const;
  std::string CheckHardware() const;  // every card has its first setting
  std::string CheckHooks() const;     // nobody held a device beside another, nothing is held now
  std::string Leftovers() const;      // files of claims, temporaries
  // Waits until no file of the claim is left.
  bool WaitUntilGone(const testing::KubeletClaim& claim) const;
  std::string WaitForNoLeftovers(
      absl::Duration patience) const;  // the sweep runs beside the first calls
  void ForgetHooks();

  std::string CdiPath(const testing::KubeletClaim& claim) const;
  std::string DataPath(const std::string& name) const;
  std::string LogTail() const;
  testing::FakeApiServer& api() { return *api_; }
  testing::FakeKubelet& kubelet() { return *kubelet_; }
  PosixFileSystem& fs() { return fs_; }
  const testing::TempDirectory& directory() const { return directory_; }

 private:
  void Begin();
  void Note(const char* event, const testing::KubeletClaim& claim);
  Json AllocationOf(const std::vector<std::string>& devices, bool config) const;
  void Collect(const std::string& path, std::vector<std::string>* files) const;

  const bool keeps_undo_;
  testing::TempDirectory directory_;
  const Hardware hardware_;
  mutable PosixFileSystem fs_;
  std::unique_ptr<testing::FakeApiServer> api_;
  std::unique_ptr<testing::FakeKubelet> kubelet_;
  int children_ = 0;
};

// Events of ours in the hook log: what the kubelet was answered. A prepare that was cut short, or had no answer, may have
// left no record: then its devices are free again, and no hook is called for its end.
inline constexpr char kAnswered[] = "answered";
inline constexpr char kReleased[] = "released";
// Events of crash_daemon: the backend saves undo data, and was told that it is saved.
inline constexpr char kSaving[] = "saving";
inline constexpr char kSaved[] = "saved";
// The runner removed the claim's record, and its undo data with it.
inline constexpr char kForgotten[] = "forgotten";

// Reads a hook log of the fake backend (one JSON object a line): "" if no device was prepared for a claim while another
// that the kubelet was told of had it, each of those was unprepared, and each hook got the undo data that was saved last;
// else the first violation.
std::string FindHookViolation(const std::string& log);

}  // namespace dra::crash
