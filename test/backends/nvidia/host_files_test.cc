#include "host_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "driver_tree.h"
#include "elf_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nvidia {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;
using testing::UnorderedElementsAreArray;

constexpr char kFilesVersion[] = "580.126.20";
constexpr char kLib[] = "/usr/lib/x86_64-linux-gnu";

std::string Versioned(const std::string& name) { return name + ".so." + kFilesVersion; }

std::vector<std::string> Texts(const std::vector<HostFiles::Mount>& mounts) {
  std::vector<std::string> texts;
  for (const auto& mount : mounts) texts.push_back(mount.host_path + " at " + mount.container_path);
  return texts;
}
std::vector<std::string> Texts(const std::vector<HostFiles::Link>& links) {
  std::vector<std::string> texts;
  for (const auto& link : links) texts.push_back(link.path + " -> " + link.target);
  return texts;
}

// ------------------------------------------------------------------------------------------ NVML

TEST(NvidiaHostFiles, FindNvmlInTheOrderOfNvidiasTools) {
  DriverTree tree;
  const HostFiles files(tree.ToOptions());
  EXPECT_EQ(files.NvmlLibrary(), std::nullopt);
  tree.File("/lib/x86_64-linux-gnu/libnvidia-ml.so.1");
  EXPECT_EQ(files.NvmlLibrary(), "/lib/x86_64-linux-gnu/libnvidia-ml.so.1");
  tree.File("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1");
  EXPECT_EQ(files.NvmlLibrary(), "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1");
  tree.File("/usr/lib64/libnvidia-ml.so.1");
  EXPECT_EQ(files.NvmlLibrary(), "/usr/lib64/libnvidia-ml.so.1");
}

TEST(NvidiaHostFiles, ADirectoryOfTheLibrarysNameIsPassedOver) {  // INV-17
  DriverTree tree;
  tree.Directory("/usr/lib64/libnvidia-ml.so.1");
  tree.File("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1");
  EXPECT_EQ(HostFiles(tree.ToOptions()).NvmlLibrary(),
            "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1");
}

TEST(NvidiaHostFiles, LinksMeanPathsBelowTheDriversRoot) {
  DriverTree tree;
  const std::string root = "/run/nvidia/driver";
  tree.File(root + "/opt/nvidia/libnvidia-ml.so.580");
  tree.Link(root + "/usr/lib64/libnvidia-ml.so.1", "/opt/nvidia/libnvidia-ml.so.580");
  const HostFiles files(tree.ToOptions(root));
  EXPECT_EQ(files.NvmlLibrary(), root + "/opt/nvidia/libnvidia-ml.so.580");
  EXPECT_EQ(files.Open(*files.NvmlLibrary()), tree.Path(root + "/opt/nvidia/libnvidia-ml.so.580"));
}

TEST(NvidiaHostFiles, ALinkThatLeavesTheDriversRootIsRefused) {
  DriverTree tree;
  const std::string root = "/run/nvidia/driver";
  tree.Directory(root + "/usr/lib64");
  tree.File("/secret/libnvidia-ml.so.1");
  tree.File(root + "/secret/libnvidia-ml.so.1");  // what a process chrooted there would find
  tree.Link(root + "/usr/lib64/libnvidia-ml.so.1", "../../../../../secret/libnvidia-ml.so.1");
  tree.Link(root + "/lib64", "../../../secret");
  tree.Link(root + "/usr/lib/x86_64-linux-gnu", "x86_64-linux-gnu");  // a circle
  EXPECT_EQ(HostFiles(tree.ToOptions(root)).NvmlLibrary(), std::nullopt);
}

TEST(NvidiaHostFiles, AConfiguredLibraryIsTheOnlyOne) {
  DriverTree tree;
  tree.File("/usr/lib64/libnvidia-ml.so.1");
  Options options = tree.ToOptions();
  options.nvml_library = "/opt/libnvidia-ml.so.1";
  EXPECT_EQ(HostFiles(options).NvmlLibrary(), std::nullopt);
  tree.File("/opt/libnvidia-ml.so.1");
  EXPECT_EQ(HostFiles(options).NvmlLibrary(), "/opt/libnvidia-ml.so.1");
}

