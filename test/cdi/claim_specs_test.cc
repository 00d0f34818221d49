#include "dra/cdi/claim_specs.h"

#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <set>
#include <thread>

#include "dra/cdi/spec.h"
#include "dra/cdi/validate.h"
#include "dra/testing/faulty_file_system.h"
#include "test/cdi/support.h"

namespace dra::cdi {
namespace {

constexpr char kUid[] = "a1b2c3d4-1111-4222-8333-444455556666";
using Ids = std::vector<std::vector<std::string>>;

class ClaimSpecsTest : public ::testing::Test {
 protected:
  std::string Id(const std::string& device) const {
    return std::string("k8s.gpu.sdk.test/claim=") + kUid + "-" + device;
  }
  Spec Stored() {
    const auto text = fs_.ReadFile(specs_.PathFor(kUid), 1 << 20);
    EXPECT_TRUE(text.ok()) << text.status();
    const auto spec = ParseSpecFile(*text);
    EXPECT_TRUE(spec.ok()) << spec.status();
    EXPECT_TRUE(ValidateSpec(*spec).ok()) << ValidateSpec(*spec);
    return *spec;
  }
  bool Exists() { return fs_.Stat(specs_.PathFor(kUid), false).ok(); }

  TemporaryDirectory directory_;
  PosixFileSystem fs_;
  ClaimSpecs specs_{&fs_, directory_.path() + "/cdi", "gpu.sdk.test"};
};
class Cdi01 : public ClaimSpecsTest {};
class Cdi03 : public ClaimSpecsTest {};
class Cdi04 : public ClaimSpecsTest {};
class Cdi06 : public ClaimSpecsTest {};
class Cdi07 : public ClaimSpecsTest {};
class Cdi08 : public ClaimSpecsTest {};

TEST_F(ClaimSpecsTest, WritesOneFileWithOneEntryADevice) {
  const auto ids = specs_.Write(kUid,
                                {{"gpu-0", "", Parsed(R"({"env":["A=0"]})")},
                                 {"gpu-1", "share-1", Parsed(R"({"env":["A=1"]})")}},
                                Parsed(R"({"env":["CLAIM=1"]})"));
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(*ids, (Ids{{Id("gpu-0")}, {Id("gpu-1-share-1")}}));
  EXPECT_EQ(specs_.PathFor(kUid),
            directory_.path() + "/cdi/k8s.gpu.sdk.test-claim_" + kUid + ".json");
  const Spec spec = Stored();
  EXPECT_EQ(spec.kind, "k8s.gpu.sdk.test/claim");
  EXPECT_EQ(spec.edits.env, (std::vector<std::string>{"CLAIM=1"}));
  ASSERT_EQ(spec.devices.size(), 2u);
  EXPECT_EQ(spec.devices[1].edits.env, (std::vector<std::string>{"A=1"}));
  struct stat info {};
  ASSERT_EQ(::stat(specs_.PathFor(kUid).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0644u);
  ASSERT_EQ(::stat((directory_.path() + "/cdi").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0755u);
}

TEST_F(ClaimSpecsTest, TheSameDeviceTwiceGetsNamesThatDifferAndStayTheSame) {
  const Json edits = Parsed(R"({"env":["A=0"]})");
  const std::vector<ClaimDevice> devices = {{"gpu-0", "", edits},
                                            {"gpu-0", "", edits},
                                            {"gpu-0-2", "", edits},
                                            {"gpu-0", "", edits},
                                            {"gpu", "0", edits}};
  const auto ids = specs_.Write(kUid, devices, nullptr);
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(
      *ids,
      (Ids{{Id("gpu-0")}, {Id("gpu-0-3")}, {Id("gpu-0-2")}, {Id("gpu-0-4")}, {Id("gpu-0-5")}}));
  EXPECT_EQ(*specs_.Write(kUid, devices, nullptr), *ids);
}

TEST_F(ClaimSpecsTest, ADeviceWithoutEditsInAClaimWithEditsHasItsOwnFirstId) {
  const auto ids = specs_.Write(kUid, {{"gpu-0", "", nullptr}, {"gpu-1", "", Json::object()}},
                                Parsed(R"({"env":["CLAIM=1"]})"));
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(*ids, (Ids{{Id("gpu-0")}, {Id("gpu-1")}}));
  const Spec spec = Stored();
  EXPECT_EQ(ToJson(spec.devices[0].edits), Parsed(R"({"additionalGids":[0]})"));
  EXPECT_EQ(spec.version, "0.7.0");
}

TEST_F(ClaimSpecsTest, RemoveMayBeRepeatedAndLeavesTheDirectory) {
  ASSERT_TRUE(specs_.Remove(kUid).ok());
  ASSERT_TRUE(specs_.Write(kUid, {{"gpu-0", "", Parsed(R"({"env":["A=0"]})")}}, nullptr).ok());
  EXPECT_TRUE(specs_.Remove(kUid).ok());
  EXPECT_FALSE(Exists());
  EXPECT_TRUE(specs_.Remove(kUid).ok());
  EXPECT_TRUE(fs_.Stat(directory_.path() + "/cdi", false).ok());
}

TEST_F(ClaimSpecsTest, MatchesComparesWhatTheFileSays) {
  const std::vector<ClaimDevice> devices = {{"gpu-0", "", Parsed(R"({"env":["A=0"]})")}};
  EXPECT_FALSE(*specs_.Matches(kUid, devices, nullptr));
  ASSERT_TRUE(specs_.Write(kUid, devices, nullptr).ok());
  EXPECT_TRUE(*specs_.Matches(kUid, devices, nullptr));
  EXPECT_FALSE(*specs_.Matches(kUid, devices, Parsed(R"({"env":["C=0"]})")));
  // Another form of the same document is the same.
  const Json document = Json::parse(*fs_.ReadFile(specs_.PathFor(kUid), 1 << 20));
  std::ofstream(specs_.PathFor(kUid)) << document.dump();
  EXPECT_TRUE(*specs_.Matches(kUid, devices, nullptr));
  std::ofstream(specs_.PathFor(kUid)) << "{\"cdiVersion\":";
  EXPECT_FALSE(*specs_.Matches(kUid, devices, nullptr));
  ASSERT_TRUE(specs_.Remove(kUid).ok());
  EXPECT_TRUE(*specs_.Matches(kUid, {{"gpu-0", "", nullptr}}, nullptr));
}

TEST_F(ClaimSpecsTest, AFileThatCannotBeReadIsAnErrorNotAMismatch) {
  const std::vector<ClaimDevice> devices = {{"gpu-0", "", Parsed(R"({"env":["A=0"]})")}};
  ASSERT_TRUE(specs_.Write(kUid, devices, nullptr).ok());
  dra::testing::FaultyFileSystem faulty(&fs_);
  faulty.FailAlways({.operation = dra::testing::FileOperation::kReadFile, .path_contains = kUid},
                    EIO);
  ClaimSpecs unreadable(&faulty, directory_.path() + "/cdi", "gpu.sdk.test");
  EXPECT_FALSE(unreadable.Matches(kUid, devices, nullptr).ok());
}

TEST_F(ClaimSpecsTest, WhatIsNoFileIsToBeWrittenAnewAndSaysWhyItCannot) {
  const std::vector<ClaimDevice> devices = {{"gpu-0", "", Parsed(R"({"env":["A=0"]})")}};
  ASSERT_TRUE(MakeDirectories(fs_, specs_.PathFor(kUid), 0755).ok());
  const auto matches = specs_.Matches(kUid, devices, nullptr);
  EXPECT_TRUE(matches.ok() && !*matches);
  EXPECT_FALSE(specs_.Write(kUid, devices, nullptr).ok());
}

TEST_F(ClaimSpecsTest, RefusesAUidThatIsNoFileName) {
  for (const char* bad : {"", "../x", "a/b", ".hidden"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(specs_.Write(bad, {}, nullptr).status())) << bad;
    EXPECT_TRUE(absl::IsInvalidArgument(specs_.Remove(bad))) << bad;
  }
}

TEST_F(ClaimSpecsTest, NamesTheDeviceAndTheFieldOfBadEdits) {
  const auto ids = specs_.Write(kUid, {{"gpu-0", "", Parsed(R"({"deviceNode":[]})")}}, nullptr);
  ASSERT_TRUE(absl::IsInvalidArgument(ids.status()));
  EXPECT_NE(std::string(ids.status().message()).find("edits of device \"gpu-0\".deviceNode"),
            std::string::npos)
      << ids.status();
  EXPECT_FALSE(Exists());
}

TEST_F(Cdi01, TheLowestVersionIsWrittenAndARedundantHostPathDropped) {
  ASSERT_TRUE(
      specs_
          .Write(kUid,
                 {{"gpu-0", "",
                   Parsed(R"({"deviceNodes":[{"path":"/dev/fake0","hostPath":"/dev/fake0"}]})")}},
                 nullptr)
          .ok());
  const Spec spec = Stored();
  EXPECT_EQ(spec.version, "0.3.0");
  EXPECT_EQ(ToJson(spec.devices[0].edits), Parsed(R"({"deviceNodes":[{"path":"/dev/fake0"}]})"));
}

TEST_F(Cdi03, EveryBindMountSaysBindAndRoOrRw) {
  ASSERT_TRUE(specs_
                  .Write(kUid, {{"gpu-0", "", Parsed(R"({"mounts":[
      {"hostPath":"/usr/lib/fw","containerPath":"/usr/lib/fw"},
      {"hostPath":"/a","containerPath":"/a","options":["rbind"]},
      {"hostPath":"/b","containerPath":"/b","options":["ro","nosuid"]},
      {"hostPath":"tmpfs","containerPath":"/c","type":"tmpfs"}]})")}},
                         nullptr)
                  .ok());
  const std::vector<Mount> mounts = Stored().devices[0].edits.mounts;
  using Options = std::vector<std::string>;
  EXPECT_EQ(mounts[0].options, (Options{"bind", "ro"}));
  EXPECT_EQ(mounts[0].type, "");
  EXPECT_EQ(mounts[1].options, (Options{"rbind", "rw"}));
  EXPECT_EQ(mounts[2].options, (Options{"bind", "ro", "nosuid"}));
  EXPECT_EQ(mounts[3].options, Options{});
}

TEST_F(Cdi04, EmptyEditsNeverMakeAnEntryOrAFile) {
  ASSERT_TRUE(specs_.Write(kUid, {{"gpu-0", "", Parsed(R"({"env":["A=0"]})")}}, nullptr).ok());
  const auto mixed = specs_.Write(
      kUid, {{"gpu-0", "", Json::object()}, {"gpu-1", "", Parsed(R"({"env":["A=1"]})")}}, nullptr);
  ASSERT_TRUE(mixed.ok());
  EXPECT_EQ(*mixed, (Ids{{}, {Id("gpu-1")}}));
  EXPECT_EQ(Stored().devices.size(), 1u);
  const auto none = specs_.Write(kUid, {{"gpu-0", "", Json::object()}}, Json::object());
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, Ids{{}});
  EXPECT_FALSE(Exists());
}

TEST_F(Cdi06, AReaderNeverMeetsAPartOfAFile) {
  const Json edits = Parsed(R"({"env":["A=0"],"deviceNodes":[{"path":"/dev/fake0"}]})");
  std::atomic<bool> stop = false;
  std::atomic<int> read = 0;
  std::atomic<int> errors = 0;
  std::thread reader([&] {
    PosixFileSystem fs;
    while (!stop) {
      const auto names = fs.List(directory_.path() + "/cdi");
      if (!names.ok()) continue;
      for (const std::string& name : *names) {
        if (name.size() < 5 || name.substr(name.size() - 5) != ".json") continue;
        const auto text = fs.ReadFile(directory_.path() + "/cdi/" + name, 1 << 20);
        if (!text.ok()) continue;  // unprepared meanwhile
        ++read;
        if (!ParseSpecFile(*text).ok()) ++errors;
      }
    }
  });
  for (int i = 0; i < 200 || (read == 0 && i < 20000); ++i) {
    ASSERT_TRUE(specs_.Write(kUid, {{"gpu-0", "", edits}}, nullptr).ok());
    if (i % 4 == 3) {
      ASSERT_TRUE(specs_.Remove(kUid).ok());
    }
  }
  stop = true;
  reader.join();
  EXPECT_EQ(errors, 0);
}

TEST_F(Cdi06, TemporariesOfAKillAreRemovedAndOnlyOurs) {
  const std::string cdi = directory_.path() + "/cdi";
  ASSERT_TRUE(MakeDirectories(fs_, cdi, 0755).ok());
  const std::string ours = std::string(".k8s.gpu.sdk.test-claim_") + kUid + ".json.0011.tmp";
  for (const std::string& name :
       {ours, std::string(".k8s.other.test-claim_x.json.0011.tmp"), std::string("spec.1.tmp")}) {
    std::ofstream(cdi + "/" + name) << "{";
  }
  EXPECT_EQ(*specs_.ListTemporaries(), std::vector<std::string>{kUid});
  ASSERT_TRUE(specs_.RemoveTemporaries("another").ok());
  EXPECT_EQ(fs_.List(cdi)->size(), 3u);
  ASSERT_TRUE(specs_.RemoveTemporaries(kUid).ok());
  EXPECT_EQ(*fs_.List(cdi),
            (std::vector<std::string>{".k8s.other.test-claim_x.json.0011.tmp", "spec.1.tmp"}));
}

TEST_F(Cdi07, FilesOfOthersAreNeitherReadNorListed) {
  EXPECT_TRUE(specs_.ListClaims()->empty());  // no directory yet
  ASSERT_TRUE(specs_.Write(kUid, {{"gpu-0", "", Parsed(R"({"env":["A=0"]})")}}, nullptr).ok());
  for (const char* name :
       {"other.json", "k8s.gpu.sdk.test-claim_x.yaml", "k8s.gpu.sdk.test2-claim_y.json",
        "gpu.sdk.test_metadata_z_r.json", "k8s.gpu.sdk.test-claim_.hidden.json"}) {
    std::ofstream(directory_.path() + "/cdi/" + name) << "{";
  }
  EXPECT_EQ(*specs_.ListClaims(), std::vector<std::string>{kUid});
}

TEST_F(ClaimSpecsTest, TellsTheDevicesOfAFileByItsEntries) {
  constexpr char kShare[] = "6f1c2a34-0d1b-4c58-8a53-1f1f3f0f9e77";
  EXPECT_TRUE(absl::IsNotFound(specs_.Devices(kUid).status()));
  ASSERT_TRUE(specs_
                  .Write(kUid,
                         {{"gpu-0", "", Parsed(R"({"env":["A=0"]})")},
                          {"nic-1", kShare, Parsed(R"({"env":["A=1"]})")}},
                         nullptr)
                  .ok());
  const auto devices = specs_.Devices(kUid);
  ASSERT_TRUE(devices.ok()) << devices.status();
  using Named = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(*devices, (Named{{"gpu-0", ""}, {"nic-1", kShare}}));
  std::ofstream(specs_.PathFor(kUid)) << "{\"cdiVersion\":";
  EXPECT_TRUE(absl::IsDataLoss(specs_.Devices(kUid).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(specs_.Devices("../x").status()));
}

TEST_F(Cdi08, ANodeThatLiesElsewhereOnTheHostKeepsBothPaths) {
  ASSERT_TRUE(
      specs_
          .Write(
              kUid,
              {{"gpu-0", "",
                Parsed(
                    R"({"deviceNodes":[{"path":"/dev/fake0","hostPath":"/run/v/driver/dev/fake0"}]})")}},
              nullptr)
          .ok());
  const Spec spec = Stored();
  EXPECT_EQ(spec.version, "0.5.0");
  EXPECT_EQ(spec.devices[0].edits.device_nodes[0].path, "/dev/fake0");
  EXPECT_EQ(spec.devices[0].edits.device_nodes[0].host_path, "/run/v/driver/dev/fake0");
}

}  // namespace
}  // namespace dra::cdi
