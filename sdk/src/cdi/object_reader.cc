#include "cdi/object_reader.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dra::cdi {

ObjectReader::ObjectReader(const Json& value, std::string path)
    : value_(value), path_(std::move(path)) {
  if (!value.is_object()) {
    Fail(path_, absl::StrCat("is ", value.type_name(), ", must be an object"));
  }
}

std::string ObjectReader::MemberPath(absl::string_view key) const {
  return path_.empty() ? std::string(key) : absl::StrCat(path_, ".", key);
}

std::string ObjectReader::ElementPath(absl::string_view key, size_t index) const {
  return absl::StrCat(MemberPath(key), "[", index, "]");
}

void ObjectReader::Fail(const std::string& path, absl::string_view problem) {
  if (!status_.ok()) return;
  status_ =
      absl::InvalidArgumentError(absl::StrCat(path.empty() ? "document" : path, ": ", problem));
}

const Json* ObjectReader::Get(absl::string_view key) {
  known_.insert(std::string(key));
  return status_.ok() ? Find(value_, key) : nullptr;
}

const Json* ObjectReader::Array(absl::string_view key) {
  const Json* value = Get(key);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) {
    Fail(MemberPath(key), absl::StrCat("is ", value->type_name(), ", must be an array"));
    return nullptr;
  }
  return value;
}

void ObjectReader::Require(absl::string_view key) {
  if (status_.ok() && Find(value_, key) == nullptr) Fail(MemberPath(key), "is required");
}

void ObjectReader::String(absl::string_view key, std::string& out) {
  const Json* value = Get(key);
  if (value == nullptr) return;
  if (!value->is_string()) {
    return Fail(MemberPath(key), absl::StrCat("is ", value->type_name(), ", must be a string"));
  }
  out = value->get_ref<const std::string&>();
}

void ObjectReader::RequiredString(absl::string_view key, std::string& out) {
  Require(key);
  String(key, out);
}

void ObjectReader::Bool(absl::string_view key, bool& out) {
  const Json* value = Get(key);
  if (value == nullptr) return;
  if (!value->is_boolean()) {
    return Fail(MemberPath(key),
                absl::StrCat("is ", value->type_name(), ", must be true or false"));
  }
  out = value->get<bool>();
}

namespace {

bool IsInt64(const Json& value) {
  if (value.is_number_unsigned()) {
    return value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  }
  return value.is_number_integer();
}

bool IsUint32(const Json& value) {
  return value.is_number_unsigned() &&
         value.get<uint64_t>() <= std::numeric_limits<uint32_t>::max();
}

}  // namespace

void ObjectReader::Int64(absl::string_view key, std::optional<int64_t>& out) {
  const Json* value = Get(key);
  if (value == nullptr) return;
  if (!IsInt64(*value)) {
    return Fail(MemberPath(key),
                absl::StrCat("is ", DumpJson(*value), ", must be a 64-bit integer"));
  }
  out = value->get<int64_t>();
}

void ObjectReader::Int64(absl::string_view key, int64_t& out) {
  std::optional<int64_t> read;
  Int64(key, read);
  if (read.has_value()) out = *read;
}

void ObjectReader::Uint32(absl::string_view key, std::optional<uint32_t>& out) {
  const Json* value = Get(key);
  if (value == nullptr) return;
  if (!IsUint32(*value)) {
    return Fail(MemberPath(key),
                absl::StrCat("is ", DumpJson(*value), ", must be an integer from 0 to 4294967295"));
  }
  out = value->get<uint32_t>();
}

void ObjectReader::Strings(absl::string_view key, std::vector<std::string>& out) {
  Each(key, [&out](const Json& element, const std::string& path) -> absl::Status {
    if (!element.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": is ", element.type_name(), ", must be a string"));
    }
    out.push_back(element.get_ref<const std::string&>());
    return absl::OkStatus();
  });
}

void ObjectReader::Strings(absl::string_view key, std::optional<std::vector<std::string>>& out) {
  if (Get(key) == nullptr) return;
  out.emplace();
  Strings(key, *out);
}

void ObjectReader::Uint32s(absl::string_view key, std::vector<uint32_t>& out) {
  Each(key, [&out](const Json& element, const std::string& path) -> absl::Status {
    if (!IsUint32(element)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": is ", DumpJson(element),
                                                     ", must be an integer from 0 to 4294967295"));
    }
    out.push_back(element.get<uint32_t>());
    return absl::OkStatus();
  });
}

void ObjectReader::StringMap(absl::string_view key, std::map<std::string, std::string>& out) {
  Member(key, [&out](const Json& value, const std::string& path) -> absl::Status {
    if (!value.is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": is ", value.type_name(), ", must be an object"));
    }
    for (const auto& [name, member] : value.items()) {
      if (!member.is_string()) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ".", name, ": is ", member.type_name(), ", must be a string"));
      }
      out[name] = member.get_ref<const std::string&>();
    }
    return absl::OkStatus();
  });
}

absl::Status ObjectReader::Finish() {
  if (!status_.ok()) return status_;
  for (const auto& [key, member] : value_.items()) {
    if (known_.count(key) == 0)
      Fail(MemberPath(key), "is not a CDI field (names are case-sensitive)");
  }
  return status_;
}

std::string FindDuplicateKey(absl::string_view text) {
  std::vector<std::set<std::string>> seen;
  std::vector<std::string> path;  // the key being read in each open object
  std::string duplicate;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
        seen.emplace_back();
        path.emplace_back();
        break;
      case Json::parse_event_t::object_end:
        seen.pop_back();
        path.pop_back();
        break;
      case Json::parse_event_t::key:
        path.back() = parsed.get_ref<const std::string&>();
        if (duplicate.empty() && !seen.back().insert(path.back()).second) {
          for (const std::string& key : path) {
            absl::StrAppend(&duplicate, duplicate.empty() ? "" : ".", key);
          }
        }
        break;
      default:
        break;
    }
    return true;
  };
  const Json ignored = Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  return duplicate;
}

}  // namespace dra::cdi
