#include "dra/kubelet/sockets.h"

#include <string>

#include "dra/base/ids.h"
#include "gtest/gtest.h"

namespace dra::kubelet {
namespace {

constexpr char kUid[] = "0b2d1f3a-1111-4222-8333-444455556666";

TEST(ComputeSocketPaths, GivesTheHelpersNamesUnderTheRoot) {
  const auto plain = ComputeSocketPaths("/var/lib/kubelet", "gpu.example.com", "");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->registration_socket,
            "/var/lib/kubelet/plugins_registry/gpu.example.com-reg.sock");
  EXPECT_EQ(plain->service_socket, "/var/lib/kubelet/plugins/gpu.example.com/dra.sock");
  const auto rolling = ComputeSocketPaths("/var/lib/kubelet/", "gpu.example.com", kUid);
  ASSERT_TRUE(rolling.ok());
  EXPECT_EQ(rolling->registration_socket, std::string("/var/lib/kubelet/plugins_registry/"
                                                      "gpu.example.com-") +
                                              kUid + "-reg.sock");
  EXPECT_EQ(rolling->service_socket,
            std::string("/var/lib/kubelet/plugins/gpu.example.com/dra-") + kUid + ".sock");
}

TEST(ComputeSocketPaths, TakesTheLongestNameThatHas107Bytes) {
  // /var/lib/kubelet/plugins_registry/ has 34 bytes, "-<uid>-reg.sock" 46: 27 are left for the driver.
  const std::string fits(27, 'd');
  const auto full = ComputeSocketPaths("/var/lib/kubelet", fits, kUid);
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->registration_socket.size(), 107u);
  EXPECT_NE(full->registration_socket.find(kUid), std::string::npos);
  const auto hashed = ComputeSocketPaths("/var/lib/kubelet", fits + "d", kUid);
  ASSERT_TRUE(hashed.ok());
  EXPECT_EQ(hashed->registration_socket, "/var/lib/kubelet/plugins_registry/" + fits + "d-" +
                                             Sha256Base64Url(kUid, 8) + "-reg.sock");
  EXPECT_FALSE(hashed->registration_needs_marker);
}

TEST(ComputeSocketPaths, HashesTheServiceSocketOfALongDriverToo) {
  const std::string driver(37, 'd');
  const auto paths = ComputeSocketPaths("/var/lib/kubelet", driver, kUid);
  ASSERT_TRUE(paths.ok());
  EXPECT_EQ(paths->service_socket,
            "/var/lib/kubelet/plugins/" + driver + "/dra-" + Sha256Base64Url(kUid, 8) + ".sock");
}

TEST(Reg10Names, ALongRootWithALongDriverGetsHashedNamesThatFit) {
  const std::string root = "/var/snap/microk8s/common/var/lib/kubelet";
  const std::string driver = std::string(59, 'd') + ".com";
  for (const std::string uid : {"", kUid}) {
    const auto paths = ComputeSocketPaths(root, driver, uid);
    ASSERT_TRUE(paths.ok()) << paths.status();
    const std::string hash = Sha256Base64Url(driver + std::string(1, '\0') + uid, 16);
    EXPECT_EQ(paths->registration_socket, root + "/plugins_registry/dra-" + hash + "-reg.sock");
    EXPECT_EQ(paths->service_socket, root + "/plugins_registry/.dra-" + hash + ".sock");
    EXPECT_LE(paths->registration_socket.size(), kMaxSocketPath);
    EXPECT_TRUE(paths->registration_needs_marker);
    EXPECT_TRUE(paths->service_needs_marker);
  }
}

TEST(FreshRegistrationSocket, DiffersFromCallToCallAndFits) {
  for (const std::string& driver : {std::string("gpu.example.com"), std::string(63, 'd')}) {
    const auto paths = ComputeSocketPaths("/var/lib/kubelet/on/a/long/way", driver, "");
    ASSERT_TRUE(paths.ok()) << paths.status();
    const std::string fresh = FreshRegistrationSocket(*paths, driver);
    EXPECT_LE(fresh.size(), kMaxSocketPath);
    EXPECT_EQ(fresh.rfind(paths->registry_directory + "/", 0), 0u) << fresh;
    EXPECT_NE(fresh, paths->registration_socket);
    EXPECT_NE(fresh, FreshRegistrationSocket(*paths, driver));
  }
}

TEST(ComputeSocketPaths, RefusesARootThatLeavesNoRoomAndSaysTheLimit) {
  const auto paths = ComputeSocketPaths("/" + std::string(80, 'r'), "gpu.example.com", "");
  EXPECT_TRUE(absl::IsInvalidArgument(paths.status()));
  EXPECT_NE(std::string(paths.status().message()).find("at most 107"), std::string::npos);
  EXPECT_TRUE(absl::IsInvalidArgument(ComputeSocketPaths("var/lib", "a.b", "").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ComputeSocketPaths("/k", "a.b", "../x").status()));
}

TEST(ValidateDriverName, TakesWhatTheKubeletTakes) {
  EXPECT_TRUE(ValidateDriverName("gpu.example.com").ok());
  EXPECT_TRUE(ValidateDriverName(std::string(63, 'a')).ok());
  for (const std::string bad : {"", "-a.com", "a..b", "a_b.com", "a.com-", "a/b"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ValidateDriverName(bad))) << bad;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ValidateDriverName("a." + std::string(62, 'b'))));
}

TEST(IsRegistrationSocketName, LeavesNamesOfOtherDriversAlone) {
  const std::string driver = "gpu.example.com";
  EXPECT_TRUE(IsRegistrationSocketName(driver + "-reg.sock", driver));
  EXPECT_TRUE(IsRegistrationSocketName(driver + "-" + kUid + "-reg.sock", driver));
  EXPECT_TRUE(IsRegistrationSocketName(driver + "-Ab3_efgh-jk-reg.sock", driver));
  for (const std::string other :
       {"gpu.example.com-x-reg.sock", "gpu.example.com-abcdefghijk-reg.sock",
        "gpu.example.community-reg.sock", "nic.example.com-reg.sock", "gpu.example.com.sock",
        "dra-0123456789abcdefABCDEF-reg.sock", "gpu.example.com-reg.sock.tmp"}) {
    EXPECT_FALSE(IsRegistrationSocketName(other, driver)) << other;
  }
}

TEST(IsServiceSocketName, KnowsTheThreeForms) {
  for (const std::string& name : {std::string("dra.sock"), std::string("dra-") + kUid + ".sock",
                                  std::string("dra-0123456789a.sock")}) {
    EXPECT_TRUE(IsServiceSocketName(name)) << name;
  }
  for (const std::string name : {"dra", "dra-x.sock", "other.sock", "dra.sock.old"}) {
    EXPECT_FALSE(IsServiceSocketName(name)) << name;
  }
}

}  // namespace
}  // namespace dra::kubelet
