// The examples of docs/ are parsed, and its tables are compared with the code.

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "dra/base/file_system.h"
#include "dra/base/json.h"
#include "dra/driver/config.h"
#include "driver/status_report.h"
#include "nlohmann/json.hpp"
#include "observe/metric_help.h"

namespace dra {
namespace {

std::string ReadSource(const std::string& name) {
  PosixFileSystem fs;
  const auto text = fs.ReadFile(JoinPath(DRA_SOURCE_DIR, name));
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

// The fenced blocks of a language in a page.
std::vector<std::string> Blocks(const std::string& page, const std::string& language) {
  std::vector<std::string> blocks;
  std::string block;
  bool inside = false;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    if (inside && line == "```") {
      blocks.push_back(block);
      inside = false;
    } else if (inside) {
      absl::StrAppend(&block, line, "\n");
    } else if (line == absl::StrCat("```", language)) {
      inside = true;
      block.clear();
    }
  }
  return blocks;
}

std::set<std::string> Matches(const std::string& text, const std::string& pattern) {
  std::set<std::string> found;
  const std::regex expression(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end;
       ++match) {
    found.insert((*match)[1].str());
  }
  return found;
}

// Every source file below the folder, as one text.
std::string AllSources(const std::string& folder) {
  PosixFileSystem fs;
  std::string text;
  const auto names = fs.List(folder);
  EXPECT_TRUE(names.ok()) << names.status();
  if (!names.ok()) return text;
  for (const std::string& name : *names) {
    const std::string path = JoinPath(folder, name);
    if (fs.Stat(path)->type == FileType::kDirectory) {
      text += AllSources(path);
    } else if (absl::EndsWith(name, ".cc") || absl::EndsWith(name, ".h")) {
      text += *fs.ReadFile(path);
    }
  }
  return text;
}

TEST(ConfigurationPage, ItsExampleIsAValidConfigurationWithEveryKey) {
  const std::vector<std::string> blocks = Blocks(ReadSource("docs/configuration.md"), "yaml");
  ASSERT_EQ(blocks.size(), 1u);
  const auto config = driver::ParseDaemonConfig(blocks[0], "docs/configuration.md");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(driver::ValidateDaemonConfig(*config).ok()) << driver::ValidateDaemonConfig(*config);
  // The keys that the reader asks for are the keys that the page shows.
  const std::string source = ReadSource("sdk/src/driver/config.cc");
  const std::set<std::string> asked = Matches(
      source,
      R"re((?:mapping|log|driver)\.(?:String|Bool|Int|Duration|Any|OneOf|Mapping|Mappings)\(\s*"(\w+)")re");
  ASSERT_GT(asked.size(), 15u);
  for (const std::string& key : asked) {
    EXPECT_TRUE(absl::StrContains(blocks[0], absl::StrCat(key, ":")))
        << key << " is not in docs/configuration.md";
  }
}

TEST(ConfigurationPage, ItsDefaultsAreTheCodesDefaults) {
  const std::vector<std::string> blocks = Blocks(ReadSource("docs/configuration.md"), "yaml");
  ASSERT_EQ(blocks.size(), 1u);
  const auto config = driver::ParseDaemonConfig(blocks[0], "docs/configuration.md");
  ASSERT_TRUE(config.ok());
  const driver::DaemonConfig defaults;
  EXPECT_EQ(config->kubelet_root, defaults.kubelet_root);
  EXPECT_EQ(config->cdi_directory, defaults.cdi_directory);
  EXPECT_EQ(config->http_address, defaults.http_address);
  EXPECT_EQ(config->shutdown_grace, defaults.shutdown_grace);
  const driver::DriverConfig driver;
  EXPECT_EQ(config->drivers[0].discover_interval, driver.discover_interval);
  EXPECT_EQ(config->drivers[0].health_interval, driver.health_interval);
  EXPECT_EQ(config->drivers[0].prepare_threads, driver.prepare_threads);
  EXPECT_EQ(config->drivers[0].unprepare_threads, driver.unprepare_threads);
  EXPECT_EQ(config->drivers[0].taint_effects.by_severity, driver.taint_effects.by_severity);
  EXPECT_EQ(config->drivers[0].taint_effects.by_class, driver.taint_effects.by_class);
}

// Adds the path of every member below `value` ("drivers[].claims[].uid").
void AddPaths(const Json& value, const std::string& path, std::set<std::string>* paths) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      const std::string name = path.empty() ? key : absl::StrCat(path, ".", key);
      paths->insert(name);
      AddPaths(member, name, paths);
    }
  } else if (value.is_array()) {
    for (const Json& item : value) AddPaths(item, absl::StrCat(path, "[]"), paths);
  }
}

