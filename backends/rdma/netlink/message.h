#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "netlink_socket.h"

struct nlattr;

namespace rdma {

// A request under construction. Throws NetlinkError EMSGSIZE if it grows beyond a page.
class RequestMessage {
 public:
  RequestMessage(int type, int flags);

  // The family's header, zeroed; valid until the next call.
  template <typename Header>
  Header& Reserve() {
    return *static_cast<Header*>(Reserve(sizeof(Header)));
  }
  void Put(int attribute, const void* data, size_t size);
  void PutString(int attribute, const std::string& text);  // with its NUL
  void PutU8(int attribute, uint8_t value) { Put(attribute, &value, sizeof(value)); }
  void PutU32(int attribute, uint32_t value) { Put(attribute, &value, sizeof(value)); }
  // Attributes put until End lie inside this one.
  nlattr* Begin(int attribute);
  void End(nlattr* nest);

  nl_msg* get() const { return message_.get(); }
  NetlinkMessage Bytes() const;

 private:
  struct Free {
    void operator()(nl_msg* message) const;
  };
  void* Reserve(size_t size);

  std::unique_ptr<nl_msg, Free> message_;
};

}  // namespace rdma
