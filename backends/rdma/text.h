#pragma once

#include <string>
#include <vector>

namespace rdma {

bool IsUtf8(const std::string& text);
// The longest prefix of at most `limit` bytes that ends at a character's end.
std::string CutUtf8(const std::string& text, size_t limit);
std::string Lower(std::string text);       // ASCII
bool IsDnsLabel(const std::string& text);  // RFC 1123, at most 63 bytes
// * is any run of characters, ? any one.
bool MatchesGlob(const std::string& glob, const std::string& text);
// "a, b, c".
std::string Join(const std::vector<std::string>& parts, const char* between);

}  // namespace rdma
