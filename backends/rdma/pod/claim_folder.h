#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "namespace.h"
#include "plan.h"

namespace rdma {

// What backend and hook share about a claim, in its claim directory: plan.json, state.json and the pin "netns".
// Each write is a temp file, fsync, rename, fsync of the directory. Throws std::runtime_error with path and reason.
class ClaimFolder {
 public:
  explicit ClaimFolder(std::string path) : path_(std::move(path)) {}

  // Held by whoever moves something. It is on the directory itself, so that no file is left over, and ends with its
  // holder. nullptr: not to be had within `limit`.
  class Lock;
  std::unique_ptr<Lock> TryLock(std::chrono::milliseconds limit) const;

  std::optional<Plan> ReadPlan() const;  // nullopt: there is none, or it is closed
  void WritePlan(const Plan& plan) const;
  std::optional<AttachState> ReadState() const;
  void WriteState(const AttachState& state) const;
  void RemoveState() const;
  // No hook moves anything for this claim from now on: the plan goes aside, for GiveBack alone. Repeatable. WritePlan
  // opens it again.
  void Close() const;
  std::optional<Plan> ReadPlanOrClosed() const;
  // Plan, state, temp files and pin; the directory itself is the host's. After GiveBack.
  void Clear() const;
  // The namespace that is pinned; nullopt if there is none, or this process does not see the mount: the machine was
  // started anew, a crash came before the mount, or the process's mount namespace receives none.
  std::optional<NetworkNamespace> OpenPin() const;
  std::string pin() const { return path_ + "/netns"; }
  // The running boot, as a plan notes it.
  static std::string BootId();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class ClaimFolder::Lock {
 public:
  explicit Lock(int fd) : fd_(fd) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock();

 private:
  int fd_;
};

}  // namespace rdma
