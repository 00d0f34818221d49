#include "dra/driver/yaml.h"

#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace dra::driver {
namespace {

TEST(Yaml, ATextInWhichNoValueBeginsIsAnErrorNotAnEndlessList) {
  for (const char* text : {",", ",\r.iceNode# Confi\n", "]", "}", "a: b\n---\n, c"}) {
    const auto values = YamlToJson(text, "f.yaml");
    EXPECT_TRUE(absl::IsInvalidArgument(values.status())) << text << ": " << values.status();
  }
  EXPECT_EQ(YamlToJson("a: 1\n---\n---\nb: 2\n", "f.yaml")->size(), 2u);
}

TEST(YamlToJson, ReadsScalarsAsKubernetesDoes) {
  const auto documents = YamlToJson(R"(
plain: text
quoted: "1"
single: 'true'
integer: 42
negative: -7
float: 1.5
yes_is_a_string: yes
version: 1.2.3
empty:
nothing: ~
truth: true
list: [1, "2", null]
)",
                                    "x");
  ASSERT_TRUE(documents.ok()) << documents.status();
  ASSERT_EQ(documents->size(), 1u);
  EXPECT_EQ((*documents)[0],
            Json::parse(R"({"plain":"text","quoted":"1","single":"true","integer":42,"negative":-7,
    "float":1.5,"yes_is_a_string":"yes","version":"1.2.3","empty":null,"nothing":null,"truth":true,
    "list":[1,"2",null]})"));
}

TEST(YamlToJson, LeavesOutEmptyDocuments) {
  const auto documents = YamlToJson("---\na: 1\n---\n---\nb: 2\n", "x");
  ASSERT_TRUE(documents.ok()) << documents.status();
  EXPECT_EQ(documents->size(), 2u);
}

TEST(YamlToJson, NamesThePlaceOfAnError) {
  struct Case {
    const char* text;
    const char* error;
  };
  for (const Case& c : {Case{"a: [1, 2\nb: 3", "f.yaml:2:"},
                        Case{"a: 1\na: 2\n", "f.yaml:2:1: duplicate key \"a\""},
                        Case{"? [1]\n: 2\n", "f.yaml:1:3: a key must be a string"}}) {
    const auto documents = YamlToJson(c.text, "f.yaml");
    ASSERT_FALSE(documents.ok()) << c.text;
    EXPECT_NE(documents.status().message().find(c.error), absl::string_view::npos)
        << documents.status();
  }
}

TEST(YamlMapping, ReadsWhatIsThereAndLeavesTheRest) {
  auto mapping = YamlMapping::Parse(
      "name: n1\nlog: {level: debug}\nwait: 1m30s\ncount: 3\nitems: [{a: x}, {a: y}]\n", "c");
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  std::string name, level, absent = "default";
  int count = 0;
  absl::Duration wait;
  mapping->String("name", &name);
  mapping->String("absent", &absent);
  mapping->Duration("wait", absl::ZeroDuration(), absl::Hours(1), &wait);
  mapping->Int("count", 0, 10, &count);
  YamlMapping log = mapping->Mapping("log");
  log.OneOf("level", {"info", "debug"}, &level);
  std::vector<std::string> items;
  for (YamlMapping& item : mapping->Mappings("items")) {
    std::string a;
    item.String("a", &a);
    items.push_back(a);
  }
  EXPECT_TRUE(mapping->Finish().ok()) << mapping->Finish();
  EXPECT_EQ(name, "n1");
  EXPECT_EQ(absent, "default");
  EXPECT_EQ(level, "debug");
  EXPECT_EQ(wait, absl::Seconds(90));
  EXPECT_EQ(count, 3);
  EXPECT_EQ(items, (std::vector<std::string>{"x", "y"}));
}

TEST(YamlMapping, AnUnknownKeyIsAnErrorWithItsLineAndTheNearestKnownOne) {
  auto mapping = YamlMapping::Parse("nodeName: a\n\nkubeletRoute: /x\n", "c.yaml");
  ASSERT_TRUE(mapping.ok());
  std::string text;
  mapping->String("nodeName", &text);
  mapping->String("kubeletRoot", &text);
  const absl::Status status = mapping->Finish();
  ASSERT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(),
            "c.yaml:3:1: kubeletRoute: unknown key; did you mean \"kubeletRoot\"?");
}

TEST(YamlMapping, CollectsEveryErrorInOrderOfLine) {
  auto mapping = YamlMapping::Parse("count: 99\nwait: soon\nflag: maybe\ninner: {zzz: 1}\n", "c");
  ASSERT_TRUE(mapping.ok());
  int count = 0;
  bool flag = false;
  absl::Duration wait;
  mapping->Bool("flag", &flag);
  mapping->Duration("wait", absl::ZeroDuration(), absl::Hours(1), &wait);
  mapping->Int("count", 0, 10, &count);
  std::string known;
  mapping->Mapping("inner").String("known", &known);
  const std::string text(mapping->Finish().message());
  EXPECT_EQ(text,
            "c:1:8: count: must be an integer from 0 to 10\n"
            "c:2:7: wait: must be a duration such as \"30s\", from 0 to 1h\n"
            "c:3:7: flag: must be true or false\n"
            "c:4:9: inner.zzz: unknown key; known keys: known");
}

TEST(YamlMapping, RefusesAListAtTheTop) {
  EXPECT_FALSE(YamlMapping::Parse("- a\n", "c").ok());
  EXPECT_FALSE(YamlMapping::Parse("", "c").ok());
}

TEST(NearestName, IsEmptyWhenNothingIsNear) {
  EXPECT_EQ(NearestName("levle", {"level", "format"}), "level");
  EXPECT_EQ(NearestName("xyzzy", {"level", "format"}), "");
}

}  // namespace
}  // namespace dra::driver
