#pragma once

#include <curl/curl.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "absl/strings/string_view.h"
#include "dra/base/clock.h"
#include "kube/credentials.h"
#include "kube/response.h"
#include "kube/transport.h"

namespace dra::kube {

// One request on its way. The caller waits on `changed`; the IO thread owns `easy` from kAdd until it is finished.
struct Transfer {
  ~Transfer() { curl_slist_free_all(headers); }

  // Set before it starts, then read by the IO thread alone.
  HttpRequest request;
  std::shared_ptr<const Credentials> credentials;
  std::string url;
  uint64_t max_body_bytes = 0;
  bool stream = false;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  char error[CURL_ERROR_SIZE] = {};
  size_t body_given = 0;

  // Guards what follows.
  std::mutex mutex;
  std::condition_variable_any changed;
  HttpResponse response;
  std::string received;  // of a 2xx stream: what the caller has not taken yet
  MonotonicTime last_byte;
  bool open = false;  // the head of a 2xx answer to a stream is there
  bool paused = false;
  bool too_large = false;
  bool done = false;
  CURLcode result = CURLE_OK;

  // libcurl's callbacks; `self` is a Transfer.
  static size_t OnHeader(char* data, size_t size, size_t count, void* self);
  static size_t OnBody(char* data, size_t size, size_t count, void* self);
  static size_t OnRead(char* buffer, size_t size, size_t count, void* self);
  static int OnSeek(void* self, curl_off_t offset, int origin);

 private:
  void Header(absl::string_view line);
  size_t Body(absl::string_view bytes);
};

}  // namespace dra::kube
