#include "loader/payload.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "dra/base/json_nesting.h"
#include "dra/base/status.h"
#include "nlohmann/json.hpp"

namespace dra::loader {
namespace {

// Length of the UTF-8 sequence at `text[at]`, 0 if it is none.
size_t SequenceLength(absl::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return 1;
  size_t length = 0;
  uint32_t value = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
    value = first & 0x1Fu;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    value = first & 0x0Fu;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    value = first & 0x07u;
  } else {
    return 0;
  }
  if (at + length > text.size()) return 0;
  for (size_t i = at + 1; i < at + length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    value = (value << 6) | (byte(i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  return overlong || surrogate || value > 0x10FFFF ? 0 : length;
}

}  // namespace

bool IsCleanUtf8(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = SequenceLength(text, at);
    if (length == 0 || text[at] == '\0') return false;
    at += length;
  }
  return true;
}

bool IsDnsLabel(absl::string_view text) {
  if (text.empty() || text.size() > 63) return false;
  const auto alphanumeric = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return alphanumeric(text.front()) && alphanumeric(text.back()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return alphanumeric(c) || c == '-'; });
}

absl::StatusOr<absl::string_view> CheckedView(dra_str bytes, size_t max_bytes,
                                              absl::string_view what) {
  if (bytes.size == 0) return absl::string_view();
  if (bytes.data == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": NULL with a size of ", bytes.size));
  }
  if (bytes.size > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": ", bytes.size, " bytes, at most ", max_bytes, " are taken"));
  }
  return absl::string_view(bytes.data, bytes.size);
}

absl::StatusOr<std::string> CheckedBytes(dra_str bytes, size_t max_bytes, absl::string_view what) {
  DRA_ASSIGN_OR_RETURN(const absl::string_view view, CheckedView(bytes, max_bytes, what));
  return std::string(view);
}

absl::StatusOr<std::string> CheckedText(dra_str text, size_t max_bytes, absl::string_view what) {
  DRA_ASSIGN_OR_RETURN(std::string result, CheckedBytes(text, max_bytes, what));
  if (!IsCleanUtf8(result)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": not UTF-8, or with a NUL byte: \"", ShownText(text, 64), "\""));
  }
  return result;
}

std::string ShownText(dra_str text, size_t max_bytes) {
  if (text.size == 0 || text.data == nullptr) return "";
  const absl::string_view view(text.data, std::min(text.size, max_bytes));
  std::string result;
  for (size_t at = 0; at < view.size();) {
    const size_t length = view[at] == '\0' ? 0 : SequenceLength(view, at);
    if (length == 0) {
      result.push_back('?');
      ++at;
    } else {
      result.append(view.data() + at, length);
      at += length;
    }
  }
  return result;
}

absl::StatusOr<Json> CheckedJson(dra_str text, absl::string_view what, size_t max_bytes) {
  // Nothing of the text is shown: it may be edits or undo data with a secret in them.
  DRA_ASSIGN_OR_RETURN(const std::string checked, CheckedBytes(text, max_bytes, what));
  if (!IsCleanUtf8(checked)) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": not UTF-8, or with a NUL byte"));
  }
  if (checked.empty()) return Json(nullptr);
  if (const size_t depth = JsonNesting(checked); depth > kMaxJsonDepth) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, ": JSON nested ", depth, " levels, at most ", kMaxJsonDepth, " are taken"));
  }
  return ParseJson(checked, what);
}

absl::StatusOr<Json> CheckedObject(dra_str text, absl::string_view what, size_t max_bytes) {
  DRA_ASSIGN_OR_RETURN(Json value, CheckedJson(text, what, max_bytes));
  if (!value.is_null() && !value.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": must be a JSON object, is ", value.type_name()));
  }
  return value;
}

absl::Status ToStatus(dra_code code, const dra_error& err, absl::string_view hook) {
  if (code == DRA_OK) return absl::OkStatus();
  // The backend may have filled the whole array.
  const size_t size = ::strnlen(err.message, sizeof(err.message));
  const std::string text = ShownText({err.message, size}, sizeof(err.message));
  const std::string shown = text.empty() ? std::string("the backend gave no text") : text;
  if (code < DRA_OK || code > DRA_UNAUTHENTICATED) {
    return absl::UnknownError(
        absl::StrCat("hook ", hook, ": code ", code, " is not one of abi.h: ", shown));
  }
  return absl::Status(static_cast<absl::StatusCode>(code),
                      absl::StrCat("hook ", hook, ": ", shown));
}

dra_code FromStatus(const absl::Status& status, dra_error* err) {
  const auto code = static_cast<dra_code>(status.code());
  if (err == nullptr || status.ok()) return code;
  if (DRA_HAS(err, dra_error, code)) err->code = code;
  if (DRA_HAS(err, dra_error, message)) {
    const std::string text(status.message());
    size_t size = std::min(text.size(), sizeof(err->message) - 1);
    while (size > 0 && size < text.size() &&
           (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80)
      --size;
    std::memcpy(err->message, text.data(), size);
    err->message[size] = '\0';
  }
  return code;
}

}  // namespace dra::loader
