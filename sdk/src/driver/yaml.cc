#include "dra/driver/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dra/base/status.h"

namespace dra::driver {
namespace {

// yaml-cpp counts from 0, and gives -1 for a node that is not in the text.
std::string Place(absl::string_view what, const YAML::Mark& mark) {
  return absl::StrCat(what, ":", mark.line + 1, ":", mark.column + 1);
}

constexpr int kMaxDepth = 64;

absl::Status NodeToJson(const YAML::Node& node, absl::string_view what, int depth, Json* out);

// A plain (unquoted) scalar by the YAML 1.2 core schema.
Json PlainScalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL")
    return nullptr;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  const char first = text[0];
  const bool numeric =
      (first >= '0' && first <= '9') || first == '-' || first == '+' || first == '.';
  if (!numeric) return text;
  int64_t integer = 0;
  if (first != '+' && first != '.' && absl::SimpleAtoi(text, &integer)) return integer;
  double number = 0;
  if (text.find_first_not_of("0123456789+-.eE") == std::string::npos &&
      absl::SimpleAtod(text, &number))
    return number;
  return text;
}

absl::Status MappingToJson(const YAML::Node& node, absl::string_view what, int depth, Json* out) {
  *out = Json::object();
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat(Place(what, entry.first.Mark()), ": a key must be a string"));
    }
    const std::string key = entry.first.Scalar();
    if (out->contains(key)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Place(what, entry.first.Mark()), ": duplicate key \"", key, "\""));
    }
    Json value;
    DRA_RETURN_IF_ERROR(NodeToJson(entry.second, what, depth + 1, &value));
    (*out)[key] = std::move(value);
  }
  return absl::OkStatus();
}

absl::Status NodeToJson(const YAML::Node& node, absl::string_view what, int depth, Json* out) {
  if (depth > kMaxDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat(Place(what, node.Mark()), ": nested deeper than ", kMaxDepth));
  }
  switch (node.Type()) {
    case YAML::NodeType::Scalar:
      // yaml-cpp tags a quoted scalar "!" and a plain one "?".
      *out = node.Tag() == "!" ? Json(node.Scalar()) : PlainScalar(node.Scalar());
      return absl::OkStatus();
    case YAML::NodeType::Sequence:
      *out = Json::array();
      for (const YAML::Node& item : node) {
        Json value;
        DRA_RETURN_IF_ERROR(NodeToJson(item, what, depth + 1, &value));
        out->push_back(std::move(value));
      }
      return absl::OkStatus();
    case YAML::NodeType::Map:
      return MappingToJson(node, what, depth, out);
    default:
      *out = nullptr;
      return absl::OkStatus();
  }
}

// Where documents begin; the rest of what a parser says is left out.
class DocumentStarts final : public YAML::EventHandler {
 public:
  YAML::Mark last;

