#pragma once

#include <stdexcept>
#include <string>

namespace rdma {

// The kernel's answer to one netlink request, or what went wrong on the way. error: an errno, positive.
// what(): "set link eth0: Operation not supported (<the kernel's own text>)".
class NetlinkError : public std::runtime_error {
 public:
  NetlinkError(int error, const std::string& text) : std::runtime_error(text), error_(error) {}
  int error() const { return error_; }

 private:
  int error_;
};

// "<what>: <the errno in words>[ (<detail>)]".
NetlinkError MakeNetlinkError(int error, const std::string& what, const std::string& detail = "");

}  // namespace rdma
