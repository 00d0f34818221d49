#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/file_system.h"
#include "dra/records/record.h"

namespace dra::records {

// The record files of one driver: <directory>/<claim uid>.json, one a claim; docs/record-format.md. Nothing is cached:
// another instance may have written. Any thread; writers of one claim hold its lock (claim_locks.h).
//
// A claim on its way back has its record renamed to <claim uid>.unpreparing.json: the name is the phase, so that the
// way back costs no second encoding and no file that replaces another (whose unlink is slow). Where both names exist,
// which only a power cut can leave, <claim uid>.json counts.
//
// A damaged record is moved aside to <claim uid>.json.corrupt-<n>. While such a file is there and no whole record is,
// the claim is quarantined: Load gives a record in that phase, also after a restart. Release moves the kept files to
// <directory>/released/.
class RecordStore {
 public:
  // fs outlives this. The directory is made by Open.
  RecordStore(FileSystem* fs, std::string directory);

  // Makes the directory (0700). Errors: it cannot be made or listed.
  absl::Status Open();

  // Writes the record to <claim uid>.json: durable (on disk when it returns), or only safe against the death of the
  // process. Of a claim that may have the other name (unpreparing, dirty) that name goes.
  absl::Status Save(const Record& record, Durability durability = Durability::kDurable);

  // The recorded claim is on its way back from now on: Load gives the phase kUnpreparing. kDurable: also after a power
  // cut. Errors: it may be marked or not (the rename may have happened although its fsync failed).
  absl::Status MarkUnpreparing(absl::string_view claim_uid, Durability durability);

  // The record; phase kQuarantined (with claim uid only) if it was moved aside. Errors: NotFound only if there is
  // neither; DataLoss if the file is damaged and not yet moved aside; InvalidArgument for a uid that may name no file,
  // one that ends in ".unpreparing" included; else what the file system said: then nothing is known about the claim.
  // Call it with the claim's lock held: between two looks a record may change its name.
  absl::StatusOr<Record> Load(absl::string_view claim_uid);

  // Moves the damaged file aside, of two the one that counts. Returns where it is now and, as far as it can still be
  // read, whose it was.
  struct Kept {
    std::string path;
    RecordClaim claim;
  };
  absl::StatusOr<Kept> Quarantine(absl::string_view claim_uid);

  // Removes the record under both names, without fsync, and ends a quarantine. OK if there is nothing.
  absl::Status Remove(absl::string_view claim_uid);

  // True if there is a record or a quarantined file; right also without the claim's lock. Errors: it could not be
  // looked at.
  absl::StatusOr<bool> Exists(absl::string_view claim_uid);

  // Every claim with a file here, sorted by uid: the record or why it could not be read (DataLoss: to be quarantined).
  // Errors: the directory cannot be listed, which says nothing about any claim.
  struct Item {
    std::string claim_uid;
    absl::StatusOr<Record> record;
  };
  absl::StatusOr<std::vector<Item>> List();

  // Removes the temporary file `name` of a writer that died. The names are given by ListTemporaries with the claim
  // they belong to: remove them under that claim's lock, for a living writer has one too.
  struct Temporary {
    std::string name;
    std::string claim_uid;
  };
  absl::StatusOr<std::vector<Temporary>> ListTemporaries();
  absl::Status RemoveTemporary(const Temporary& temporary);

  std::string PathFor(absl::string_view claim_uid) const;
  std::string UnpreparingPathFor(absl::string_view claim_uid) const;

 private:
  // Largest record read: 32 devices with their configs and edits stay far below.
  static constexpr uint64_t kMaxBytes = 16u << 20;

  // nullopt: no such file.
  absl::StatusOr<std::optional<Record>> ReadRecord(const std::string& path,
                                                   absl::string_view claim_uid);
  std::string CorruptPath(absl::string_view claim_uid, int number) const;

  FileSystem* const fs_;
  const std::string directory_;
};

}  // namespace dra::records
