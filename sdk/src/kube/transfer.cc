#include "kube/transfer.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace dra::kube {
namespace {

// A stream whose reader lags this far is paused until it caught up.
constexpr size_t kPauseAtBytes = 8u << 20;

}  // namespace

size_t Transfer::OnHeader(char* data, size_t size, size_t count, void* self) {
  static_cast<Transfer*>(self)->Header(absl::string_view(data, size * count));
  return size * count;
}

size_t Transfer::OnBody(char* data, size_t size, size_t count, void* self) {
  return static_cast<Transfer*>(self)->Body(absl::string_view(data, size * count));
}

size_t Transfer::OnRead(char* buffer, size_t size, size_t count, void* self) {
  auto* transfer = static_cast<Transfer*>(self);
  const std::string& body = *transfer->request.body;
  const size_t given = std::min(size * count, body.size() - transfer->body_given);
  std::memcpy(buffer, body.data() + transfer->body_given, given);
  transfer->body_given += given;
  return given;
}

// libcurl asks for this before it sends a request again. Once the whole body was handed out the server may have
// carried the request out: the caller decides then.
int Transfer::OnSeek(void* self, curl_off_t offset, int origin) {
  auto* transfer = static_cast<Transfer*>(self);
  if (offset != 0 || origin != SEEK_SET) return CURL_SEEKFUNC_FAIL;
  if (transfer->body_given > 0 && transfer->body_given == transfer->request.body->size()) {
    return CURL_SEEKFUNC_FAIL;
  }
  transfer->body_given = 0;
  return CURL_SEEKFUNC_OK;
}

void Transfer::Header(absl::string_view line) {
  const std::lock_guard<std::mutex> lock(mutex);
  last_byte = std::chrono::steady_clock::now();
  if (absl::StartsWith(line, "HTTP/")) {  // the first of a (further) answer
    response = HttpResponse();
    long code = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
    response.code = static_cast<int>(code);
    return;
  }
  if (line == "\r\n" && stream && response.code / 100 == 2) {
    open = true;
    changed.notify_all();
    return;
  }
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos) return;
  const absl::string_view name = line.substr(0, colon);
  const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
  if (absl::EqualsIgnoreCase(name, "Content-Type")) response.content_type = std::string(value);
  if (absl::EqualsIgnoreCase(name, "Retry-After")) response.retry_after = ParseRetryAfter(value);
  if (absl::EqualsIgnoreCase(name, "Warning")) response.warnings.emplace_back(value);
}

size_t Transfer::Body(absl::string_view bytes) {
  const std::lock_guard<std::mutex> lock(mutex);
  last_byte = std::chrono::steady_clock::now();
  if (stream && response.code / 100 == 2) {
    if (received.size() >= kPauseAtBytes) {
      paused = true;
      return CURL_WRITEFUNC_PAUSE;
    }
    received.append(bytes.data(), bytes.size());
    changed.notify_all();
    return bytes.size();
  }
  if (response.body.size() + bytes.size() > max_body_bytes) {
    too_large = true;
    return 0;
  }
  response.body.append(bytes.data(), bytes.size());
  return bytes.size();
}

}  // namespace dra::kube
