// Records and holds as they are read from disk. A fuzzer cannot guess a SHA-256, so inputs that do not begin with '{"f'
// are taken as the payload of a file with the right checksum.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/base/ids.h"
#include "dra/records/holds.h"
#include "dra/records/record.h"
#include "test/fuzz/fuzz.h"

namespace {

constexpr char kUid[] = "5b2d9f0e-8c44-4a53-9a07-3f1d2c6e7a10";

std::string WithHead(absl::string_view payload) {
  const std::string lines = absl::StrCat(payload, "\n");
  return absl::StrCat("{\"format\":\"dra-record/1.0\",\"sha256\":\"", dra::Sha256Hex(lines),
                      "\",\"record\":\n", lines, "}\n");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view input = dra::fuzz::Text(data, size);
  const std::string file = absl::StartsWith(input, "{\"f") ? std::string(input) : WithHead(input);
  (void)dra::records::GuessClaim(file, kUid);
  const auto record = dra::records::DecodeRecord(file, kUid);
  if (record.ok()) {
    dra::fuzz::Require(record->claim.uid == kUid, "a record that is read is that of its claim");
    const std::string written = dra::records::EncodeRecord(*record);
    const auto again = dra::records::DecodeRecord(written, kUid);
    dra::fuzz::Require(again.ok(), "what is written can be read");
    dra::fuzz::Require(dra::records::EncodeRecord(*again) == written,
                       "reading and writing a record changes nothing");
    for (const dra::records::Hold& hold : dra::records::HoldsOf(*record)) {
      const auto read = dra::records::DecodeHold(dra::records::EncodeHold(hold));
      dra::fuzz::Require(read.ok() && read->key == hold.key, "a hold that is written can be read");
    }
  }
  const auto hold = dra::records::DecodeHold(input);
  if (hold.ok()) {
    dra::fuzz::Require(dra::records::DecodeHold(dra::records::EncodeHold(*hold)).ok(),
                       "a hold can be written again");
  }
  return 0;
}
