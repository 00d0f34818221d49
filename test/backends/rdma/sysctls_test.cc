#include "sysctls.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "namespaces.h"

namespace rdma {
namespace {

constexpr char kFile[] = "/proc/sys/net/ipv4/conf/lo/arp_ignore";

// As in the driver's container, which has no privilege but its capabilities.
TEST(Sysctls, AreWrittenWhereProcSysIsReadOnly) {
  const bool permitted = RunApart(CLONE_NEWNET | CLONE_NEWNS, [] {
    ASSERT_EQ(mount("/proc/sys", "/proc/sys", nullptr, MS_BIND, nullptr), 0);
    ASSERT_EQ(mount("", "/proc/sys", nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr), 0);
    ASSERT_EQ(open(kFile, O_WRONLY), -1);
    ASSERT_EQ(errno, EROFS);
    ASSERT_EQ(ReadSysctl("lo", "ipv4/arp_ignore"), "0");
    WriteSysctl("lo", "ipv4/arp_ignore", "2");
    EXPECT_EQ(ReadSysctl("lo", "ipv4/arp_ignore"), "2");
    EXPECT_EQ(SysctlsOf("lo").at("ipv4/arp_ignore"), "2");
  });
  if (!permitted) GTEST_SKIP() << "making network namespaces is not permitted";
}

}  // namespace
}  // namespace rdma
