#include "dra/records/record_store.h"

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"

namespace dra::records {
namespace {

constexpr absl::string_view kSuffix = ".json";
constexpr absl::string_view kCorrupt = ".json.corrupt-";
// A claim whose record keeps getting damaged must not fill the disk: more than this many kept files are overwritten.
constexpr int kMaxKept = 16;

absl::Status CheckUid(absl::string_view claim_uid) {
  if (IsSafeFileId(claim_uid)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("claim uid \"", claim_uid,
                   "\" is not 1 to 128 characters of [A-Za-z0-9._-] with no leading '.'"));
}

}  // namespace

RecordStore::RecordStore(FileSystem* fs, std::string directory)
    : fs_(fs), directory_(std::move(directory)) {}

absl::Status RecordStore::Open() {
  DRA_RETURN_IF_ERROR(MakeDirectories(*fs_, directory_, 0700));
  return fs_->List(directory_).status();
}

std::string RecordStore::PathFor(absl::string_view claim_uid) const {
  return JoinPath(directory_, absl::StrCat(claim_uid, kSuffix));
}

std::string RecordStore::CorruptPath(absl::string_view claim_uid, int number) const {
  return JoinPath(directory_, absl::StrCat(claim_uid, kCorrupt, number));
}

absl::Status RecordStore::Save(const Record& record, Durability durability) {
  DRA_RETURN_IF_ERROR(CheckUid(record.claim.uid));
  return Annotate(
      WriteFileAtomically(*fs_, PathFor(record.claim.uid), EncodeRecord(record), 0600, durability),
      "write record");
}

absl::StatusOr<Record> RecordStore::Load(absl::string_view claim_uid) {
  DRA_RETURN_IF_ERROR(CheckUid(claim_uid));
  const absl::StatusOr<std::string> text = fs_->ReadFile(PathFor(claim_uid), kMaxBytes);
  if (text.ok()) {
    absl::StatusOr<Record> record = DecodeRecord(*text, claim_uid);
    if (record.ok()) return record;
    return Annotate(record.status(), absl::StrCat("record ", PathFor(claim_uid)));
  }
  if (!absl::IsNotFound(text.status())) {
    // A directory, a FIFO or an endless file in our place is damage; an I/O error is no knowledge at all.
    if (absl::IsFailedPrecondition(text.status()) || absl::IsResourceExhausted(text.status())) {
      if (!ErrnoOf(text.status()).has_value()) {
        return absl::DataLossError(absl::StrCat("record: ", text.status().message()));
      }
    }
    return Annotate(text.status(), "read record");
  }
  // The first kept file is always number 1, so that one look answers.
  const absl::StatusOr<FileInfo> kept = fs_->Stat(CorruptPath(claim_uid, 1));
  if (absl::IsNotFound(kept.status())) {
    return absl::NotFoundError(absl::StrCat("no record of claim uid ", claim_uid));
  }
  if (!kept.ok()) return Annotate(kept.status(), "read record");
  Record record;
  record.phase = Phase::kQuarantined;
  record.claim.uid = std::string(claim_uid);
  record.since = absl::FromUnixNanos(kept->mtime_ns);
  record.last_error =
      absl::StrCat("the record was damaged and is kept as ", CorruptPath(claim_uid, 1));
  const absl::StatusOr<std::string> damaged = fs_->ReadFile(CorruptPath(claim_uid, 1), kMaxBytes);
  if (damaged.ok()) record.claim = GuessClaim(*damaged, claim_uid);
  return record;
}

absl::StatusOr<RecordStore::Kept> RecordStore::Quarantine(absl::string_view claim_uid) {
  DRA_RETURN_IF_ERROR(CheckUid(claim_uid));
  Kept kept;
  kept.claim.uid = std::string(claim_uid);
  const absl::StatusOr<std::string> text = fs_->ReadFile(PathFor(claim_uid), kMaxBytes);
  if (text.ok()) kept.claim = GuessClaim(*text, claim_uid);
  int number = 1;
  for (; number < kMaxKept; ++number) {
    const absl::StatusOr<FileInfo> taken = fs_->Stat(CorruptPath(claim_uid, number));
    if (absl::IsNotFound(taken.status())) break;
    if (!taken.ok()) return taken.status();
  }
  kept.path = CorruptPath(claim_uid, number);
  DRA_RETURN_IF_ERROR(fs_->Rename(PathFor(claim_uid), kept.path));
  return kept;
}

absl::Status RecordStore::Remove(absl::string_view claim_uid) {
  DRA_RETURN_IF_ERROR(CheckUid(claim_uid));
  DRA_RETURN_IF_ERROR(RemoveIfExists(*fs_, PathFor(claim_uid)));
  // The highest number goes first: number 1 is what says "quarantined".
  int last = 0;
  while (last < kMaxKept) {
    const absl::StatusOr<FileInfo> taken = fs_->Stat(CorruptPath(claim_uid, last + 1));
    if (absl::IsNotFound(taken.status())) break;
    if (!taken.ok()) return taken.status();
    ++last;
  }
  if (last == 0) return absl::OkStatus();
  const std::string released = JoinPath(directory_, "released");
  DRA_RETURN_IF_ERROR(fs_->MakeDirectory(released, 0700));
  for (int number = last; number >= 1; --number) {
    const std::string from = CorruptPath(claim_uid, number);
    DRA_RETURN_IF_ERROR(fs_->Rename(from, JoinPath(released, BaseName(from))));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> RecordStore::Exists(absl::string_view claim_uid) {
  DRA_RETURN_IF_ERROR(CheckUid(claim_uid));
  for (const std::string& path : {PathFor(claim_uid), CorruptPath(claim_uid, 1)}) {
    const absl::StatusOr<FileInfo> info = fs_->Stat(path);
    if (info.ok()) return true;
    if (!absl::IsNotFound(info.status())) return info.status();
  }
  return false;
}

absl::StatusOr<std::vector<RecordStore::Item>> RecordStore::List() {
  DRA_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs_->List(directory_));
  std::set<std::string> uids;
  for (const std::string& name : names) {
    absl::string_view uid = name;
    const size_t corrupt = uid.find(kCorrupt);
    if (corrupt != absl::string_view::npos) {
      uid = uid.substr(0, corrupt);
    } else if (!absl::ConsumeSuffix(&uid, kSuffix)) {
      continue;
    }
    if (IsSafeFileId(uid)) uids.insert(std::string(uid));
  }
  std::vector<Item> items;
  items.reserve(uids.size());
  for (const std::string& uid : uids) {
    absl::StatusOr<Record> record = Load(uid);
    // Gone since it was listed: another instance has unprepared it.
    if (absl::IsNotFound(record.status())) continue;
    items.push_back({uid, std::move(record)});
  }
  return items;
}

absl::StatusOr<std::vector<RecordStore::Temporary>> RecordStore::ListTemporaries() {
  DRA_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs_->List(directory_));
  std::vector<Temporary> temporaries;
  for (const std::string& name : names) {
    if (!IsTemporaryName(name)) continue;
    // ".<uid>.json.<random>.tmp"
    const size_t end = name.find(std::string(kSuffix) + ".");
    if (end == std::string::npos || end < 2) continue;
    const std::string uid = name.substr(1, end - 1);
    if (IsSafeFileId(uid)) temporaries.push_back({name, uid});
  }
  return temporaries;
}

absl::Status RecordStore::RemoveTemporary(const Temporary& temporary) {
  return RemoveIfExists(*fs_, JoinPath(directory_, temporary.name));
}

}  // namespace dra::records
