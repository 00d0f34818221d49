// The API server's bytes: a watch stream cut anywhere (the first byte says where), and single answers.
#include "kube/response.h"
#include "kube/watch_stream.h"
#include "test/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t step = size_t{1} + data[0];
  const absl::string_view text = dra::fuzz::Text(data + 1, size - 1);

  uint64_t told = 0;
  constexpr uint64_t kMaxLine = 1u << 16;
  dra::kube::WatchStream stream("ResourceSlice", kMaxLine,
                                [&](const dra::kube::WatchEvent&) { ++told; });
  absl::Status cut;
  for (size_t at = 0; at < text.size() && cut.ok(); at += step) {
    cut = stream.Feed(text.substr(at, step));
  }
  dra::fuzz::Require(told == stream.events(), "each event is told once");

  uint64_t whole_told = 0;
  dra::kube::WatchStream whole("ResourceSlice", kMaxLine,
                               [&](const dra::kube::WatchEvent&) { ++whole_told; });
  const absl::Status uncut = whole.Feed(text);
  dra::fuzz::Require(told == whole_told && cut.code() == uncut.code(),
                     "where the bytes are cut makes no difference");

  for (const int code : {200, 403, 502}) {
    dra::kube::HttpResponse response;
    response.code = code;
    response.content_type = step % 2 == 0 ? "application/json" : "text/html";
    response.body = std::string(text);
    const auto object = dra::kube::ObjectOfResponse(response, "ResourceSlice", "get");
    dra::fuzz::Require(code == 200 || !object.ok(), "a refusal is never an object");
    (void)dra::kube::ErrorOfResponse(response);
  }
  (void)dra::kube::ParseRetryAfter(text);
  return 0;
}
