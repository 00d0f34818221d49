#include "dra/records/notes.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "dra/base/ids.h"
#include "dra/base/json.h"
#include "dra/base/status.h"
#include "nlohmann/json.hpp"

namespace dra::records {
namespace {

constexpr size_t kMaxValueBytes = 64u << 10;
constexpr size_t kHashDigits = 32;

std::string FileName(absl::string_view key) {
  return absl::StrCat(Sha256Hex(key).substr(0, kHashDigits), ".json");
}

absl::Status CheckNames(absl::string_view identity, absl::string_view key) {
  if (!identity.empty() && !key.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("note: identity and key must not be empty");
}

}  // namespace

Notes::Notes(FileSystem* fs, std::string directory) : fs_(fs), directory_(std::move(directory)) {}

std::string Notes::DirectoryFor(NoteOwner owner, absl::string_view identity) const {
  return JoinPath(JoinPath(directory_, owner == NoteOwner::kHost ? "host" : "backend"),
                  Sha256Hex(identity).substr(0, kHashDigits));
}

absl::StatusOr<std::string> Notes::Get(NoteOwner owner, absl::string_view identity,
                                       absl::string_view key) const {
  DRA_RETURN_IF_ERROR(CheckNames(identity, key));
  const std::string path = JoinPath(DirectoryFor(owner, identity), FileName(key));
  const absl::StatusOr<std::string> text = fs_->ReadOwnFile(path, 4 * kMaxValueBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat("no note \"", key, "\" for device \"", identity, "\""));
  }
  DRA_RETURN_IF_ERROR(text.status());
  const absl::StatusOr<Json> json = ParseJsonObject(*text, path);
  std::string value;
  // The names are stored beside the value: for a person, and against a file that was put in another's place.
  if (!json.ok() || identity != StringOr(*json, "identity") || key != StringOr(*json, "key") ||
      !absl::Base64Unescape(StringOr(*json, "value"), &value)) {
    return absl::DataLossError(absl::StrCat("note ", path, " is damaged; remove it to forget it"));
  }
  return value;
}

absl::Status Notes::Put(NoteOwner owner, absl::string_view identity, absl::string_view key,
                        absl::string_view value) const {
  DRA_RETURN_IF_ERROR(CheckNames(identity, key));
  if (value.size() > kMaxValueBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "note \"", key, "\" has ", value.size(), " bytes, at most ", kMaxValueBytes, " are kept"));
  }
  const std::string directory = DirectoryFor(owner, identity);
  const std::string path = JoinPath(directory, FileName(key));
  DRA_RETURN_IF_ERROR(MakeDirectories(*fs_, directory, 0700));
  // A note is as durable as the entries that lead to it, which may have been made just now. Before the file is written:
  // one that is there then says that its way is durable too, whoever made it.
  if (!fs_->Stat(path, false).ok()) DRA_RETURN_IF_ERROR(SyncWayTo(directory));
  const Json json = {{"identity", std::string(identity)},
                     {"key", std::string(key)},
                     {"value", absl::Base64Escape(value)}};
  return Annotate(WriteFileAtomically(*fs_, path, absl::StrCat(DumpJsonPretty(json), "\n"), 0600,
                                      Durability::kDurable),
                  "write note");
}

absl::Status Notes::SyncWayTo(const std::string& identity_directory) const {
  const std::string data = DirectoryName(directory_);
  std::string parent = DirectoryName(identity_directory);
  for (; parent != data; parent = DirectoryName(parent))
    DRA_RETURN_IF_ERROR(Annotate(fs_->SyncDirectory(parent), "write note"));
  return Annotate(fs_->SyncDirectory(data), "write note");
}

absl::StatusOr<std::vector<std::string>> Notes::ListTemporaries() const {
  std::vector<std::string> paths;
  for (const char* owner : {"host", "backend"}) {
    const std::string root = JoinPath(directory_, owner);
    const absl::StatusOr<std::vector<std::string>> identities = fs_->List(root);
    if (absl::IsNotFound(identities.status())) continue;
    DRA_RETURN_IF_ERROR(Annotate(identities.status(), "list the notes"));
    for (const std::string& identity : *identities) {
      const std::string directory = JoinPath(root, identity);
      const absl::StatusOr<FileInfo> info = fs_->Stat(directory);
      if (!info.ok() || info->type != FileType::kDirectory) continue;
      DRA_ASSIGN_OR_RETURN(const std::vector<std::string> files, fs_->List(directory));
      for (const std::string& name : files) {
        if (IsTemporaryName(name)) paths.push_back(JoinPath(directory, name));
      }
    }
  }
  return paths;
}

}  // namespace dra::records
