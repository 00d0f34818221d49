#pragma once

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "dra/base/unique_fd.h"

namespace dra::kubelet {

// Speaks HTTP/2 by hand, so that :authority is exactly what the test says. Returns the bytes of stream 1's DATA frames,
// or the type of the frame that ended it.
inline std::string RawGetInfo(const std::string& socket_path, const std::string& authority) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof(address.sun_path) - 1);
  const timeval limit{10, 0};
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return "no connection";
  const auto frame = [](char type, char flags, char stream, const std::string& payload) {
    std::string out = {0,
                       static_cast<char>(payload.size() >> 8),
                       static_cast<char>(payload.size()),
                       type,
                       flags,
                       0,
                       0,
                       0,
                       stream};
    return out + payload;
  };
  std::string headers;
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {":method", "POST"},
           {":scheme", "http"},
           {":path", "/pluginregistration.Registration/GetInfo"},
           {":authority", authority},
           {"content-type", "application/grpc"},
           {"te", "trailers"}}) {
    headers += '\0';  // literal, not indexed, new name
    headers += static_cast<char>(name.size()) + name;
    headers += static_cast<char>(value.size()) + value;
  }
  const std::string out = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "") +
                          frame(1, 4, 1, headers) + frame(0, 1, 1, std::string(5, '\0'));
  if (::send(fd.get(), out.data(), out.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(out.size()))
    return "not sent";
  std::string in;
  std::string data;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::recv(fd.get(), buffer, sizeof(buffer), 0);
    if (got <= 0) return "closed";
    in.append(buffer, static_cast<size_t>(got));
    while (in.size() >= 9) {
      const auto byte = [&in](size_t i) { return static_cast<unsigned char>(in[i]); };
      const size_t length = (size_t{byte(0)} << 16) | (size_t{byte(1)} << 8) | byte(2);
      if (in.size() < 9 + length) break;
      if (byte(3) == 7) return "GOAWAY";
      if (byte(8) == 1 && byte(3) == 3) return "RST_STREAM";
      if (byte(8) == 1 && byte(3) == 0) data += in.substr(9, length);
      const bool end = byte(8) == 1 && byte(3) == 1 && (byte(4) & 1) != 0;
      in.erase(0, 9 + length);
      if (end) return data;
    }
  }
}

}  // namespace dra::kubelet
