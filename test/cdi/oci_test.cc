#include "dra/cdi/oci.h"

#include "test/cdi/support.h"

namespace dra::cdi {
namespace {

absl::StatusOr<Json> Applied(const char* oci_text, const char* edits_text, FileSystem& host) {
  Json oci = Parsed(oci_text);
  const auto edits = EditsFromJson(Parsed(edits_text));
  if (!edits.ok()) return edits.status();
  const absl::Status status = ApplyEdits(oci, *edits, host);
  if (!status.ok()) {
    EXPECT_EQ(oci, Parsed(oci_text)) << "an error must leave the config alone";
    return status;
  }
  return oci;
}

TEST(ApplyEdits, EnvReplacesInPlaceOrAppends) {
  DeviceHost host;
  const auto oci = Applied(R"({"process":{"env":["A=1","AB=2","C=3"]}})",
                           R"({"env":["A=9","D=4","D=5"]})", host);
  ASSERT_TRUE(oci.ok());
  EXPECT_EQ((*oci)["process"]["env"], Parsed(R"(["A=9","AB=2","C=3","D=5"])"));
}

TEST(ApplyEdits, ADeviceNodeTakesTheHostsNumbersAndTheContainersUser) {
  DeviceHost host;
  host.AddNode("/h/fake0", FileType::kCharDevice, 511, 4);
  const auto oci = Applied(
      R"({"process":{"user":{"uid":1000,"gid":0}},"linux":{"devices":[{"path":"/dev/fake0"},{"path":"/dev/x"}]}})",
      R"({"deviceNodes":[{"path":"/dev/fake0","hostPath":"/h/fake0"}]})", host);
  ASSERT_TRUE(oci.ok()) << oci.status();
  EXPECT_EQ(
      (*oci)["linux"]["devices"],
      Parsed(
          R"([{"path":"/dev/x"},{"path":"/dev/fake0","type":"c","major":511,"minor":4,"fileMode":432,"uid":1000}])"));
  EXPECT_EQ((*oci)["linux"]["resources"]["devices"],
            Parsed(R"([{"allow":true,"type":"c","major":511,"minor":4,"access":"rwm"}])"));
}

TEST(ApplyEdits, ANodeThatIsOnlyInTheContainerNeedsTypeAndMajor) {
  DeviceHost host;
  const auto oci = Applied(
      "{}",
      R"({"deviceNodes":[{"path":"/dev/cap","type":"c","major":1,"minor":2,"permissions":"r"}]})",
      host);
  ASSERT_TRUE(oci.ok()) << oci.status();
  EXPECT_EQ((*oci)["linux"]["resources"]["devices"][0]["access"], "r");
  EXPECT_FALSE((*oci)["linux"]["devices"][0].contains("fileMode"));
  const auto missing = Applied("{}", R"({"deviceNodes":[{"path":"/dev/cap"}]})", host);
  EXPECT_TRUE(absl::IsFailedPrecondition(missing.status()));
  EXPECT_NE(
      std::string(missing.status().message()).find("failed to stat CDI host device \"/dev/cap\""),
      std::string::npos);
}

TEST(ApplyEdits, RefusesAHostPathOfAnotherKind) {
  DeviceHost host;
  host.AddNode("/dev/link", FileType::kSymlink, 0, 0);
  host.AddNode("/dev/block", FileType::kBlockDevice, 8, 0);
  EXPECT_NE(std::string(
                Applied("{}", R"({"deviceNodes":[{"path":"/dev/link"}]})", host).status().message())
                .find("not a device node"),
            std::string::npos);
  EXPECT_NE(std::string(Applied("{}", R"({"deviceNodes":[{"path":"/dev/block","type":"c"}]})", host)
                            .status()
                            .message())
                .find("host type mismatch (c, b)"),
            std::string::npos);
}

TEST(ApplyEdits, MountsReplaceByDestinationAndAreSortedByDepth) {
  DeviceHost host;
  const auto oci = Applied(
      R"({"mounts":[{"destination":"/a/b","source":"old"},{"destination":"/proc","source":"proc"}]})",
      R"({"mounts":[{"hostPath":"/h","containerPath":"/a/b","options":["bind","ro"]},
                                         {"hostPath":"/g","containerPath":"/a"}]})",
      host);
  ASSERT_TRUE(oci.ok());
  EXPECT_EQ((*oci)["mounts"],
            Parsed(R"([{"destination":"/proc","source":"proc"},{"destination":"/a","source":"/g"},
                                         {"destination":"/a/b","source":"/h","options":["bind","ro"]}])"));
}

TEST(ApplyEdits, BindMountsAreIdMappedInAUserNamespace) {
  DeviceHost host;
  const auto oci =
      Applied(R"({"linux":{"namespaces":[{"type":"user"}],
                           "uidMappings":[{"containerID":0,"hostID":100000,"size":65536}],
                           "gidMappings":[{"containerID":0,"hostID":100000,"size":65536}]}})",
              R"({"mounts":[{"hostPath":"/h","containerPath":"/a","options":["bind","ro"]},
                                         {"hostPath":"/h","containerPath":"/b","options":["rbind"]},
                                         {"hostPath":"/h","containerPath":"/c","options":["bind","idmap"]}]})",
              host);
  ASSERT_TRUE(oci.ok());
  EXPECT_EQ((*oci)["mounts"][0]["options"], Parsed(R"(["bind","ro","idmap"])"));
  EXPECT_EQ((*oci)["mounts"][1]["options"], Parsed(R"(["rbind","ridmap"])"));
  EXPECT_EQ((*oci)["mounts"][2]["options"], Parsed(R"(["bind","idmap"])"));
}

