// The example of docs/test-doubles.md, and the proof that the page shows this very text.
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"

// [example]
#include "dra/testing/api_server.h"
#include "dra/testing/kubelet_double.h"
#include "dra/testing/temp_directory.h"

TEST(MyDriver, GetsItsSlicesWipedWhenTheKubeletStarts) {
  dra::testing::TempDirectory directory;
  auto server = dra::testing::FakeApiServer::Start();
  ASSERT_TRUE(server.ok()) << server.status();

  // Here a test starts the driver with (*server)->url() and directory.path() as kubelet root.
  (*server)->store().Put(dra::Json::parse(R"({
    "kind": "ResourceSlice", "metadata": {"name": "a"},
    "spec": {"driver": "gpu.example.com", "nodeName": "node-a"}})"));

  dra::testing::KubeletOptions options;
  options.root = directory.path();
  options.node_name = "node-a";
  auto kubelet = dra::testing::FakeKubelet::Start(options, &(*server)->store());
  ASSERT_TRUE(kubelet.ok()) << kubelet.status();
  EXPECT_TRUE((*server)->store().All(dra::kube::ResourceSlices()).empty());
}
// [example end]

namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(DocsTestDoubles, ShowsTheExampleThatIsCompiledHere) {
  const std::string source =
      ReadAll(std::string(DRA_SOURCE_DIR) + "/test/testing/docs_example_test.cc");
  const std::string begin = "// [example]\n";
  const size_t from = source.find(begin) + begin.size();
  const std::string example = source.substr(from, source.find("// [example end]") - from);
  ASSERT_GT(example.size(), 100u);
  const std::string page = ReadAll(std::string(DRA_SOURCE_DIR) + "/docs/test-doubles.md");
  EXPECT_NE(page.find(example), std::string::npos);
}

}  // namespace
