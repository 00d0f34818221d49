#pragma once

#include <linux/netlink.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

namespace rdma {

// The attributes of an answer, by type; of several of one type the last. Never reads beyond the bytes given: what is
// cut off or claims more than is there ends the list, a value shorter than its type counts as absent.
class Attributes {
 public:
  using Bytes = std::span<const uint8_t>;

  explicit Attributes(Bytes bytes) {
    ForEach(bytes, [this](int type, Bytes value) {
      if (static_cast<size_t>(type) < values_.size()) values_[static_cast<size_t>(type)] = value;
    });
  }

  bool Has(int type) const { return Find(type).data() != nullptr; }
  // Empty if it is not there.
  Bytes Find(int type) const { return values_.at(static_cast<size_t>(type)); }
  template <typename T>
  std::optional<T> Get(int type) const {
    const Bytes value = Find(type);
    if (value.size() < sizeof(T)) return std::nullopt;
    T result;
    std::memcpy(&result, value.data(), sizeof(T));
    return result;
  }
  // Up to its NUL, if there is one.
  std::string Text(int type) const { return ToText(Find(type)); }
  Attributes Nested(int type) const { return Attributes(Find(type)); }

  static std::string ToText(Bytes value) {
    if (value.empty()) return "";
    const char* text = reinterpret_cast<const char*>(value.data());
    return std::string(text, strnlen(text, value.size()));
  }

  template <typename Function>  // void(int type, Bytes value)
  static void ForEach(Bytes bytes, const Function& function) {
    while (bytes.size() >= sizeof(nlattr)) {
      nlattr header;
      std::memcpy(&header, bytes.data(), sizeof(header));
      if (header.nla_len < sizeof(header) || header.nla_len > bytes.size()) return;
      function(header.nla_type & NLA_TYPE_MASK,
               bytes.subspan(sizeof(header), header.nla_len - sizeof(header)));
      const size_t step = NLA_ALIGN(static_cast<size_t>(header.nla_len));
      if (step >= bytes.size()) return;
      bytes = bytes.subspan(step);
    }
  }

 private:
  std::array<Bytes, 128> values_{};
};

// The family's header of an answer and what follows it. False if the answer is too short.
template <typename Header>
bool SplitAnswer(const nlmsghdr* answer, Header* header, Attributes::Bytes* attributes) {
  const auto* start = reinterpret_cast<const uint8_t*>(answer);
  const size_t begin = NLMSG_HDRLEN;
  if (answer->nlmsg_len < begin + sizeof(Header)) return false;
  std::memcpy(header, start + begin, sizeof(Header));
  const size_t after = begin + NLMSG_ALIGN(sizeof(Header));
  *attributes = after >= answer->nlmsg_len
                    ? Attributes::Bytes{}
                    : Attributes::Bytes(start + after, answer->nlmsg_len - after);
  return true;
}

}  // namespace rdma
