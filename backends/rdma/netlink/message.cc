#include "message.h"

#include <netlink/attr.h>
#include <netlink/msg.h>

#include <cerrno>
#include <cstring>

namespace rdma {
namespace {

[[noreturn]] void TooLong() {
  throw NetlinkError(EMSGSIZE, "netlink request: it would be longer than a page");
}

}  // namespace

void RequestMessage::Free::operator()(nl_msg* message) const { nlmsg_free(message); }

RequestMessage::RequestMessage(int type, int flags) : message_(nlmsg_alloc_simple(type, flags)) {
  if (!message_) throw NetlinkError(ENOMEM, "netlink request: no memory");
}

void* RequestMessage::Reserve(size_t size) {
  void* header = nlmsg_reserve(message_.get(), size, NLMSG_ALIGNTO);
  if (header == nullptr) TooLong();
  return std::memset(header, 0, size);
}

void RequestMessage::Put(int attribute, const void* data, size_t size) {
  if (nla_put(message_.get(), attribute, static_cast<int>(size), data) < 0) TooLong();
}

void RequestMessage::PutString(int attribute, const std::string& text) {
  Put(attribute, text.c_str(), text.size() + 1);
}

nlattr* RequestMessage::Begin(int attribute) {
  nlattr* nest = nla_nest_start(message_.get(), attribute);
  if (nest == nullptr) TooLong();
  return nest;
}

void RequestMessage::End(nlattr* nest) {
  if (nla_nest_end(message_.get(), nest) < 0) TooLong();
}

NetlinkMessage RequestMessage::Bytes() const {
  const nlmsghdr* header = nlmsg_hdr(message_.get());
  const auto* bytes = reinterpret_cast<const uint8_t*>(header);
  return NetlinkMessage(bytes, bytes + header->nlmsg_len);
}

}  // namespace rdma