  void OnDocumentStart(const YAML::Mark& mark) override { last = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// yaml-cpp 0.7 makes empty documents without end of a text like ", a": each starts where the one before did.
absl::Status CheckDocumentsEnd(const std::string& text, absl::string_view what) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStarts starts;
  int before = -1;
  while (parser.HandleNextDocument(starts)) {
    if (starts.last.pos == before) {
      return absl::InvalidArgumentError(
          absl::StrCat(Place(what, starts.last), ": no YAML value begins here"));
    }
    before = starts.last.pos;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<YAML::Node>> LoadDocuments(absl::string_view text,
                                                      absl::string_view what) {
  try {
    DRA_RETURN_IF_ERROR(CheckDocumentsEnd(std::string(text), what));
    return YAML::LoadAll(std::string(text));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(Place(what, error.mark), ": ", error.msg));
  }
}

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

absl::StatusOr<std::vector<Json>> YamlToJson(absl::string_view text, absl::string_view what) {
  DRA_ASSIGN_OR_RETURN(const std::vector<YAML::Node> documents, LoadDocuments(text, what));
  std::vector<Json> values;
  for (const YAML::Node& document : documents) {
    Json value;
    DRA_RETURN_IF_ERROR(NodeToJson(document, what, 0, &value));
    if (!value.is_null()) values.push_back(std::move(value));
  }
  return values;
}

std::string NearestName(absl::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  size_t least = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

struct YamlMapping::Document {
  std::string what;
  std::multimap<int, std::string> errors;      // by line
  std::vector<std::unique_ptr<Level>> levels;  // live as long as the document
};

struct YamlMapping::Level {
  Document* document = nullptr;  // owns this
  YAML::Node node;               // a mapping, or undefined when absent
  std::string path;              // "drivers[0]"
  std::set<std::string> asked;

  std::string PathOf(absl::string_view key) const {
    return path.empty() ? std::string(key) : absl::StrCat(path, ".", key);
  }
  void Error(const YAML::Mark& mark, absl::string_view key, absl::string_view problem) {
    document->errors.emplace(
        mark.line, absl::StrCat(Place(document->what, mark), ": ", PathOf(key), ": ", problem));
  }
  // The node at `key`, undefined if absent or null.
  YAML::Node Get(absl::string_view key) {
    asked.insert(std::string(key));
    if (!node.IsDefined() || !node.IsMap()) return YAML::Node(YAML::NodeType::Undefined);
    for (const auto& entry : node) {
      if (entry.first.IsScalar() && entry.first.Scalar() == key && !entry.second.IsNull())
        return entry.second;
    }
    return YAML::Node(YAML::NodeType::Undefined);
  }
};

std::shared_ptr<YamlMapping::Document> YamlMapping::Owner() const {
  return std::shared_ptr<Document>(level_, level_->document);
}

// A new level of the document; the pointer keeps the whole document alive.
std::shared_ptr<YamlMapping::Level> YamlMapping::AddLevel(const std::shared_ptr<Document>& document,
                                                          std::string path) {
  auto level = std::make_unique<Level>();
  level->document = document.get();
  level->path = std::move(path);
  document->levels.push_back(std::move(level));
  return std::shared_ptr<Level>(document, document->levels.back().get());
}

YamlMapping::YamlMapping(std::shared_ptr<Level> level) : level_(std::move(level)) {}
YamlMapping::YamlMapping(const YamlMapping&) = default;
YamlMapping::YamlMapping(YamlMapping&&) noexcept = default;
YamlMapping::~YamlMapping() = default;

absl::StatusOr<YamlMapping> YamlMapping::Parse(absl::string_view text, absl::string_view what) {
  DRA_ASSIGN_OR_RETURN(const std::vector<YAML::Node> documents, LoadDocuments(text, what));
  if (documents.size() != 1 || !documents[0].IsMap()) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": must be one YAML mapping"));
  }
  Json unused;  // finds duplicate keys and keys that are no strings
  DRA_RETURN_IF_ERROR(NodeToJson(documents[0], what, 0, &unused));
  const auto document = std::make_shared<Document>();
  document->what = std::string(what);
  const std::shared_ptr<Level> level = AddLevel(document, "");
  level->node.reset(documents[0]);
  return YamlMapping(level);
}

void YamlMapping::String(absl::string_view key, std::string* out) {
  const YAML::Node node = level_->Get(key);
  if (!node.IsDefined()) return;
  if (!node.IsScalar()) return level_->Error(node.Mark(), key, "must be a string");
  *out = node.Scalar();
}

void YamlMapping::Bool(absl::string_view key, bool* out) {
  const YAML::Node node = level_->Get(key);
  if (!node.IsDefined()) return;
  const Json value = node.IsScalar() && node.Tag() != "!" ? PlainScalar(node.Scalar()) : Json();
  if (!value.is_boolean()) return level_->Error(node.Mark(), key, "must be true or false");
  *out = value.get<bool>();
}

void YamlMapping::Int(absl::string_view key, int min, int max, int* out) {
  const YAML::Node node = level_->Get(key);
  if (!node.IsDefined()) return;
  int value = 0;
  if (!node.IsScalar() || !absl::SimpleAtoi(node.Scalar(), &value) || value < min || value > max) {
    return level_->Error(node.Mark(), key,
                         absl::StrCat("must be an integer from ", min, " to ", max));
  }
  *out = value;
}

void YamlMapping::Duration(absl::string_view key, absl::Duration min, absl::Duration max,
                           absl::Duration* out) {
  const YAML::Node node = level_->Get(key);
  if (!node.IsDefined()) return;
  absl::Duration value;
  if (!node.IsScalar() || !absl::ParseDuration(node.Scalar(), &value) || value < min ||
      value > max) {
    return level_->Error(
        node.Mark(), key,
        absl::StrCat("must be a duration such as \"30s\", from ", absl::FormatDuration(min), " to ",
                     absl::FormatDuration(max)));
  }
  *out = value;
}