// ------------------------------------------------------------------------------------- FilesOf

TEST(NvidiaDriverFiles, LibrariesOfTheRunningVersionComeWithTheirSonames) {
  DriverTree tree;
  tree.Library(kLib + Versioned("/libcuda"), "libcuda.so.1");
  tree.Library(kLib + Versioned("/libnvidia-ml"), "libnvidia-ml.so.1");
  tree.Library(kLib + Versioned("/libnvidia-glcore"), Versioned("libnvidia-glcore"));
  tree.Library(std::string(kLib) + "/libcuda.so.570.1", "libcuda.so.1");  // of another version
  tree.Library(std::string(kLib) + "/libnvidia-nvvm70.so.4", "libnvidia-nvvm70.so.4");
  tree.Library(std::string(kLib) + "/libc.so.6", "libc.so.6");
  tree.File(kLib + Versioned("/libnvidia-simulator"), "{}");  // no ELF
  tree.Link(std::string(kLib) + "/libcuda.so.1", Versioned("libcuda"));
  tree.Library(kLib + Versioned("/vdpau/libvdpau_nvidia"), "libvdpau_nvidia.so.1");
  tree.Directory(kLib + Versioned("/libdirectory"));

  const auto files = *HostFiles(tree.ToOptions()).FilesOf(kFilesVersion);
  EXPECT_THAT(
      Texts(files.libraries),
      UnorderedElementsAre(
          kLib + Versioned("/libcuda") + " at " + kLib + Versioned("/libcuda"),
          kLib + Versioned("/libnvidia-ml") + " at " + kLib + Versioned("/libnvidia-ml"),
          kLib + Versioned("/libnvidia-glcore") + " at " + kLib + Versioned("/libnvidia-glcore"),
          kLib + Versioned("/libnvidia-simulator") + " at " + kLib +
              Versioned("/libnvidia-simulator"),
          std::string(kLib) + "/libnvidia-nvvm70.so.4 at " + kLib + "/libnvidia-nvvm70.so.4",
          kLib + Versioned("/vdpau/libvdpau_nvidia") + " at " + kLib +
              Versioned("/vdpau/libvdpau_nvidia")));
  EXPECT_THAT(
      Texts(files.links),
      UnorderedElementsAre(
          std::string(kLib) + "/libcuda.so.1 -> " + Versioned("libcuda"),
          std::string(kLib) + "/libcuda.so -> libcuda.so.1",
          std::string(kLib) + "/libnvidia-ml.so.1 -> " + Versioned("libnvidia-ml"),
          std::string(kLib) + "/vdpau/libvdpau_nvidia.so.1 -> " + Versioned("libvdpau_nvidia")));
  EXPECT_THAT(files.library_directories, ElementsAre(kLib));
}

TEST(NvidiaDriverFiles, ALinkedLibIsFoundOnceUnderItsRealPath) {  // CDI-11
  DriverTree tree;
  tree.Link("/lib", "usr/lib");
  tree.Library(kLib + Versioned("/libcuda"), "libcuda.so.1");
  const auto files = *HostFiles(tree.ToOptions()).FilesOf(kFilesVersion);
  EXPECT_THAT(Texts(files.libraries),
              ElementsAre(kLib + Versioned("/libcuda") + " at " + kLib + Versioned("/libcuda")));
  EXPECT_THAT(files.library_directories, ElementsAre(kLib));
}

TEST(NvidiaDriverFiles, ADriversRootIsInHostPathsAndNotInContainerPaths) {
  DriverTree tree;
  const std::string root = "/run/nvidia/driver";
  tree.Library(root + "/opt" + Versioned("/libcuda"), "libcuda.so.1");
  tree.Link(root + "/usr/lib64" + Versioned("/libcuda"), "/opt" + Versioned("/libcuda"));
  tree.File(root + "/usr/bin/nvidia-smi");
  tree.File("/usr/bin/nvidia-debugdump");  // the host's, not the driver's
  tree.Link(root + "/usr/bin/nvidia-imex", "../../../../../usr/bin/nvidia-debugdump");  // leaves
  const auto files = *HostFiles(tree.ToOptions(root)).FilesOf(kFilesVersion);
  EXPECT_THAT(Texts(files.libraries), ElementsAre(root + "/opt" + Versioned("/libcuda") +
                                                  " at /usr/lib64" + Versioned("/libcuda")));
  EXPECT_THAT(Texts(files.links), Contains("/usr/lib64/libcuda.so.1 -> " + Versioned("libcuda")));
  EXPECT_THAT(Texts(files.binaries),
              ElementsAre(root + "/usr/bin/nvidia-smi at /usr/bin/nvidia-smi"));
}

