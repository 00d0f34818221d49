#include "ethtool.h"
#include "namespaces.h"

namespace rdma {
namespace {

class EthtoolTest : public NamespacesTest {
 protected:
  void SetUp() override {
    NamespacesTest::SetUp();
    if (!IsSkipped()) AddVethOnHost("nic", "far");
  }
  std::map<std::string, bool> Features() {
    std::map<std::string, bool> features;
    host().Run([&] { features = GetFeatures("nic"); });
    return features;
  }
  void Set(const std::map<std::string, bool>& features) {
    host().Run([&] { SetFeatures("nic", features); });
  }
  NetlinkError ErrorOf(const std::function<void()>& call) {
    try {
      host().Run(call);
    } catch (const NetlinkError& e) {
      return e;
    }
    return NetlinkError(0, "no error");
  }
};

TEST_F(EthtoolTest, SetsTheFeaturesThatAreNamedAndNoOthers) {
  std::map<std::string, bool> expected = Features();
  ASSERT_GT(expected.size(), 40u);
  ASSERT_EQ(expected.count("rx-gro"), 1u);
  const bool gro = expected["rx-gro"], list = expected["rx-gro-list"];
  Set({{"rx-gro", !gro}, {"rx-gro-list", !list}});
  expected["rx-gro"] = !gro;
  expected["rx-gro-list"] = !list;
  EXPECT_EQ(Features(), expected);
  Set({{"rx-gro", !gro}});
  EXPECT_EQ(Features(), expected);
  Set({});
  EXPECT_EQ(Features(), expected);
}

TEST_F(EthtoolTest, TakesTheNamesOfTheEthtoolProgram) {
  for (const char* name : {"tso", "tcp-segmentation-offload"}) {
    for (const bool on : {false, true}) {
      SCOPED_TRACE(std::string(name) + (on ? " on" : " off"));
      Set({{name, on}});
      for (const char* feature :
           {"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation"}) {
        EXPECT_EQ(Features().at(feature), on) << feature;
      }
    }
  }
  Set({{"gro", false}});
  EXPECT_FALSE(Features().at("rx-gro"));
}

TEST_F(EthtoolTest, NamesTheFeaturesThereAreIfOneIsNot) {
  const NetlinkError error = ErrorOf([] {
    SetFeatures("nic", {{"rx-gro", true}, {"warp-drive", true}});
  });
  EXPECT_EQ(error.error(), ENOENT);
  const std::string text = error.what();
  EXPECT_EQ(text.rfind("set feature warp-drive on on nic: No such file or directory (it has ", 0),
            0u)
      << text;
  EXPECT_NE(text.find("rx-gro, "), std::string::npos) << text;
  EXPECT_EQ(ErrorOf([] { SetFeatures("nic", {{"tx-*", true}}); }).error(), ENOENT);
}

TEST_F(EthtoolTest, RefusesAFixedFeature) {
  const NetlinkError error = ErrorOf([] {
    SetFeatures("nic", {{"rx-gro", false}, {"rx-fcs", true}});
  });
  EXPECT_EQ(error.error(), EOPNOTSUPP);
  EXPECT_STREQ(error.what(), "set feature rx-fcs on on nic: Operation not supported (it is fixed)");
}

TEST_F(EthtoolTest, SaysSoIfAFeatureStaysAsItWas) {
  // Segmentation needs checksums and scatter-gather.
  Set({{"tso", false}, {"tx", false}, {"sg", false}});
  const NetlinkError error = ErrorOf([] { SetFeatures("nic", {{"tx-tcp-segmentation", true}}); });
  EXPECT_EQ(error.error(), EOPNOTSUPP);
  EXPECT_STREQ(error.what(),
               "set feature tx-tcp-segmentation on on nic: Operation not supported "
               "(tx-tcp-segmentation stays off: the "
               "driver or another feature needs it so)");
}

TEST_F(EthtoolTest, TellsAnInterfaceThatIsNotThere) {
  EXPECT_EQ(ErrorOf([] { GetFeatures("none"); }).error(), ENODEV);
  EXPECT_EQ(ErrorOf([] { GetFeatures(""); }).error(), ENODEV);
  EXPECT_EQ(ErrorOf([] { GetFeatures("longer-than-it-may-be"); }).error(), ENODEV);
}

TEST_F(EthtoolTest, TellsThatADriverHasNoPrivateFlags) {
  host().Run([] { EXPECT_TRUE(GetPrivateFlags("nic").empty()); });
  const NetlinkError error = ErrorOf([] { SetPrivateFlags("nic", {{"rx_cqe_compress", true}}); });
  EXPECT_EQ(error.error(), ENOENT);
  EXPECT_STREQ(
      error.what(),
      "set private flag rx_cqe_compress on on nic: No such file or directory (it has none at all)");
}

}  // namespace
}  // namespace rdma
