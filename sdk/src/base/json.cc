#include "dra/base/json.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "dra/base/json_nesting.h"
#include "dra/base/status.h"
#include "nlohmann/json.hpp"

namespace dra {
namespace {

// Deeper documents than any Kubernetes object are refused before the recursive parts of the library meet them.
constexpr int kMaxDepth = 128;

class DepthGuard : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return Enter(); }
  bool key(string_t&) override { return true; }
  bool end_object() override { return Leave(); }
  bool start_array(std::size_t) override { return Enter(); }
  bool end_array() override { return Leave(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    position_ = position;
    text_ = error.what();
    // The library goes on with what it read last: that may be a token or a parameter.
    const size_t quoted = text_.find("; last read: ");
    if (quoted != std::string::npos) text_.resize(quoted);
    return false;
  }

  std::size_t position() const { return position_; }
  const std::string& text() const { return text_; }

 private:
  bool Enter() {
    if (++depth_ <= kMaxDepth) return true;
    text_ = absl::StrCat("nested deeper than ", kMaxDepth);
    return false;
  }
  bool Leave() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  std::size_t position_ = 0;
  std::string text_ = "not JSON";
};

}  // namespace

size_t JsonNesting(absl::string_view text) {
  size_t depth = 0;
  size_t deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

absl::StatusOr<Json> ParseJson(absl::string_view text, absl::string_view what) {
  // The library's own way to look at the depth, a callback for each value, takes most of the time of a parse; and every
  // claim is parsed on the way to its pod. The second pass names the place.
  if (JsonNesting(text) <= kMaxDepth) {
    Json value = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
    if (!value.is_discarded()) return value;
  }
  DepthGuard guard;
  Json::sax_parse(text.begin(), text.end(), &guard);
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": not valid JSON at byte ", guard.position(), ": ", guard.text()));
}

absl::StatusOr<Json> ParseJsonObject(absl::string_view text, absl::string_view what) {
  DRA_ASSIGN_OR_RETURN(Json value, ParseJson(text, what));
  if (!value.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": must be a JSON object, is ", value.type_name()));
  }
  return value;
}

std::string DumpJson(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string DumpJsonPretty(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

const Json* Find(const Json& object, absl::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string_view(key.data(), key.size()));
  return found == object.end() ? nullptr : &*found;
}

std::string StringOr(const Json& object, absl::string_view key, absl::string_view fallback) {
  const Json* value = Find(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string(fallback);
}

bool BoolOr(const Json& object, absl::string_view key, bool fallback) {
  const Json* value = Find(object, key);
  return value != nullptr && value->is_boolean() ? value->get<bool>() : fallback;
}

int64_t IntOr(const Json& object, absl::string_view key, int64_t fallback) {
  const Json* value = Find(object, key);
  return value != nullptr && value->is_number_integer() ? value->get<int64_t>() : fallback;
}

}  // namespace dra