TEST(NvidiaDriverFiles, LibrariesBehindDebiansLinksAreFound) {
  DriverTree tree;
  const std::string real = std::string(kLib) + "/nvidia/current";
  tree.Library(real + Versioned("/libnvidia-ml"), "libnvidia-ml.so.1");
  tree.Library(real + Versioned("/libcuda"), "libcuda.so.1");
  tree.Link(real + "/libnvidia-ml.so.1", Versioned("libnvidia-ml"));
  tree.Link("/etc/alternatives/nvml", real + "/libnvidia-ml.so.1");
  tree.Link(std::string(kLib) + "/libnvidia-ml.so.1", "/etc/alternatives/nvml");
  const auto files = *HostFiles(tree.ToOptions()).FilesOf(kFilesVersion);
  EXPECT_EQ(files.libraries.size(), 2u);
  EXPECT_THAT(files.library_directories, ElementsAre(real));
}

TEST(NvidiaDriverFiles, NoLinkIsMadeWhereALibraryIsMounted) {
  DriverTree tree;
  tree.Library(kLib + Versioned("/liba"), "libnvidia-nvvm70.so.4");
  tree.Library(std::string(kLib) + "/libnvidia-nvvm70.so.4", "libnvidia-nvvm70.so.4");
  const auto files = *HostFiles(tree.ToOptions()).FilesOf(kFilesVersion);
  EXPECT_EQ(files.libraries.size(), 2u);
  EXPECT_THAT(files.links, IsEmpty());
}

TEST(NvidiaDriverFiles, BinariesSocketsFirmwareAndDataAreTakenWhereTheyAre) {
  DriverTree tree;
  tree.Library("/usr/lib64" + Versioned("/libcuda"), "libcuda.so.1");
  tree.File("/usr/bin/nvidia-smi");
  tree.File("/opt/bin/nvidia-smi");  // is searched first
  tree.Directory("/usr/bin/nvidia-debugdump");
  tree.Socket("/run/nvidia-persistenced/socket");
  tree.File("/run/nvidia-fabricmanager/socket");  // no socket
  tree.File("/etc/vulkan/icd.d/nvidia_icd.json");
  tree.File("/usr/share/vulkan/icd.d/nvidia_icd.json");
  tree.File("/usr/share/glvnd/egl_vendor.d/10_nvidia.json");
  tree.Link("/lib", "usr/lib");
  tree.File(std::string("/usr/lib/firmware/nvidia/") + kFilesVersion + "/gsp_ga10x.bin");
  tree.File(std::string("/usr/lib/firmware/nvidia/") + kFilesVersion + "/readme");
  tree.File("/usr/lib/firmware/nvidia/570.1/gsp_ga10x.bin");

  const auto files = *HostFiles(tree.ToOptions()).FilesOf(kFilesVersion);
  EXPECT_THAT(Texts(files.binaries), ElementsAre("/opt/bin/nvidia-smi at /opt/bin/nvidia-smi"));
  EXPECT_THAT(Texts(files.sockets), ElementsAre("/run/nvidia-persistenced/socket at "
                                                "/run/nvidia-persistenced/socket"));
  const std::string icd = "/etc/vulkan/icd.d/nvidia_icd.json";
  const std::string egl = "/usr/share/glvnd/egl_vendor.d/10_nvidia.json";
  EXPECT_THAT(Texts(files.other), UnorderedElementsAre(icd + " at " + icd, egl + " at " + egl));
  const std::string gsp =
      std::string("/usr/lib/firmware/nvidia/") + kFilesVersion + "/gsp_ga10x.bin";
  EXPECT_THAT(Texts(files.firmware), ElementsAre(gsp + " at " + gsp));
}

