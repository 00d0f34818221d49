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
constexpr absl::string_view kUnpreparing = ".unpreparing";  // between uid and suffix
constexpr absl::string_view kCorrupt = ".json.corrupt-";
// A claim whose record keeps getting damaged must not fill the disk: more than this many kept files are overwritten.
constexpr int kMaxKept = 16;

absl::Status CheckUid(absl::string_view claim_uid) {
  // The one ending is a phase: such a uid would be taken for another claim.
  if (IsSafeFileId(claim_uid) && !absl::EndsWith(claim_uid, kUnpreparing)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("claim uid \"", claim_uid,
                   "\" is not 1 to 128 characters of [A-Za-z0-9._-] with no leading '.' and no \"",
                   kUnpreparing, "\" at the end"));
}

}  // namespace

RecordStore::RecordStore(FileSystem* fs, std::string directory)
    : fs_(fs), directory_(std::move(directory)) {}

absl::Status RecordStore::Open() {
  DRA_RETURN_IF_ERROR(MakeDirectories(*fs_, directory_, 0700));
  // A record is as durable as the entries that lead to it: those of this directory and of the one it is in, which may
  // have been made just now.
  const std::string parent = DirectoryName(directory_);
  DRA_RETURN_IF_ERROR(fs_->SyncDirectory(parent));
  DRA_RETURN_IF_ERROR(fs_->SyncDirectory(DirectoryName(parent)));
  return fs_->List(directory_).status();
}

std::string RecordStore::PathFor(absl::string_view claim_uid) const {
  return JoinPath(directory_, absl::StrCat(claim_uid, kSuffix));
}

std::string RecordStore::UnpreparingPathFor(absl::string_view claim_uid) const {
  return JoinPath(directory_, absl::StrCat(claim_uid, kUnpreparing, kSuffix));
}

std::string RecordStore::CorruptPath(absl::string_view claim_uid, int number) const {
  return JoinPath(directory_, absl::StrCat(claim_uid, kCorrupt, number));
}

absl::Status RecordStore::Save(const Record& record, Durability durability) {
  DRA_RETURN_IF_ERROR(CheckUid(record.claim.uid));
  DRA_RETURN_IF_ERROR(Annotate(
      WriteFileAtomically(*fs_, PathFor(record.claim.uid), EncodeRecord(record), 0600, durability),
      "write record"));
  if (record.phase == Phase::kUnpreparing || record.phase == Phase::kDirty) {
    (void)RemoveIfExists(*fs_, UnpreparingPathFor(record.claim.uid));  // outranked already
  }
  return absl::OkStatus();
}

absl::Status RecordStore::MarkUnpreparing(absl::string_view claim_uid, Durability durability) {
  DRA_RETURN_IF_ERROR(CheckUid(claim_uid));
  absl::Status marked = fs_->Rename(PathFor(claim_uid), UnpreparingPathFor(claim_uid));
  if (marked.ok() && durability == Durability::kDurable) marked = fs_->SyncDirectory(directory_);
  return Annotate(marked, "mark the record as unpreparing");
}

absl::StatusOr<std::optional<Record>> RecordStore::ReadRecord(const std::string& path,
                                                              absl::string_view claim_uid) {
  const absl::StatusOr<std::string> text = fs_->ReadOwnFile(path, kMaxBytes);
  if (text.ok()) {
    absl::StatusOr<Record> record = DecodeRecord(*text, claim_uid);
    if (record.ok()) return std::optional<Record>(*std::move(record));
    return Annotate(record.status(), absl::StrCat("record ", path));
  }
  if (absl::IsNotFound(text.status())) return std::optional<Record>();
  // A directory, a FIFO, a link or an endless file in our place is damage; an I/O error is no knowledge at all.
  if (absl::IsFailedPrecondition(text.status()) || absl::IsResourceExhausted(text.status())) {
    if (!ErrnoOf(text.status()).has_value()) {
      return absl::DataLossError(absl::StrCat("record: ", text.status().message()));
    }
  }
  return Annotate(text.status(), "read record");
}