void YamlMapping::Strings(absl::string_view key, std::vector<std::string>* out) {
  const YAML::Node node = level_->Get(key);
  if (!node.IsDefined()) return;
  if (!node.IsSequence()) return level_->Error(node.Mark(), key, "must be a list of strings");
  out->clear();
  for (const YAML::Node& item : node) {
    if (!item.IsScalar()) return level_->Error(item.Mark(), key, "must be a list of strings");
    out->push_back(item.Scalar());
  }
}

void YamlMapping::Any(absl::string_view key, Json* out) {
  const YAML::Node node = level_->Get(key);
  if (!node.IsDefined()) return;
  const absl::Status converted = NodeToJson(node, level_->document->what, 0, out);
  if (!converted.ok()) level_->Error(node.Mark(), key, std::string(converted.message()));
}

void YamlMapping::OneOf(absl::string_view key, const std::vector<std::string>& allowed,
                        std::string* out) {
  const YAML::Node node = level_->Get(key);
  if (!node.IsDefined()) return;
  if (!node.IsScalar() ||
      std::find(allowed.begin(), allowed.end(), node.Scalar()) == allowed.end()) {
    return level_->Error(node.Mark(), key,
                         absl::StrCat("must be one of ", absl::StrJoin(allowed, ", ")));
  }
  *out = node.Scalar();
}

std::vector<std::string> YamlMapping::Keys() const {
  std::vector<std::string> keys;
  if (!level_->node.IsDefined() || !level_->node.IsMap()) return keys;
  for (const auto& entry : level_->node) keys.push_back(entry.first.Scalar());
  return keys;
}

YamlMapping YamlMapping::Mapping(absl::string_view key) {
  const std::shared_ptr<Level> level = AddLevel(Owner(), level_->PathOf(key));
  level->node.reset(level_->Get(key));
  if (level->node.IsDefined() && !level->node.IsMap()) {
    level_->Error(level->node.Mark(), key, "must be a mapping");
    level->node.reset(YAML::Node(YAML::NodeType::Undefined));
  }
  return YamlMapping(level);
}

std::vector<YamlMapping> YamlMapping::Mappings(absl::string_view key) {
  std::vector<YamlMapping> mappings;
  const YAML::Node node = level_->Get(key);
  if (!node.IsDefined()) return mappings;
  if (!node.IsSequence()) {
    level_->Error(node.Mark(), key, "must be a list of mappings");
    return mappings;
  }
  for (size_t i = 0; i < node.size(); ++i) {
    if (!node[i].IsMap()) {
      level_->Error(node[i].Mark(), absl::StrCat(key, "[", i, "]"), "must be a mapping");
      continue;
    }
    const std::shared_ptr<Level> level =
        AddLevel(Owner(), level_->PathOf(absl::StrCat(key, "[", i, "]")));
    level->node.reset(node[i]);
    mappings.push_back(YamlMapping(level));
  }
  return mappings;
}

void YamlMapping::Fail(absl::string_view key, absl::string_view problem) {
  const YAML::Node node = level_->Get(key);
  level_->Error(node.IsDefined()           ? node.Mark()
                : level_->node.IsDefined() ? level_->node.Mark()
                                           : YAML::Mark(),
                key, problem);
}

absl::Status YamlMapping::Finish() {
  Document& document = *level_->document;
  for (const std::unique_ptr<Level>& level : document.levels) {
    if (!level->node.IsDefined() || !level->node.IsMap()) continue;
    const std::vector<std::string> known(level->asked.begin(), level->asked.end());
    for (const auto& entry : level->node) {
      const std::string key = entry.first.Scalar();
      if (level->asked.count(key) > 0) continue;
      const std::string nearest = NearestName(key, known);
      const std::string hint = nearest.empty()
                                   ? absl::StrCat("known keys: ", absl::StrJoin(known, ", "))
                                   : absl::StrCat("did you mean \"", nearest, "\"?");
      level->Error(entry.first.Mark(), key, absl::StrCat("unknown key; ", hint));
    }
  }
  if (document.errors.empty()) return absl::OkStatus();
  std::vector<std::string> lines;
  for (const auto& [line, text] : document.errors) lines.push_back(text);
  return absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
}

}  // namespace dra::driver