TEST(NvidiaDriverFiles, FirmwareIsSearchedAsTheKernelDoes) {
  DriverTree tree;
  utsname kernel = {};
  ASSERT_EQ(uname(&kernel), 0);
  tree.Library("/usr/lib64" + Versioned("/libcuda"), "libcuda.so.1");
  const HostFiles files(tree.ToOptions());
  const std::string name = std::string("/nvidia/") + kFilesVersion + "/gsp.bin";
  // From the last place to the first.
  for (const std::string& place :
       {std::string("/lib/firmware"), std::string("/lib/firmware/") + kernel.release,
        std::string("/lib/firmware/updates"),
        std::string("/lib/firmware/updates/") + kernel.release, std::string("/opt/firmware")}) {
    SCOPED_TRACE(place);
    tree.File(place + name);
    if (place == "/opt/firmware")
      tree.File("/sys/module/firmware_class/parameters/path", "/opt/firmware\n");
    EXPECT_THAT(Texts(files.FilesOf(kFilesVersion)->firmware),
                ElementsAre(place + name + " at " + place + name));
  }
}

TEST(NvidiaDriverFiles, ASocketOfTheHostServesADriversContainer) {
  DriverTree tree;
  const std::string root = "/run/nvidia/driver";
  tree.Library(root + "/usr/lib64" + Versioned("/libcuda"), "libcuda.so.1");
  tree.Socket("/run/nvidia-fabricmanager/socket");
  tree.Socket("/run/nvidia-persistenced/socket");
  tree.Socket(root + "/run/nvidia-persistenced/socket");
  EXPECT_THAT(
      Texts(HostFiles(tree.ToOptions(root)).FilesOf(kFilesVersion)->sockets),
      ElementsAre(root + "/run/nvidia-persistenced/socket at /run/nvidia-persistenced/socket",
                  "/run/nvidia-fabricmanager/socket at /run/nvidia-fabricmanager/socket"));
}

TEST(NvidiaDriverFiles, OfAVersionThatIsNotThereAreRefusedWithWhatIs) {
  DriverTree tree;
  tree.Library(kLib + Versioned("/libnvidia-ml"), "libnvidia-ml.so.1");
  tree.Link(std::string(kLib) + "/libnvidia-ml.so.1", Versioned("libnvidia-ml"));
  tree.Library(std::string(kLib) + "/libnvidia-nvvm70.so.4", "libnvidia-nvvm70.so.4");
  for (const char* version : {"590.1", "", "../580"}) {
    try {
      HostFiles(tree.ToOptions()).FilesOf(version);
      ADD_FAILURE() << "accepted";
    } catch (const dra::BackendError& error) {
      EXPECT_EQ(error.code(), DRA_UNAVAILABLE);
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr(std::string("driver ") + version + " runs, but / of the host"),
                        HasSubstr("NVML is " + (kLib + Versioned("/libnvidia-ml"))),
                        HasSubstr("finish the driver's upgrade, or set driverRoot")));
    }
  }
}

TEST(NvidiaDriverFiles, OfAnUpgradedDriverAreTheNewOnes) {
  DriverTree tree;
  const HostFiles files(tree.ToOptions());
  tree.Library("/usr/lib64/libcuda.so.570.1", "libcuda.so.1");
  EXPECT_EQ(files.FilesOf("570.1")->libraries.size(), 1u);
  unlink(tree.Path("/usr/lib64/libcuda.so.570.1").c_str());
  tree.Library("/usr/lib64/libcuda.so.580.1", "libcuda.so.1");
  EXPECT_THAT(Texts(files.FilesOf("580.1")->libraries),
              ElementsAre("/usr/lib64/libcuda.so.580.1 at /usr/lib64/libcuda.so.580.1"));
}