TEST(StatusSocketPage, ItsExampleHasTheMembersThatTheDriverShows) {
  const std::vector<std::string> blocks = Blocks(ReadSource("docs/status-socket.md"), "json");
  ASSERT_EQ(blocks.size(), 1u);
  const auto example = ParseJsonObject(blocks[0], "docs/status-socket.md");
  ASSERT_TRUE(example.ok()) << example.status();

  inventory::Snapshot snapshot;
  auto device = std::make_shared<inventory::Device>();
  device->exclusion_keys.push_back({"key", "shape"});
  snapshot.pools.push_back({"node1", {device}, {}, Json::object()});
  snapshot.findings.push_back({});
  claims::ClaimSummary claim;
  claim.devices.push_back({"driver", "pool", "device", std::nullopt});
  driver::OperatorView desk;
  desk.drain = driver::DrainRequest();
  desk.faults.push_back({});
  desk.requests.push_back({});
  const Json shown = driver::DriverStatus({"d",
                                           {},
                                           std::make_shared<const loader::Manifest>(),
                                           {},
                                           {},
                                           {},
                                           {},
                                           desk,
                                           snapshot,
                                           std::vector<claims::ClaimSummary>{claim}});
  std::set<std::string> in_code, in_page;
  AddPaths(shown, "", &in_code);
  AddPaths((*example)["drivers"][0], "", &in_page);
  EXPECT_EQ(in_code, in_page);
}

TEST(MetricsPage, ListsExactlyTheMetricsOfTheCode) {
  const std::set<std::string> in_code =
      Matches(AllSources(JoinPath(DRA_SOURCE_DIR, "sdk/src")), R"re("(dra_[a-z_]+)")re");
  const std::set<std::string> in_page =
      Matches(ReadSource("docs/metrics.md"), R"re(\| `(dra_[a-z_]+)`)re");
  std::set<std::string> metrics;
  for (const std::string& name : in_code) {
    // An exported symbol, and a file of the kubelet.
    if (name != "dra_backend_entry" && name != "dra_manager_state") metrics.insert(name);
  }
  EXPECT_EQ(metrics, in_page);
  // Each has a HELP line of its own: the page's meaning, up to its first semicolon.
  for (const std::string& metric : in_page) {
    const std::string help = observe::MetricHelp(metric);
    EXPECT_FALSE(absl::StrContains(help, "docs/metrics.md"))
        << metric << " is not in sdk/src/observe/metric_help.cc";
  }
}

// The targets of a page's links to files of this repository.
std::vector<std::string> LinkedFiles(const std::string& page) {
  std::vector<std::string> files;
  for (size_t at = page.find("]("); at != std::string::npos; at = page.find("](", at + 2)) {
    const std::string target = page.substr(at + 2, page.find_first_of(")\n", at) - at - 2);
    if (target.find_first_of(":#") == std::string::npos) files.push_back(target);
  }
  return files;
}

TEST(Pages, LinkOnlyToFilesThatExist) {
  PosixFileSystem fs;
  std::vector<std::string> pages = {"README.md", "CONTRIBUTING.md"};
  const auto names = fs.List(JoinPath(DRA_SOURCE_DIR, "docs"));
  ASSERT_TRUE(names.ok()) << names.status();
  for (const std::string& name : *names) {
    if (absl::EndsWith(name, ".md")) pages.push_back(absl::StrCat("docs/", name));
  }
  size_t links = 0;
  for (const std::string& page : pages) {
    for (const std::string& target : LinkedFiles(ReadSource(page))) {
      const std::string path = JoinPath(DirectoryName(JoinPath(DRA_SOURCE_DIR, page)), target);
      EXPECT_TRUE(fs.Stat(path, true).ok()) << page << " links to " << target;
      ++links;
    }
  }
  EXPECT_GT(links, 10u);
}

}  // namespace
}  // namespace dra
