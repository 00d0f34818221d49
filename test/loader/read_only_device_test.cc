// The example as a vendor's first backend: small, and whole.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "test/loader/support.h"

namespace dra::loader {
namespace {

using ::testing::HasSubstr;

TEST(ReadOnlyDevice, IsUnder150Lines) {
  std::ifstream file(std::string(DRA_SOURCE_DIR) +
                     "/examples/read-only-device/read_only_device.cc");
  const auto lines = std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  EXPECT_GT(lines, 0);
  EXPECT_LT(lines, 150);
}

TEST(ReadOnlyDevice, ShippedConfigurationIsTaken) {
  std::ifstream file(std::string(DRA_SOURCE_DIR) + "/examples/read-only-device/config.json");
  const std::string config(std::istreambuf_iterator<char>(file), {});
  const auto handle = LoadBackend(DRA_EXAMPLE_LIB);
  ASSERT_TRUE(handle.ok()) << handle.status();
  FakeServices services;
  EXPECT_TRUE((*handle)->Create(config, &services, Call()).ok());
  const absl::Status typo = (*LoadBackend(DRA_EXAMPLE_LIB))
                                ->Create(R"({"class": "a", "permision": "r"})", &services, Call());
  EXPECT_EQ(typo.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(typo.message()), HasSubstr("config.permision: unknown field"));
}

TEST(ReadOnlyDevice, PublishesPreparesAndKeepsOneBadEntryApart) {
  namespace fs = std::filesystem;
  const TempDir dir;
  fs::create_directories(dir.Path("class/mem/null"));
  fs::create_directories(dir.Path("class/mem/orphan"));
  fs::create_directories(dir.Path("devices/pci0000:40/0000:41:00.0"));
  fs::create_directories(dir.Path("bus/pci/devices"));
  fs::create_symlink("../../../devices/pci0000:40/0000:41:00.0",
                     dir.Path("bus/pci/devices/0000:41:00.0"));
  fs::create_symlink("../../../devices/pci0000:40/0000:41:00.0", dir.Path("class/mem/null/device"));
  const auto handle = LoadBackend(DRA_EXAMPLE_LIB);
  ASSERT_TRUE(handle.ok()) << handle.status();
  FakeServices services;
  ASSERT_TRUE(
      (*handle)
          ->Create(Json({{"class", "mem"}, {"sysfs", dir.path()}}).dump(), &services, Call())
          .ok());

  const auto found = (*handle)->Discover({}, {}, Call());
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->items.size(), 2u);
  ASSERT_TRUE(found->items[0].device.has_value());
  EXPECT_EQ(found->items[0].device->device,
            Json::parse(R"({"name": "d-0000-41-00-0", "attributes": {
      "class": {"string": "mem"}, "resource.kubernetes.io/pciBusID": {"string": "0000:41:00.0"},
      "resource.kubernetes.io/pcieRoot": {"string": "pci0000:40"}}})"));
  EXPECT_EQ(found->items[1].error_subject, "mem/orphan");
  EXPECT_THAT(std::string(found->items[1].error.message()), HasSubstr("orphan/device is missing"));

  PrepareArgs args = TwoDevices("u1");
  args.devices.resize(1);
  args.devices[0].identity = "0000:41:00.0";
  const auto prepared = (*handle)->Prepare(args, Call());
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->devices[0].edits,
            Json::parse(R"({"deviceNodes": [{"path": "/dev/null", "permissions": "r"}]})"));
  args.devices[0].identity = "0000:42:00.0";
  EXPECT_EQ((*handle)->Prepare(args, Call()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(services.events(), ::testing::Contains("inventory_changed"));
  EXPECT_TRUE((*handle)->Unprepare({args.claim, args.devices, "", {}}, Call()).ok());
}

}  // namespace
}  // namespace dra::loader