TEST(NvidiaDriverFiles, OfEglAndVulkanAndXorgComeWithTheirLinks) {
  DriverTree tree;
  const std::string lib = kLib;
  tree.Library(lib + Versioned("/libcuda"), "libcuda.so.1");
  tree.Library(lib + Versioned("/libnvidia-allocator"), "libnvidia-allocator.so.1");
  tree.Library(lib + "/libnvidia-egl-gbm.so.1.1.2", "libnvidia-egl-gbm.so.1");
  tree.Link(lib + "/libnvidia-egl-gbm.so.1", "libnvidia-egl-gbm.so.1.1.2");
  tree.Library(lib + "/libnvidia-egl-xcb.so.1.0.1", "libnvidia-egl-xcb.so.1");
  tree.Link(lib + "/gbm/nvidia-drm_gbm.so", "../" + Versioned("libnvidia-allocator"));
  tree.Library(lib + "/gbm/dri_gbm.so", "dri_gbm.so");  // Mesa's
  const std::string platforms = "/usr/share/egl/egl_external_platform.d/";
  tree.File(platforms + "15_nvidia_gbm.json");
  tree.File(platforms + "20_nvidia_xcb.json");
  tree.File(platforms + "50_mesa.json");
  tree.File("/usr/share/vulkan/icd.d/nvidia_layers.json");
  tree.File("/usr/share/vulkan/icd.d/intel_icd.json");
  tree.File("/usr/share/X11/xorg.conf.d/10-nvidia.conf");
  const std::string xorg = "/usr/lib/xorg/modules";
  tree.File(xorg + "/drivers/nvidia_drv.so");
  const auto names = [](const std::vector<HostFiles::Mount>& mounts) {
    std::vector<std::string> paths;
    for (const auto& mount : mounts) paths.push_back(mount.container_path);
    return paths;
  };

  // An X driver of nobody knows which version stays out.
  auto files = *HostFiles(tree.ToOptions()).FilesOf(kFilesVersion);
  EXPECT_THAT(names(files.libraries), UnorderedElementsAre(lib + Versioned("/libcuda"),
                                                           lib + Versioned("/libnvidia-allocator"),
                                                           lib + "/libnvidia-egl-gbm.so.1.1.2",
                                                           lib + "/libnvidia-egl-xcb.so.1.0.1"));
  EXPECT_THAT(Texts(files.links),
              IsSupersetOf({
                  lib + "/libnvidia-egl-gbm.so.1 -> libnvidia-egl-gbm.so.1.1.2",
                  lib + "/gbm/nvidia-drm_gbm.so -> " + lib + "/libnvidia-allocator.so.1",
              }));
  const std::vector<std::string> data = {
      platforms + "15_nvidia_gbm.json", platforms + "20_nvidia_xcb.json",
      "/usr/share/vulkan/icd.d/nvidia_layers.json", "/usr/share/X11/xorg.conf.d/10-nvidia.conf"};
  EXPECT_THAT(names(files.other), UnorderedElementsAreArray(data));

  tree.Library(xorg + Versioned("/extensions/libglxserver_nvidia"), "libglxserver_nvidia.so");
  files = *HostFiles(tree.ToOptions()).FilesOf(kFilesVersion);
  EXPECT_THAT(names(files.other),
              IsSupersetOf({xorg + "/drivers/nvidia_drv.so",
                            xorg + Versioned("/extensions/libglxserver_nvidia")}));
  EXPECT_THAT(Texts(files.links), Contains(xorg + "/extensions/libglxserver_nvidia.so -> " +
                                           Versioned("libglxserver_nvidia")));
}

// -------------------------------------------------------------------------- what is remembered