absl::StatusOr<Record> RecordStore::Load(absl::string_view claim_uid) {
  DRA_RETURN_IF_ERROR(CheckUid(claim_uid));
  DRA_ASSIGN_OR_RETURN(std::optional<Record> record, ReadRecord(PathFor(claim_uid), claim_uid));
  if (record.has_value()) return *std::move(record);
  DRA_ASSIGN_OR_RETURN(record, ReadRecord(UnpreparingPathFor(claim_uid), claim_uid));
  if (record.has_value()) {
    record->phase = Phase::kUnpreparing;
    return *std::move(record);
  }
  // The first kept file is always number 1, so that one look answers.
  const absl::StatusOr<FileInfo> kept = fs_->Stat(CorruptPath(claim_uid, 1));
  if (absl::IsNotFound(kept.status())) {
    return absl::NotFoundError(absl::StrCat("no record of claim uid ", claim_uid));
  }
  if (!kept.ok()) return Annotate(kept.status(), "read record");
  Record quarantined;
  quarantined.phase = Phase::kQuarantined;
  quarantined.claim.uid = std::string(claim_uid);
  quarantined.since = absl::FromUnixNanos(kept->mtime_ns);
  quarantined.last_error =
      absl::StrCat("the record was damaged and is kept as ", CorruptPath(claim_uid, 1));
  const absl::StatusOr<std::string> damaged =
      fs_->ReadOwnFile(CorruptPath(claim_uid, 1), kMaxBytes);
  if (damaged.ok()) quarantined.claim = GuessClaim(*damaged, claim_uid);
  return quarantined;
}

absl::StatusOr<RecordStore::Kept> RecordStore::Quarantine(absl::string_view claim_uid) {
  DRA_RETURN_IF_ERROR(CheckUid(claim_uid));
  std::string damaged = PathFor(claim_uid);
  const absl::StatusOr<FileInfo> plain = fs_->Stat(damaged);
  if (absl::IsNotFound(plain.status())) {
    damaged = UnpreparingPathFor(claim_uid);
  } else if (!plain.ok()) {
    return plain.status();
  }
  Kept kept;
  kept.claim.uid = std::string(claim_uid);
  const absl::StatusOr<std::string> text = fs_->ReadOwnFile(damaged, kMaxBytes);
  if (text.ok()) kept.claim = GuessClaim(*text, claim_uid);
  int number = 1;
  for (; number < kMaxKept; ++number) {
    const absl::StatusOr<FileInfo> taken = fs_->Stat(CorruptPath(claim_uid, number));
    if (absl::IsNotFound(taken.status())) break;
    if (!taken.ok()) return taken.status();
  }
  kept.path = CorruptPath(claim_uid, number);
  DRA_RETURN_IF_ERROR(fs_->Rename(damaged, kept.path));
  return kept;
}

absl::Status RecordStore::Remove(absl::string_view claim_uid) {
  DRA_RETURN_IF_ERROR(CheckUid(claim_uid));
  // The name that is outranked goes first, so that a death in between leaves what is true.
  for (const std::string& path : {UnpreparingPathFor(claim_uid), PathFor(claim_uid)}) {
    const absl::Status removed = fs_->RemoveName(path);
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  }
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
    const std::string to = JoinPath(released, BaseName(from));
    if (fs_->Rename(from, to).ok()) continue;
    // What an earlier damage of the same claim left there may be a directory, which no file replaces.
    DRA_RETURN_IF_ERROR(RemoveTree(*fs_, to));
    DRA_RETURN_IF_ERROR(fs_->Rename(from, to));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> RecordStore::Exists(absl::string_view claim_uid) {
  DRA_RETURN_IF_ERROR(CheckUid(claim_uid));
  const std::string plain = PathFor(claim_uid);
  // The plain name once more at the end: meanwhile the record of a failed way back may have gone back to it.
  for (const std::string& path :
       {plain, UnpreparingPathFor(claim_uid), CorruptPath(claim_uid, 1), plain}) {
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
    absl::ConsumeSuffix(&uid, kUnpreparing);
    if (IsSafeFileId(uid)) uids.insert(std::string(uid));
  }
  std::vector<Item> items;
  items.reserve(uids.size());
  for (const std::string& uid : uids) {
    absl::StatusOr<Record> record = Load(uid);
    // No lock is held: it may have changed its name between two looks.
    if (absl::IsNotFound(record.status())) record = Load(uid);
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