// Without both mappings (a user namespace that is joined) runc refuses id-mapped mounts.
TEST(ApplyEdits, BindMountsAreNotIdMappedWhereAMappingIsMissing) {
  DeviceHost host;
  const auto oci = Applied(
      R"({"linux":{"namespaces":[{"type":"user"}],
                           "uidMappings":[{"containerID":0,"hostID":100000,"size":65536}]}})",
      R"({"mounts":[{"hostPath":"/h","containerPath":"/a","options":["bind","ro"]}]})", host);
  ASSERT_TRUE(oci.ok());
  EXPECT_EQ((*oci)["mounts"][0]["options"], Parsed(R"(["bind","ro"])"));
}

// Each device's edits may be right alone: the runtime checks what comes together.
TEST(ApplyEdits, OneHostInterfaceForTwoDevicesIsRefused) {
  DeviceHost host;
  const auto oci = Applied("{}",
                           R"({"netDevices":[{"hostInterfaceName":"eth0","name":"net0"},
                                             {"hostInterfaceName":"eth0","name":"net1"}]})",
                           host);
  EXPECT_EQ(oci.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ApplyEdits, ARelativeDestinationComesBeforeThoseUnderTheRoot) {
  DeviceHost host;
  const auto oci = Applied(R"({"mounts":[{"destination":"/proc"}]})",
                           R"({"mounts":[{"hostPath":"/h","containerPath":"rel"}]})", host);
  ASSERT_TRUE(oci.ok());
  EXPECT_EQ((*oci)["mounts"][0]["destination"], "rel");
}

TEST(ApplyEdits, AFifoKeepsTheNumbersThatTheEditsGive) {
  DeviceHost host;
  const auto oci = Applied(
      "{}",
      R"({"deviceNodes":[{"path":"/a","type":"p","major":1,"minor":2},{"path":"/b","type":"p"}]})",
      host);
  ASSERT_TRUE(oci.ok());
  EXPECT_EQ((*oci)["linux"]["devices"],
            Parsed(R"([{"path":"/a","type":"p","major":1,"minor":2},{"path":"/b","type":"p"}])"));
}

TEST(ApplyEdits, HooksNetDevicesRdtAndGidsGoWhereOciHasThem) {
  DeviceHost host;
  const auto oci =
      Applied(R"({"hooks":{"prestart":[{"path":"/first"}]},"linux":{"intelRdt":{"closID":"old"}},
                              "process":{"user":{"additionalGids":[5]}}})",
              R"({"hooks":[{"hookName":"prestart","path":"/h","args":["h"],"timeout":2}],
                               "netDevices":[{"hostInterfaceName":"eth1","name":"net0"}],
                               "intelRdt":{"l3CacheSchema":"x"},"additionalGids":[0,5,6]})",
              host);
  ASSERT_TRUE(oci.ok()) << oci.status();
  EXPECT_EQ((*oci)["hooks"]["prestart"],
            Parsed(R"([{"path":"/first"},{"path":"/h","args":["h"],"timeout":2}])"));
  EXPECT_EQ((*oci)["linux"]["netDevices"], Parsed(R"({"eth1":{"name":"net0"}})"));
  EXPECT_EQ((*oci)["linux"]["intelRdt"], Parsed(R"({"l3CacheSchema":"x"})"));
  EXPECT_EQ((*oci)["process"]["user"]["additionalGids"], Parsed("[5,6]"));
}

TEST(ApplyEdits, TheMarkerOfADeviceWithoutEditsChangesNothing) {
  DeviceHost host;
  const auto oci = Applied(R"({"process":{"env":["A=1"]}})", R"({"additionalGids":[0]})", host);
  ASSERT_TRUE(oci.ok());
  EXPECT_EQ(*oci, Parsed(R"({"process":{"env":["A=1"]}})"));
}

TEST(ApplyEdits, RefusesAConfigOfAnotherShape) {
  DeviceHost host;
  EXPECT_TRUE(absl::IsInvalidArgument(Applied("[]", R"({"env":["A=1"]})", host).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(Applied(R"({"process":[]})", R"({"env":["A=1"]})", host).status()));
}

TEST(Append, ConcatenatesListsAndKeepsTheLastRdt) {
  ContainerEdits to = *EditsFromJson(Parsed(R"({"env":["A=1"],"intelRdt":{"closID":"a"}})"));
  Append(to, *EditsFromJson(Parsed(R"({"env":["B=1"],"additionalGids":[1]})")));
  Append(to, *EditsFromJson(Parsed(R"({"intelRdt":{"closID":"b"}})")));
  EXPECT_EQ(ToJson(to),
            Parsed(R"({"env":["A=1","B=1"],"additionalGids":[1],"intelRdt":{"closID":"b"}})"));
}

}  // namespace
}  // namespace dra::cdi