class NvidiaDriverFilesAgain : public testing::Test {
 protected:
  NvidiaDriverFilesAgain() {
    tree_.Library(root_ + "/usr/lib64" + Versioned("/libcuda"), "libcuda.so.1");
    tree_.Link(root_ + "/lib64", "usr/lib64");
    tree_.File(root_ + "/usr/bin/nvidia-smi");
    tree_.Socket("/run/nvidia-persistenced/socket");
    WaitForTick();
    EXPECT_EQ(Again(), 1);
    EXPECT_EQ(Again(), 1) << "searched although nothing has changed";
  }
  // Until what is written has another time than what is there: a few milliseconds.
  void WaitForTick() {
    const auto now = [&] {
      tree_.File("/tick");
      struct stat status = {};
      EXPECT_EQ(lstat(tree_.Path("/tick").c_str(), &status), 0);
      return std::pair(status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
    };
    const auto start = now();
    while (now() == start) {
    }
  }
  // How often the files were searched for, one more question included.
  int Again() {
    files_ = *host_.FilesOf(kFilesVersion);
    return host_.searches();
  }

  DriverTree tree_;
  const std::string root_ = "/run/nvidia/driver";
  const HostFiles host_{tree_.ToOptions(root_), std::chrono::nanoseconds(0)};
  HostFiles::DriverFiles files_;
};

TEST_F(NvidiaDriverFilesAgain, AreSearchedForWhenALibraryComes) {
  tree_.Library(root_ + "/usr/lib64" + Versioned("/libnvidia-ml"), "libnvidia-ml.so.1");
  EXPECT_EQ(Again(), 2);
  EXPECT_EQ(files_.libraries.size(), 2u);
  EXPECT_EQ(Again(), 2);
}

TEST_F(NvidiaDriverFilesAgain, AreSearchedForWhenAFileComesWhereNoneWas) {
  tree_.File(root_ + "/etc/vulkan/icd.d/nvidia_icd.json");
  EXPECT_EQ(Again(), 2);
  EXPECT_EQ(files_.other.size(), 1u);
}

TEST_F(NvidiaDriverFilesAgain, AreSearchedForWhenAFileGoes) {
  unlink(tree_.Path("/run/nvidia-persistenced/socket").c_str());
  EXPECT_EQ(Again(), 2);
  EXPECT_THAT(files_.sockets, IsEmpty());
}

// As an installer does that writes a library piece by piece.
TEST_F(NvidiaDriverFilesAgain, AreSearchedForWhenALibraryIsWrittenInPlace) {
  tree_.File(root_ + "/usr/lib64" + Versioned("/libcuda"), "");
  EXPECT_EQ(Again(), 2);
  EXPECT_THAT(files_.links, IsEmpty());
  tree_.Library(root_ + "/usr/lib64" + Versioned("/libcuda"), "libcuda.so.1");
  EXPECT_EQ(Again(), 3);
  EXPECT_EQ(files_.links.size(), 2u);
}

TEST_F(NvidiaDriverFilesAgain, AreSearchedForWhenALinkLeadsElsewhere) {
  unlink(tree_.Path(root_ + "/lib64").c_str());
  tree_.Library(root_ + "/opt" + Versioned("/libnvidia-ml"), "libnvidia-ml.so.1");
  tree_.Link(root_ + "/lib64", "opt");
  EXPECT_EQ(Again(), 2);
  EXPECT_EQ(files_.libraries.size(), 2u);
}

// A driver's container that starts again brings a root with the same names.
TEST_F(NvidiaDriverFilesAgain, AreSearchedForWhenAnotherRootLiesInTheDriversPlace) {
  std::filesystem::rename(tree_.Path(root_), tree_.Path("/run/nvidia/before"));
  std::filesystem::copy(
      tree_.Path("/run/nvidia/before"), tree_.Path(root_),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  EXPECT_EQ(Again(), 2);
}

TEST_F(NvidiaDriverFilesAgain, AreSearchedForWhenTheKernelIsToldOfAnotherFirmware) {
  tree_.File(root_ + "/opt/firmware/nvidia/" + kFilesVersion + "/gsp.bin");
  tree_.File("/sys/module/firmware_class/parameters/path", "/opt/firmware\n");
  EXPECT_EQ(Again(), 2);
  EXPECT_EQ(files_.firmware.size(), 1u);
}

TEST_F(NvidiaDriverFilesAgain, OfAnotherVersionAreSearchedForAndErrorsAreNotKept) {
  for (int i = 0; i < 2; ++i) EXPECT_THROW((void)host_.FilesOf("590.1"), dra::BackendError);
  EXPECT_EQ(host_.searches(), 3);
  EXPECT_EQ(Again(), 3);
  tree_.Library(root_ + "/usr/lib64/libcuda.so.590.1", "libcuda.so.1");
  EXPECT_EQ(host_.FilesOf("590.1")->libraries.size(), 1u);
}

// What else lies on the way is nobody's concern: /run and /etc change all day.
TEST_F(NvidiaDriverFilesAgain, AreNotSearchedForWhenSomethingElseChanges) {
  tree_.File("/run/other/pid", "1");
  tree_.File(root_ + "/usr/bin/other");
  EXPECT_EQ(Again(), 1);
}

TEST(NvidiaDriverFiles, AreSearchedForEachTimeWhileTheyAreNew) {
  DriverTree tree;
  tree.Library("/usr/lib64" + Versioned("/libcuda"), "libcuda.so.1");
  const HostFiles host(tree.ToOptions(), std::chrono::hours(1));
  for (int i = 1; i <= 3; ++i) {
    (void)host.FilesOf(kFilesVersion);
    EXPECT_EQ(host.searches(), i);
  }
}

// --------------------------------------------------------------------------------------- ELF

// What a broken file may cost: its link, never more.
TEST(NvidiaElfFile, SonameOfABrokenFileIsNone) {
  DriverTree tree;
  const std::string good = MakeElf("libx.so.1");
  tree.File("/x", good);
  ASSERT_EQ(SonameOf(tree.Path("/x")), "libx.so.1");
  // Every length, and every byte set to 0xff: whatever comes out is a plain name, or nothing.
  for (size_t size = 0; size < good.size(); ++size) {
    tree.File("/x", good.substr(0, size));
    EXPECT_EQ(SonameOf(tree.Path("/x")), std::nullopt) << size;
  }
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(0xff);
    tree.File("/x", bad);
    const auto name = SonameOf(tree.Path("/x"));
    EXPECT_THAT(name.value_or("none"), AllOf(Not(HasSubstr("/")), Not(testing::IsEmpty()))) << i;
  }
}

TEST(NvidiaElfFile, ASonameThatIsNoFileNameIsNone) {
  DriverTree tree;
  for (const std::string& name : {std::string("../libx.so"), std::string("/x"), std::string(".."),
                                  std::string("."), std::string(""), std::string(300, 'x')}) {
    tree.File("/x", MakeElf(name));
    EXPECT_EQ(SonameOf(tree.Path("/x")), std::nullopt) << name;
  }
  std::string other = MakeElf("libx.so.1");
  other[EI_CLASS] = ELFCLASS32;
  tree.File("/x", other);
  EXPECT_EQ(SonameOf(tree.Path("/x")), std::nullopt);
  tree.Directory("/directory");
  EXPECT_EQ(SonameOf(tree.Path("/directory")), std::nullopt);
  EXPECT_EQ(SonameOf(tree.Path("/absent")), std::nullopt);
}

TEST(NvidiaElfFile, LdconfigIsTheProgramAndNotAScriptAroundIt) {
  DriverTree tree;
  const std::string root = "/run/nvidia/driver";
  const HostFiles files(tree.ToOptions(root));
  EXPECT_EQ(files.Ldconfig(), std::nullopt);
  tree.File("/sbin/ldconfig", "#!/bin/sh\nexec /sbin/ldconfig.real\n");
  EXPECT_EQ(files.Ldconfig(), std::nullopt);
  tree.Library(root + "/usr/sbin/ldconfig", "static");
  EXPECT_EQ(files.Ldconfig(), root + "/usr/sbin/ldconfig");
  tree.Library("/sbin/ldconfig.real", "static");
  EXPECT_EQ(files.Ldconfig(), "/sbin/ldconfig.real");
}

// ------------------------------------------------------------------------------------- numbers

TEST(NvidiaHostFiles, MajorsAreThoseOfCharacterDevicesOfExactlyThatName) {
  DriverTree tree;
  const HostFiles files(tree.ToOptions());
  EXPECT_EQ(files.Major("nvidia"), 195u);  // fixed
  EXPECT_EQ(files.Major("nvidia-uvm"), std::nullopt);
  EXPECT_FALSE(files.HasDriver("nvidia"));
  tree.File("/proc/devices",
            "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n235 "
            "nvidia-caps-imex-channels\n236 nvidia-caps\n"
            "509 nvidia-uvm extra\n510 nvidia-uvm\n\nBlock devices:\n  8 sd\n259 nvidia-modeset\n");
  EXPECT_EQ(files.Major("nvidia"), 195u);
  EXPECT_EQ(files.Major("nvidia-uvm"), 510u);
  EXPECT_EQ(files.Major("nvidia-caps"), 236u);
  EXPECT_EQ(files.Major("nvidia-modeset"), std::nullopt);
  EXPECT_EQ(files.Major("sd"), std::nullopt);
  EXPECT_EQ(files.Major("uvm"), std::nullopt);
  EXPECT_TRUE(files.HasDriver("nvidia"));
  EXPECT_FALSE(files.HasDriver("nvidia-modeset"));
}

TEST(NvidiaHostFiles, ProcAndSysAreThoseOfTheKernelRoot) {
  DriverTree tree;
  tree.File("/proc/devices", "Character devices:\n510 nvidia-uvm\n236 nvidia-caps\n");
  tree.File("/simulated/proc/devices", "Character devices:\n511 nvidia-uvm\n");
  tree.File("/simulated/proc/driver/nvidia-caps/mig-minors", "gpu0/gi1/access 12\n");
  tree.File("/simulated/sys/module/firmware_class/parameters/path", "/opt/firmware\n");
  tree.File(std::string("/opt/firmware/nvidia/") + kFilesVersion + "/gsp.bin");
  tree.Library("/usr/lib64" + Versioned("/libcuda"), "libcuda.so.1");
  Options options = tree.ToOptions();
  options.kernel_root = "/simulated";
  const HostFiles files(options);
  EXPECT_EQ(files.Major("nvidia-uvm"), 511u);
  EXPECT_FALSE(files.HasDriver("nvidia-caps"));
  EXPECT_EQ(files.CapabilityMinor(0, 1, std::nullopt), 12u);
  EXPECT_EQ(files.FilesOf(kFilesVersion)->firmware.size(), 1u);
}

TEST(NvidiaHostFiles, CapabilityMinorsComeFromTheInstancesFilesElseFromTheTable) {
  DriverTree tree;
  const HostFiles files(tree.ToOptions());
  EXPECT_EQ(files.CapabilityMinor(0, 1, std::nullopt), std::nullopt);
  tree.File("/proc/driver/nvidia-caps/mig-minors",
            "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n"
            "gpu0/gi11/access 99\ngpu10/gi1/access 98\n");
  EXPECT_EQ(files.CapabilityMinor(0, 1, std::nullopt), 12u);
  EXPECT_EQ(files.CapabilityMinor(0, 1, 0), 13u);
  EXPECT_EQ(files.CapabilityMinor(0, 1, 1), std::nullopt);
  EXPECT_EQ(files.CapabilityMinor(1, 1, std::nullopt), std::nullopt);
  tree.File("/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access",
            "DeviceFileMinor: 21\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
  tree.File("/proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access",
            "DeviceFileMode: 292\nDeviceFileMinor: 22\n");
  EXPECT_EQ(files.CapabilityMinor(0, 1, std::nullopt), 21u);
  EXPECT_EQ(files.CapabilityMinor(0, 1, 0), 22u);
}

TEST(NvidiaHostFiles, TheDevRootIsTheDriversIfItHasADevDirectory) {
  DriverTree tree;
  const std::string root = "/run/nvidia/driver";
  tree.Directory(root);
  EXPECT_EQ(HostFiles(tree.ToOptions()).DevRoot(), "");
  EXPECT_EQ(HostFiles(tree.ToOptions(root)).DevRoot(), "");
  tree.Directory(root + "/dev");
  EXPECT_EQ(HostFiles(tree.ToOptions(root)).DevRoot(), root);
  Options options = tree.ToOptions(root);
  options.dev_root = "/";
  EXPECT_EQ(HostFiles(options).DevRoot(), "");
  options.dev_root = "/mnt";
  EXPECT_EQ(HostFiles(options).DevRoot(), "/mnt");
}

TEST(NvidiaHostFiles, WhatCannotBeLookedAtIsNotAbsent) {
  if (geteuid() == 0) GTEST_SKIP() << "root may look at everything";
  DriverTree tree;
  tree.File("/usr/lib64/libnvidia-ml.so.1");
  ASSERT_EQ(chmod(tree.Path("/usr/lib64").c_str(), 0), 0);
  EXPECT_THROW(HostFiles(tree.ToOptions()).NvmlLibrary(), dra::BackendError);
  ASSERT_EQ(chmod(tree.Path("/usr/lib64").c_str(), 0755), 0);
}

}  // namespace
}  // namespace nvidia
