#include "driver/runtime_cdi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dra/testing/temp_directory.h"

namespace dra::driver {
namespace {

using ::testing::HasSubstr;

class RuntimeCdi : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::string full = root_.Path(path);
    ASSERT_TRUE(MakeDirectories(fs_, DirectoryName(full), 0755).ok());
    ASSERT_TRUE(WriteFileAtomically(fs_, full, text, 0644, Durability::kVolatile).ok());
  }
  std::vector<CheckResult> Check(const std::string& cdi_directory = "/var/run/cdi") {
    return CheckRuntimeCdi(fs_, root_.Path(""), cdi_directory);
  }
  CheckResult Only(const std::string& cdi_directory = "/var/run/cdi") {
    const std::vector<CheckResult> results = Check(cdi_directory);
    EXPECT_EQ(results.size(), 1u);
    return results.empty() ? CheckResult{} : results.front();
  }

  testing::TempDirectory root_;
  PosixFileSystem fs_;
};

TEST_F(RuntimeCdi, NothingIsSaidWhereNoRuntimeHasAFile) { EXPECT_TRUE(Check().empty()); }

using Cdi09 = RuntimeCdi;
TEST_F(Cdi09, ASwitchedOffCdiIsAFinding) {
  Write("etc/containerd/config.toml",
        "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  enable_cdi = false\n");
  EXPECT_FALSE(Only().ok);
  EXPECT_THAT(Only().message, HasSubstr("start without their devices"));
}

TEST_F(Cdi09, AnUnsetSwitchIsSaid) {
  Write("etc/containerd/config.toml", "version = 2\n");
  EXPECT_TRUE(Only().ok);
  EXPECT_THAT(Only().message, HasSubstr("enable_cdi is not set"));
}

using Pkg04 = RuntimeCdi;
TEST_F(Pkg04, OtherDirectoriesThanTheDriversAreAFinding) {
  Write("etc/containerd/config.toml",
        "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true\n"
        "cdi_spec_dirs = ['/var/cdi/static', '/var/cdi/dynamic']\n");
  EXPECT_FALSE(Only().ok);
  EXPECT_THAT(Only().message, HasSubstr("/var/cdi/dynamic"));
  EXPECT_THAT(Only().message, HasSubstr("/var/run/cdi"));
  EXPECT_TRUE(Only("/var/cdi/dynamic").ok);
}

TEST_F(RuntimeCdi, VarRunAndRunAreOneDirectory) {
  Write("etc/crio/crio.conf", "[crio.runtime]\ncdi_spec_dirs = [\"/etc/cdi\", \"/run/cdi/\"]\n");
  EXPECT_TRUE(Only("/var/run/cdi").ok);
}

TEST_F(RuntimeCdi, ImportedFilesOutrankTheFirst) {
  Write("etc/containerd/config.toml",
        "version = 3\nimports = ['/etc/containerd/conf.d/*.toml', 'config.toml']\n"
        "[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n");
  EXPECT_FALSE(Only().ok);
  Write("etc/containerd/conf.d/cdi.toml",
        "[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true\n");
  // A file that imports itself ends all the same, and the last word counts.
  Write("etc/containerd/config.toml",
        "version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n"
        "[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n");
  EXPECT_TRUE(Only().ok) << Only().message;
}

TEST_F(RuntimeCdi, DropInsOfCrioOutrankItsFile) {
  Write("etc/crio/crio.conf", "[crio.runtime]\ncdi_spec_dirs = [\"/var/run/cdi\"]\n");
  Write("etc/crio/crio.conf.d/10-cdi.conf", "[crio.runtime]\ncdi_spec_dirs = [\"/elsewhere\"]\n");
  EXPECT_FALSE(Only().ok);
}

TEST_F(RuntimeCdi, AFileThatIsNoTomlIsNamedWithItsLine) {
  Write("etc/containerd/config.toml", "version = 2\n[plugins\n");
  EXPECT_FALSE(Only().ok);
  EXPECT_THAT(Only().message, HasSubstr("config.toml:2"));
}

}  // namespace
}  // namespace dra::driver
