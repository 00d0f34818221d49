#include "test/crash/points_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "dra/base/file_system.h"

namespace dra::crash {
namespace {

constexpr char kPath[] = DRA_SOURCE_DIR "/test/crash/points.txt";

std::map<std::string, PointCounts> ReadAll() {
  PosixFileSystem fs;
  std::map<std::string, PointCounts> all;
  const auto text = fs.ReadFile(kPath);
  if (!text.ok()) return all;
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    int count = 0;
    if (parts.size() == 3 && absl::SimpleAtoi(parts[1], &count)) all[parts[0]][parts[2]] = count;
  }
  return all;
}

}  // namespace

std::string FindLostPoints(const std::string& scenario, const PointCounts& now) {
  std::string lost;
  const auto all = ReadAll();
  const auto known = all.find(scenario);
  // A scenario that only reads has no points that are kept, and so no lines.
  if (known == all.end() && !now.empty()) lost = "  the scenario is not in the file\n";
  if (known != all.end()) {
    for (const auto& [label, count] : known->second) {
      const auto found = now.find(label);
      const int passes = found == now.end() ? 0 : found->second;
      if (passes < count)
        absl::StrAppend(&lost, "  ", label, ": ", count, " before, ", passes, " now\n");
    }
  }
  if (lost.empty()) return "";
  return absl::StrCat("kill points of ", scenario, " are not as in ", kPath, ":\n", lost,
                      "If the operation really does less now, run crash_test with "
                      "DRA_CRASH_UPDATE=1 and commit points.txt with the change.");
}

PointCounts StoredPoints(const std::string& scenario) {
  const auto all = ReadAll();
  const auto known = all.find(scenario);
  return known == all.end() ? PointCounts() : known->second;
}

void StorePoints(const std::string& scenario, const PointCounts& now) {
  auto all = ReadAll();
  all[scenario] = now;
  std::string text;
  for (const auto& [name, counts] : all) {
    for (const auto& [label, count] : counts)
      absl::StrAppend(&text, name, " ", count, " ", label, "\n");
  }
  PosixFileSystem fs;
  const absl::Status written = WriteFileAtomically(fs, kPath, text, 0644, Durability::kVolatile);
  EXPECT_TRUE(written.ok()) << written;
}

}  // namespace dra::crash
