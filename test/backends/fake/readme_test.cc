// The examples of backends/fake/README.md work as they stand there.

#include "test/backends/fake/fixture.h"

namespace dra {
namespace {

// The fenced JSON blocks of the page, in order: configuration, control file, inventory file.
std::vector<Json> Examples() {
  std::ifstream file(DRA_SOURCE_DIR "/backends/fake/README.md");
  std::vector<Json> examples;
  std::string block;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "```json") {
      inside = true;
      block.clear();
    } else if (line == "```" && inside) {
      inside = false;
      examples.push_back(Json::parse(block, nullptr, false));
    } else if (inside) {
      block += line + "\n";
    }
  }
  return examples;
}

TEST(FakeReadme, TheExamplesAreAccepted) {
  const std::vector<Json> examples = Examples();
  ASSERT_EQ(examples.size(), 3u);
  FakeBackendFixture fake;
  ASSERT_TRUE(fake.Start(examples[0]).ok());
  fake.Control(examples[1]);
  const auto found = fake.Discover();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->complete);
}

TEST(FakeReadme, TheInventoryFileIsAccepted) {
  const std::vector<Json> examples = Examples();
  ASSERT_EQ(examples.size(), 3u);
  FakeBackendFixture fake;
  fake.Write("inventory.json", examples[2].dump());
  ASSERT_TRUE(fake.Start({{"inventoryFile", fake.Path("inventory.json")}}).ok());
  const auto found = fake.Discover();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->items.size(), 2u);
  EXPECT_TRUE(
      fake.Prepare(FakeBackendFixture::Claim("uid-1", {FakeBackendFixture::Device("d0")})).ok());
}

}  // namespace
}  // namespace dra
