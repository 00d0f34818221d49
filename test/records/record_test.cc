#include "dra/records/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "dra/base/file_system.h"
#include "dra/base/ids.h"
#include "test/records/sample_record.h"

namespace dra::records {
namespace {

std::string ReadSource(absl::string_view path) {
  PosixFileSystem fs;
  const auto text = fs.ReadFile(JoinPath(DRA_SOURCE_DIR, path), 1u << 20);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

// The file with another payload and the checksum that belongs to it.
std::string WithPayload(const std::string& text, const std::string& payload) {
  const size_t hash = text.find("\"sha256\":\"") + 10;
  const size_t line = text.find('\n');
  return absl::StrCat(text.substr(0, hash), Sha256Hex(payload),
                      text.substr(hash + 64, line + 1 - hash - 64), payload, "}\n");
}
std::string PayloadOf(const std::string& text) {
  const size_t line = text.find('\n');
  return text.substr(line + 1, text.size() - line - 1 - 2);
}

TEST(Record, ReadsBackWhatItWrote) {
  const Record record = SampleRecord();
  const auto read = DecodeRecord(EncodeRecord(record), record.claim.uid);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(EncodeRecord(*read), EncodeRecord(record));
  EXPECT_EQ(read->undo, record.undo);
  EXPECT_EQ(read->phase, Phase::kPrepared);
  ASSERT_EQ(read->devices.size(), 2u);
  EXPECT_EQ(read->devices[1].share_id, record.devices[1].share_id);
  EXPECT_EQ(read->devices[0].exclusion_keys, record.devices[0].exclusion_keys);
}

TEST(Record, TheFileIsOneJsonObject) {
  const auto json = ParseJsonObject(EncodeRecord(SampleRecord()), "file");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(StringOr(*json, "format"), "dra-record/1.0");
}

// The golden file stays as the release wrote it: later versions must read it.
TEST(Ckp01, ThisReleaseReadsItsGoldenRecord) {
  const std::string golden = ReadSource("test/records/golden/record-1.0.json");
  const auto read = DecodeRecord(golden, "5b2d9f0e-8c44-4a53-9a07-3f1d2c6e7a10");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(EncodeRecord(*read), golden);
  EXPECT_EQ(EncodeRecord(SampleRecord()), golden);
}

// The payload's layout is no part of the format: a person may have indented it.
TEST(Ckp01, AnIndentedRecordIsReadAsWell) {
  const std::string indented = ReadSource("test/records/golden/record-1.0-indented.json");
  const auto read = DecodeRecord(indented, "5b2d9f0e-8c44-4a53-9a07-3f1d2c6e7a10");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(EncodeRecord(*read), EncodeRecord(SampleRecord()));
}

TEST(Ckp01, ARecordOfANewerMinorIsReadAndItsMembersSurvive) {
  const std::string text = EncodeRecord(SampleRecord());
  std::string payload = PayloadOf(text);
  payload = absl::StrReplaceAll(payload,
                                {{"\"bootId\"", "\"addedLater\": {\"a\": [1, 2]},\n  \"bootId\""},
                                 {"\"identity\"", "\"deviceExtra\": \"x\",\n      \"identity\""}});
  const std::string newer =
      absl::StrReplaceAll(WithPayload(text, payload), {{"dra-record/1.0", "dra-record/1.7"}});
  auto read = DecodeRecord(newer, SampleRecord().claim.uid);
  ASSERT_TRUE(read.ok()) << read.status();
  read->phase = Phase::kUnpreparing;
  const std::string written = EncodeRecord(*read);
  EXPECT_TRUE(absl::StartsWith(written, "{\"format\":\"dra-record/1.7\"")) << written;
  const auto json = ParseJsonObject(written, "file");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["record"]["addedLater"], Json::parse(R"({"a":[1,2]})"));
  for (const Json& device : (*json)["record"]["devices"])
    EXPECT_EQ(StringOr(device, "deviceExtra"), "x");
}

TEST(Ckp01, ARecordOfAnotherMajorIsRefusedByName) {
  const std::string text =
      absl::StrReplaceAll(EncodeRecord(SampleRecord()), {{"dra-record/1.0", "dra-record/2.0"}});
  const auto read = DecodeRecord(text, SampleRecord().claim.uid);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.status().message()), ::testing::HasSubstr("format 2.0"));
}

TEST(Ckp01, AChecksumMismatchSaysWhichBytesDiffer) {
  const std::string text =
      absl::StrReplaceAll(EncodeRecord(SampleRecord()), {{"\"gpu\"", "\"gpv\""}});
  const auto read = DecodeRecord(text, SampleRecord().claim.uid);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.status().message()), ::testing::HasSubstr("checksum mismatch"));
}

TEST(Cfg01, AStoredConfigWithUnknownMembersIsReadLeniently) {
  const std::string text = EncodeRecord(SampleRecord());
  const std::string payload =
      absl::StrReplaceAll(PayloadOf(text), {{"\"sharing\"", "\"sharring\""}});
  const auto read = DecodeRecord(WithPayload(text, payload), SampleRecord().claim.uid);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(DumpJson(read->devices[0].configs), ::testing::HasSubstr("sharring"));
}

// Ckp03: every way a file is damaged is DataLoss, never a crash and never a record.
TEST(Ckp03, ATruncatedRecordIsDataLossAtEveryLength) {
  const std::string text = EncodeRecord(SampleRecord());
  for (size_t length = 0; length < text.size(); ++length) {
    const auto read = DecodeRecord(text.substr(0, length), SampleRecord().claim.uid);
    ASSERT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << length;
  }
}

TEST(Ckp03, AnyChangedPayloadByteIsDataLoss) {
  const std::string text = EncodeRecord(SampleRecord());
  for (size_t i = text.find('\n') + 1; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x01);
    ASSERT_FALSE(DecodeRecord(damaged, SampleRecord().claim.uid).ok()) << i;
  }
}

TEST(Record, IsOfOneClaimOnly) {
  const auto read = DecodeRecord(EncodeRecord(SampleRecord()), "another-uid");
  EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
}

TEST(Record, ADamagedFileStillTellsWhoseItWas) {
  const std::string text =
      absl::StrReplaceAll(EncodeRecord(SampleRecord()), {{"\"gpu\"", "\"gpv\""}});
  const RecordClaim claim = GuessClaim(text, SampleRecord().claim.uid);
  EXPECT_EQ(claim.namespace_name, "ml");
  EXPECT_EQ(claim.name, "trainer-gpu");
  EXPECT_EQ(GuessClaim("", "u").name, "");
}

// The example in the documentation is a whole record.
TEST(RecordFormatPage, ItsExampleIsARecord) {
  const std::string page = ReadSource("docs/record-format.md");
  const size_t begin = page.find("```json\n{\"format\"");
  ASSERT_NE(begin, std::string::npos);
  const size_t end = page.find("\n```", begin + 8);
  const std::string example = page.substr(begin + 8, end + 1 - begin - 8);
  const auto read = DecodeRecord(example, "5b2d9f0e-8c44-4a53-9a07-3f1d2c6e7a10");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ParseJson(PayloadOf(EncodeRecord(*read)), "written").value(),
            ParseJson(PayloadOf(example), "example").value());
}

}  // namespace
}  // namespace dra::records
