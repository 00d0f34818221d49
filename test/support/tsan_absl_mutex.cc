// Tells ThreadSanitizer of abseil's locks. Debian's abseil is not built for it: without this every correct use of
// absl::Mutex would be reported as a race. Linked into TSan programs only, with the linker's --wrap for each function
// below (see LayerTargets.cmake), which puts __wrap_X in the place of X and keeps X as __real_X.

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}

namespace {

// Unlock and the waits evaluate other threads' Conditions, with the mutex held but after our release: not a race.
class IgnoreReads {
 public:
  IgnoreReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~IgnoreReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

void Acquire(const void* address) { __tsan_acquire(const_cast<void*>(address)); }
void Release(const void* address) { __tsan_release(const_cast<void*>(address)); }

}  // namespace

#define DRA_MUTEX(name) _ZN4absl7debian35Mutex##name
#define DRA_CONCAT_(a, b) a##b
#define DRA_CONCAT(a, b) DRA_CONCAT_(a, b)
#define DRA_WRAP(symbol) DRA_CONCAT(__wrap_, symbol)
#define DRA_REAL(symbol) DRA_CONCAT(__real_, symbol)

// Takes the lock, then sees what its last holder wrote.
#define DRA_LOCKS(symbol, parameters, arguments) \
  void DRA_REAL(symbol) parameters;              \
  void DRA_WRAP(symbol) parameters {             \
    {                                            \
      const IgnoreReads ignore;                  \
      DRA_REAL(symbol) arguments;                \
    }                                            \
    Acquire(self);                               \
  }
#define DRA_TRIES(symbol, parameters, arguments, taken) \
  bool DRA_REAL(symbol) parameters;                     \
  bool DRA_WRAP(symbol) parameters {                    \
    bool result = false;                                \
    {                                                   \
      const IgnoreReads ignore;                         \
      result = DRA_REAL(symbol) arguments;              \
    }                                                   \
    if (taken) Acquire(self);                           \
    return result;                                      \
  }
#define DRA_UNLOCKS(symbol)                   \
  void DRA_REAL(symbol)(absl::Mutex*);        \
  void DRA_WRAP(symbol)(absl::Mutex * self) { \
    Release(self);                            \
    const IgnoreReads ignore;                 \
    DRA_REAL(symbol)(self);                   \
  }
// Gives `mutex` back while it waits, and has it again when it returns.
#define DRA_WAITS(type, symbol, parameters, arguments, mutex) \
  type DRA_REAL(symbol) parameters;                           \
  type DRA_WRAP(symbol) parameters {                          \
    struct Again {                                            \
      const void* address;                                    \
      ~Again() { Acquire(address); }                          \
    } again{mutex};                                           \
    Release(mutex);                                           \
    const IgnoreReads ignore;                                 \
    return DRA_REAL(symbol) arguments;                        \
  }

extern "C" {

DRA_LOCKS(DRA_MUTEX(4LockEv), (absl::Mutex * self), (self))
DRA_LOCKS(DRA_MUTEX(10ReaderLockEv), (absl::Mutex * self), (self))
DRA_LOCKS(DRA_MUTEX(8LockWhenERKNS0_9ConditionE),
          (absl::Mutex * self, const absl::Condition& condition), (self, condition))
DRA_LOCKS(DRA_MUTEX(14ReaderLockWhenERKNS0_9ConditionE),
          (absl::Mutex * self, const absl::Condition& condition), (self, condition))
// These two hold the lock whether the condition came true or not.
DRA_TRIES(DRA_MUTEX(19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE),
          (absl::Mutex * self, const absl::Condition& condition, absl::Duration timeout),
          (self, condition, timeout), true)
DRA_TRIES(DRA_MUTEX(20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE),
          (absl::Mutex * self, const absl::Condition& condition, absl::Time deadline),
          (self, condition, deadline), true)
DRA_TRIES(DRA_MUTEX(7TryLockEv), (absl::Mutex * self), (self), result)
DRA_TRIES(DRA_MUTEX(13ReaderTryLockEv), (absl::Mutex * self), (self), result)
DRA_UNLOCKS(DRA_MUTEX(6UnlockEv))
DRA_UNLOCKS(DRA_MUTEX(12ReaderUnlockEv))
DRA_WAITS(void, DRA_MUTEX(5AwaitERKNS0_9ConditionE),
          (absl::Mutex * self, const absl::Condition& condition), (self, condition), self)
DRA_WAITS(bool, DRA_MUTEX(16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE),
          (absl::Mutex * self, const absl::Condition& condition, absl::Duration timeout),
          (self, condition, timeout), self)
DRA_WAITS(bool, DRA_MUTEX(17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE),
          (absl::Mutex * self, const absl::Condition& condition, absl::Time deadline),
          (self, condition, deadline), self)
DRA_WAITS(void, _ZN4absl7debian37CondVar4WaitEPNS0_5MutexE,
          (absl::CondVar * self, absl::Mutex* mutex), (self, mutex), mutex)
DRA_WAITS(bool, _ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE,
          (absl::CondVar * self, absl::Mutex* mutex, absl::Duration timeout),
          (self, mutex, timeout), mutex)
DRA_WAITS(bool, _ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE,
          (absl::CondVar * self, absl::Mutex* mutex, absl::Time deadline), (self, mutex, deadline),
          mutex)

void __real__ZN4absl7debian312Notification6NotifyEv(absl::Notification*);
void __wrap__ZN4absl7debian312Notification6NotifyEv(absl::Notification* self) {
  Release(self);
  __real__ZN4absl7debian312Notification6NotifyEv(self);
}
DRA_LOCKS(_ZNK4absl7debian312Notification19WaitForNotificationEv, (const absl::Notification* self),
          (self))
DRA_TRIES(_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE,
          (const absl::Notification* self, absl::Duration timeout), (self, timeout), result)
DRA_TRIES(_ZNK4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE,
          (const absl::Notification* self, absl::Time deadline), (self, deadline), result)

}  // extern "C"
