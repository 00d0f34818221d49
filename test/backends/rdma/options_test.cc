#include "options.h"

#include <string>

#include "dra/backend/backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rdma {
namespace {

using dra::Json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

std::string Refusal(const Json& config) {
  try {
    ReadOptions(config);
  } catch (const dra::BackendError& error) {
    EXPECT_EQ(error.code(), DRA_INVALID_ARGUMENT);
    return error.what();
  }
  return "accepted";
}

TEST(RdmaOptions, HaveDefaultsForAPlainHost) {
  const Options options = ReadOptions(Json::object());
  EXPECT_EQ(options.kernel_root, "/");
  EXPECT_EQ(options.dev_root, "/");
  EXPECT_EQ(options.attribute_domain, "dra.net");
  EXPECT_TRUE(options.include.empty());
  EXPECT_TRUE(options.exclude.empty());
  EXPECT_TRUE(options.shared.empty());
  EXPECT_FALSE(options.allow_default_route);
  EXPECT_EQ(options.attach, AttachBy::kHook);
}

TEST(RdmaOptions, AreRead) {
  const Options options =
      ReadOptions({{"kernelRoot", "/simulated/"},
                   {"devRoot", "//host/./"},
                   {"attributeDomain", "net.example.com"},
                   {"include",
                    {{{"names", {"ens*", "ib?"}},
                      {"pciAddresses", {"0000:8D:00.0", "*:18:*"}},
                      {"pfNames", {"ens1f0np0"}},
                      {"vendors", {"15B3", "0x8086"}},
                      {"devices", {"0x101e"}},
                      {"drivers", {"mlx5_core"}},
                      {"kinds", {"virtualFunction", "bond"}},
                      {"linkLayers", {"ethernet", "infiniband"}},
                      {"rdma", true}},
                     {{"rdma", false}}}},
                   {"exclude", {{{"drivers", {"igb"}}}}},
                   {"allowDefaultRoute", true},
                   {"shared", {{{"names", {"ens1"}}, {"shares", 8}}, {{"shares", 10000}}}},
                   {"attach", "none"}});
  EXPECT_EQ(options.kernel_root, "/simulated");
  EXPECT_EQ(options.dev_root, "/host");
  EXPECT_EQ(options.attribute_domain, "net.example.com");
  ASSERT_EQ(options.include.size(), 2u);
  const NicMatch& match = options.include[0];
  EXPECT_THAT(match.names, ElementsAre("ens*", "ib?"));
  EXPECT_THAT(match.addresses, ElementsAre("0000:8d:00.0", "*:18:*"));
  EXPECT_THAT(match.pf_names, ElementsAre("ens1f0np0"));
  EXPECT_THAT(match.vendors, ElementsAre("0x15b3", "0x8086"));
  EXPECT_THAT(match.devices, ElementsAre("0x101e"));
  EXPECT_THAT(match.drivers, ElementsAre("mlx5_core"));
  EXPECT_THAT(match.kinds, ElementsAre("virtualFunction", "bond"));
  EXPECT_THAT(match.link_layers, ElementsAre("ethernet", "infiniband"));
  EXPECT_THAT(match.rdma, Optional(true));
  EXPECT_THAT(options.include[1].rdma, Optional(false));
  ASSERT_EQ(options.exclude.size(), 1u);
  EXPECT_TRUE(options.allow_default_route);
  ASSERT_EQ(options.shared.size(), 2u);
  EXPECT_EQ(options.shared[0].shares, 8);
  EXPECT_THAT(options.shared[0].match.names, ElementsAre("ens1"));
  EXPECT_TRUE(options.shared[1].match.names.empty());
  EXPECT_EQ(options.attach, AttachBy::kNone);
  EXPECT_EQ(ReadOptions({{"attach", "netDevices"}}).attach, AttachBy::kNetDevices);
}

TEST(RdmaOptions, RefuseByPathWhatTheyCannotTake) {
  const struct {
    Json config;
    const char* refusal;
  } cases[] = {
      {{{"polSeconds", 3}}, "config.polSeconds: unknown field"},
      {{{"kernelRoot", "sys"}}, "config.kernelRoot: \"sys\" is not an absolute path"},
      {{{"devRoot", "/a/../b"}}, "config.devRoot: \"/a/../b\" must not contain \"..\""},
      {{{"devRoot", std::string("/a\0b", 4)}}, "config.devRoot: has a NUL byte"},
      {{{"attributeDomain", "resource.kubernetes.io"}},
       "holds only what Kubernetes itself defines"},
      {{{"attributeDomain", "Dra.net"}}, "is not a DNS subdomain"},
      {{{"attributeDomain", "dra..net"}}, "is not a DNS subdomain"},
      {{{"attributeDomain", ""}}, "is not a DNS subdomain"},
      {{{"attributeDomain", std::string(60, 'a') + ".net"}}, "at most 63 bytes"},
      {{{"include", {{{"name", "eth0"}}}}}, "config.include[0].name: unknown field"},
      {{{"include", {Json::object()}}}, "config.include[0]: matches everything"},
      {{{"exclude", {Json::object()}}}, "config.exclude[0]: matches everything"},
      {{{"exclude", {{{"names", {""}}}}}}, "config.exclude[0].names: has an empty text"},
      {{{"include", {{{"vendors", {"Mellanox"}}}}}},
       "config.include[0].vendors: \"Mellanox\" is no PCI id"},
      {{{"include", {{{"devices", {"0x1"}}}}}}, "config.include[0].devices: \"0x1\" is no PCI id"},
      {{{"include", {{{"pciAddresses", {"8d:00.0"}}}}}}, "is no PCI address with its domain"},
      {{{"include", {{{"pciAddresses", {"eth*"}}}}}}, "is no PCI address with its domain"},
      {{{"include", {{{"kinds", {"vf"}}}}}},
       "config.include[0].kinds: \"vf\" is not one of bond, "},
      {{{"include", {{{"linkLayers", {"IB"}}}}}}, "\"IB\" is not one of ethernet, infiniband"},
      {{{"shared", {{{"names", {"a"}}}}}}, "config.shared[0].shares: is required"},
      {{{"shared", {{{"shares", 0}}}}}, "config.shared[0].shares: is not in 1..10000"},
      {{{"shared", {{{"shares", 10001}}}}}, "config.shared[0].shares: is not in 1..10000"},
      {{{"attach", "cni"}},
       "config.attach: \"cni\" is not one of \"hook\", \"netDevices\", \"none\""},
      {Json::array(), "config: must be an object"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.config.dump());
    EXPECT_THAT(Refusal(c.config), HasSubstr(c.refusal));
  }
}

}  // namespace
}  // namespace rdma
