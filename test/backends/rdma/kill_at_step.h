#pragma once

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>

namespace rdma {
namespace kill_at_step_internal {

template <typename T>
bool Peek(pid_t pid, uint64_t address, T& value) {
  iovec local{&value, sizeof(value)}, remote{reinterpret_cast<void*>(address), sizeof(value)};
  return process_vm_readv(pid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(sizeof(value));
}

// Requests of netlink that only look come as every third of four.
inline bool IsLooking(pid_t pid, uint64_t message) {
  msghdr header{};
  iovec part{};
  nlmsghdr request{};
  if (!Peek(pid, message, header) || !Peek(pid, reinterpret_cast<uint64_t>(header.msg_iov), part) ||
      !Peek(pid, reinterpret_cast<uint64_t>(part.iov_base), request)) {
    return false;
  }
  return request.nlmsg_type >= RTM_BASE && (request.nlmsg_type - RTM_BASE) % 4 == 2;
}

// A system call that changes something outside of the process.
inline bool IsStep(pid_t pid, const __ptrace_syscall_info& info) {
  const auto* arguments = info.entry.args;
  switch (info.entry.nr) {
    case SYS_sendto:
    case SYS_mount:
    case SYS_umount2:
    case SYS_rename:
    case SYS_unlink:
    case SYS_write:
    case SYS_fsync:
    case SYS_flock:
      return true;
    case SYS_sendmsg:
      return !IsLooking(pid, arguments[1]);
    case SYS_ioctl:
      return arguments[1] == SIOCETHTOOL;
    case SYS_openat:
      return (arguments[2] & (O_CREAT | O_WRONLY | O_RDWR)) != 0;
    default:
      return false;
  }
}

}  // namespace kill_at_step_internal

enum class Ended { kKilled, kReturned, kThrew };

// Runs `operation` in a child process, which is killed right before its n-th step (from 1): a system call that changes
// something outside of it. A crash at every point between two steps leaves the same behind.
inline Ended RunKilledAt(int n, const std::function<void()>& operation) {
  namespace internal = kill_at_step_internal;
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    try {
      operation();
    } catch (const std::exception&) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
    throw std::runtime_error("start a child to be traced");
  constexpr long kOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
  if (ptrace(PTRACE_SETOPTIONS, child, nullptr, kOptions) != 0)
    throw std::runtime_error(std::string("trace a child: ") + std::strerror(errno));
  ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  int steps = 0;
  for (;;) {
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread < 0) throw std::runtime_error("the traced child is lost");
    if (thread == child && WIFEXITED(status))
      return WEXITSTATUS(status) == 0 ? Ended::kReturned : Ended::kThrew;
    if (thread == child && WIFSIGNALED(status)) return Ended::kKilled;
    if (!WIFSTOPPED(status)) continue;  // a thread of the child ended
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      __ptrace_syscall_info info{};
      if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof(info), &info) > 0 &&
          info.op == PTRACE_SYSCALL_INFO_ENTRY && internal::IsStep(thread, info) && ++steps == n) {
        kill(child, SIGKILL);
        continue;
      }
    }
    ptrace(PTRACE_SYSCALL, thread, nullptr, nullptr);
  }
}

}  // namespace rdma
