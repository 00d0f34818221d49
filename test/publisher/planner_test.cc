#include "dra/publisher/planner.h"

#include <map>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "publisher/slice_names.h"

namespace dra::publisher {
namespace {

using Kind = Operation::Kind;

PlanOptions DefaultPlan() {
  PlanOptions options;
  options.driver_name = "gpu.sdk.test";
  options.node_name = "n1";
  options.node_uid = "N1";
  return options;
}

Json Device(const std::string& name, int value = 0) {
  return {{"name", name}, {"attributes", {{"value", {{"int", value}}}}}};
}

std::string Numbered(const char* prefix, int number) {
  return absl::StrCat(prefix, absl::Dec(number, absl::kZeroPad4));
}

WantedPool PoolOf(int devices, const std::string& name = "n1") {
  WantedPool pool;
  pool.name = name;
  for (int i = 0; i < devices; ++i) pool.devices.push_back(Device(Numbered("d", i)));
  return pool;
}

void AddCounters(WantedPool& pool, int sets) {
  for (int i = 0; i < sets; ++i) {
    pool.counter_sets.push_back(
        {{"name", Numbered("c", i)}, {"counters", {{"memory", {{"value", "80Gi"}}}}}});
  }
}

// What the API server does with the calls, without any check.
class Server {
 public:
  void Apply(const std::vector<Operation>& operations) {
    for (const Operation& operation : operations) Apply(operation);
  }
  void Apply(const Operation& operation) {
    switch (operation.kind) {
      case Kind::kDelete:
        EXPECT_EQ(slices.erase(operation.name), 1u);
        break;
      case Kind::kUpdate:
        ASSERT_TRUE(slices.count(operation.name));
        slices[operation.name] = operation.body;
        break;
      case Kind::kCreate: {
        Json slice = operation.body;
        const std::string name = absl::StrCat(operation.name, "x", ++created);
        slice["metadata"]["name"] = name;
        slice["metadata"]["uid"] = absl::StrCat("uid-", created);
        slices[name] = slice;
        break;
      }
    }
  }
  std::vector<Json> All() const {
    std::vector<Json> all;
    for (const auto& [name, slice] : slices) all.push_back(slice);
    return all;
  }
  Json& Only() { return slices.begin()->second; }

  std::map<std::string, Json> slices;
  int created = 0;
};

size_t Count(const std::vector<Operation>& plan, Kind kind) {
  size_t count = 0;
  for (const Operation& operation : plan) count += operation.kind == kind;
  return count;
}

int64_t Generation(const Json& slice) { return slice["spec"]["pool"]["generation"]; }

// Every promise that a reader of the pools relies on (SLC-06).
void ExpectSound(const Server& server, const std::vector<WantedPool>& wanted, size_t limit) {
  std::map<std::string, std::vector<const Json*>> by_pool;
  for (const auto& [name, slice] : server.slices) {
    by_pool[slice["spec"]["pool"]["name"]].push_back(&slice);
  }
  ASSERT_EQ(by_pool.size(), wanted.size());
  for (const WantedPool& pool : wanted) {
    SCOPED_TRACE(pool.name);
    std::set<int64_t> generations;
    std::set<std::string> devices, sets;
    size_t device_entries = 0, set_entries = 0;
    for (const Json* slice : by_pool[pool.name]) {
      const Json& spec = (*slice)["spec"];
      generations.insert(Generation(*slice));
      EXPECT_EQ(spec["pool"]["resourceSliceCount"], by_pool[pool.name].size());
      EXPECT_FALSE(spec.contains("devices") && spec.contains("sharedCounters"));
      const Json list = spec.value("devices", Json::array());
      EXPECT_LE(list.size(), limit);
      device_entries += list.size();
      for (const Json& device : list) devices.insert(device["name"].get<std::string>());
      const Json counters = spec.value("sharedCounters", Json::array());
      EXPECT_LE(counters.size(), 8u);
      set_entries += counters.size();
      for (const Json& set : counters) sets.insert(set["name"].get<std::string>());
    }
    EXPECT_EQ(generations.size(), 1u);
    EXPECT_EQ(device_entries, pool.devices.size());
    EXPECT_EQ(devices.size(), pool.devices.size());
    EXPECT_EQ(set_entries, pool.counter_sets.size());
    EXPECT_EQ(sets.size(), pool.counter_sets.size());
  }
}

TEST(Planner, PublishesAnEmptyPoolAsOneEmptySlice) {
  const auto plan = Plan({PoolOf(0)}, {}, DefaultPlan());
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].kind, Kind::kCreate);
  const Json& body = plan[0].body;
  EXPECT_EQ(body["metadata"]["generateName"], "00000-gpu.sdk.test-n1-");
  EXPECT_EQ(body["spec"], Json::parse(R"({"driver": "gpu.sdk.test", "nodeName": "n1",
      "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1}})"));
  EXPECT_EQ(body["metadata"]["ownerReferences"], Json::parse(R"([{"apiVersion": "v1",
      "kind": "Node", "name": "n1", "uid": "N1", "controller": true}])"));
}

TEST(Slc03, SplitsManyDevicesIntoSlicesOfOneGenerationAndTheTrueCount) {
  // The case allows 128 in a slice; the design takes 64, so that a taint never splits a pool anew.
  Server server;
  WantedPool pool = PoolOf(300);
  server.Apply(Plan({pool}, {}, DefaultPlan()));
  EXPECT_EQ(server.slices.size(), 5u);
  ExpectSound(server, {pool}, 64);
  pool.devices.erase(pool.devices.begin() + 250);
  const auto plan = Plan({pool}, server.All(), DefaultPlan());
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].kind, Kind::kUpdate);
  server.Apply(plan);
  ExpectSound(server, {pool}, 64);
}

TEST(Slc03, PutsUpTo128NeverTaintedDevicesInOneSlice) {
  PlanOptions options = DefaultPlan();
  options.never_tainted = true;
  Server server;
  server.Apply(Plan({PoolOf(300)}, {}, options));
  EXPECT_EQ(server.slices.size(), 3u);
  ExpectSound(server, {PoolOf(300)}, 128);
}

TEST(Planner, GoesBackTo64WhenANeverTaintedDeviceNeedsIt) {
  PlanOptions options = DefaultPlan();
  options.never_tainted = true;
  Server server;
  WantedPool pool = PoolOf(128);
  server.Apply(Plan({pool}, {}, options));
  for (const char* field : {"taints", "list", "counters"}) {
    SCOPED_TRACE(field);
    WantedPool changed = pool;
    Json& device = changed.devices[5];
    if (field == std::string("taints")) device["taints"] = {{{"key", "a"}, {"effect", "None"}}};
    if (field == std::string("list")) device["attributes"]["l"] = {{"strings", {"a"}}};
    if (field == std::string("counters")) device["consumesCounters"] = {{{"counterSet", "c"}}};
    Server copy = server;
    copy.Apply(Plan({changed}, copy.All(), options));
    ExpectSound(copy, {changed}, 64);
  }
}

TEST(Slc05, WritesOnlyTheOneSliceThatDiffersAtTheSameGeneration) {
  Server server;
  WantedPool pool = PoolOf(100);
  server.Apply(Plan({pool}, {}, DefaultPlan()));
  for (auto& [name, slice] : server.slices) slice["spec"]["pool"]["generation"] = 7;
  pool.devices[3] = Device("d0003", 1);
  const auto plan = Plan({pool}, server.All(), DefaultPlan());
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].kind, Kind::kUpdate);
  EXPECT_EQ(Generation(plan[0].body), 7);
}

TEST(Slc05, RaisesTheGenerationOfAllSlicesWhenTwoDiffer) {
  Server server;
  WantedPool pool = PoolOf(180);
  server.Apply(Plan({pool}, {}, DefaultPlan()));
  for (auto& [name, slice] : server.slices) slice["spec"]["pool"]["generation"] = 7;
  pool.devices[3] = Device("d0003", 1);
  pool.devices[150] = Device("d0150", 1);
  const auto plan = Plan({pool}, server.All(), DefaultPlan());
  EXPECT_EQ(Count(plan, Kind::kUpdate), 3u);
  for (const Operation& operation : plan) EXPECT_EQ(Generation(operation.body), 8);
}

TEST(Slc05, RaisesTheGenerationWhenTheNumberOfSlicesChanges) {
  Server server;
  server.Apply(Plan({PoolOf(64)}, {}, DefaultPlan()));
  const auto plan = Plan({PoolOf(65)}, server.All(), DefaultPlan());
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].kind, Kind::kUpdate);
  EXPECT_EQ(plan[1].kind, Kind::kCreate);
  EXPECT_EQ(plan[1].name, "00001-gpu.sdk.test-n1-");
  EXPECT_EQ(Generation(plan[1].body), 2);
  server.Apply(plan);
  ExpectSound(server, {PoolOf(65)}, 64);
}

TEST(Slc05, WritesNothingAfterARestartOrAReorderingOrAnotherSpelling) {
  Server server;
  WantedPool pool = PoolOf(70);
  pool.devices[0]["capacity"] = {{"memory", {{"value", "1024Mi"}}}};
  server.Apply(Plan({pool}, {}, DefaultPlan()));
  EXPECT_TRUE(Plan({pool}, server.All(), DefaultPlan()).empty());
  std::reverse(pool.devices.begin(), pool.devices.end());
  EXPECT_TRUE(Plan({pool}, server.All(), DefaultPlan()).empty());
  pool.devices.back()["capacity"]["memory"]["value"] = "1Gi";
  EXPECT_TRUE(Plan({pool}, server.All(), DefaultPlan()).empty());
}

TEST(Slc05, StartsAboveAnyGenerationOnTheServer) {
  Server server;
  server.Apply(Plan({PoolOf(10)}, {}, DefaultPlan()));
  server.Only()["spec"]["pool"]["generation"] = 41;
  server.Only()["spec"]["devices"] = Json::array({Device("other")});
  const auto plan = Plan({PoolOf(70)}, server.All(), DefaultPlan());
  for (const Operation& operation : plan) {
    EXPECT_EQ(Generation(operation.body), 42);
  }
}

TEST(Planner, TakesTheLastDeviceOutOfASliceWithOneCall) {
  Server server;
  server.Apply(Plan({PoolOf(65)}, {}, DefaultPlan()));
  const auto plan = Plan({PoolOf(64)}, server.All(), DefaultPlan());
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_FALSE(plan[0].body["spec"].contains("devices"));
  server.Apply(plan);
  // The empty slice goes when every slice is written anyway.
  WantedPool pool = PoolOf(64);
  pool.devices[1] = Device("d0001", 1);
  EXPECT_EQ(Plan({pool}, server.All(), DefaultPlan()).size(), 1u);
}

TEST(Planner, DropsEmptySlicesAndPacksSparseOnesDuringARewrite) {
  Server server;
  WantedPool pool = PoolOf(64 * 4);
  server.Apply(Plan({pool}, {}, DefaultPlan()));
  WantedPool few = pool;
  std::erase_if(few.devices, [](const Json& device) {
    return std::stoi(device["name"].get<std::string>().substr(1)) % 64 > 3;
  });
  const auto plan = Plan({few}, server.All(), DefaultPlan());
  EXPECT_EQ(Count(plan, Kind::kDelete), 3u);
  EXPECT_EQ(plan[0].kind, Kind::kDelete) << "obsolete slices are deleted first";
  server.Apply(plan);
  EXPECT_EQ(server.slices.size(), 1u);
  ExpectSound(server, {few}, 64);
}

TEST(Planner, PutsCountersIntoSlicesOfTheirOwnThatAreCounted) {
  Server server;
  WantedPool pool = PoolOf(3);
  AddCounters(pool, 9);
  server.Apply(Plan({pool}, {}, DefaultPlan()));
  EXPECT_EQ(server.slices.size(), 3u);
  ExpectSound(server, {pool}, 64);
  EXPECT_TRUE(Plan({pool}, server.All(), DefaultPlan()).empty());
  pool.counter_sets[2]["counters"]["memory"]["value"] = "40Gi";
  EXPECT_EQ(Plan({pool}, server.All(), DefaultPlan()).size(), 1u);
}

TEST(Planner, DeletesPoolsThatAreNotWantedAndTouchesNobodyElses) {
  Server server;
  server.Apply(Plan({PoolOf(3), PoolOf(2, "n1/old")}, {}, DefaultPlan()));
  Json foreign = server.Only();
  foreign["metadata"]["name"] = "foreign";
  foreign["spec"]["driver"] = "net.other.test";
  std::vector<Json> stored = server.All();
  stored.push_back(foreign);
  const auto plan = Plan({PoolOf(3)}, stored, DefaultPlan());
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].kind, Kind::kDelete);
  EXPECT_EQ(plan[0].pool, "n1/old");
  EXPECT_FALSE(plan[0].uid.empty());
}

TEST(Planner, FinishesAnInterruptedRewriteAtItsGeneration) {
  Server server;
  WantedPool pool = PoolOf(130);
  server.Apply(Plan({pool}, {}, DefaultPlan()));
  pool.devices[0] = Device("d0000", 1);
  pool.devices[70] = Device("d0070", 1);
  const auto plan = Plan({pool}, server.All(), DefaultPlan());
  ASSERT_EQ(plan.size(), 3u);
  server.Apply(plan[0]);
  server.Apply(plan[1]);
  const auto rest = Plan({pool}, server.All(), DefaultPlan());
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].name, plan[2].name);
  EXPECT_EQ(Generation(rest[0].body), 2);
  server.Apply(rest);
  ExpectSound(server, {pool}, 64);
}

TEST(Slc01Planner, CreatesTheOneMissingSliceAnewAndLeavesTheOthers) {
  Server server;
  server.Apply(Plan({PoolOf(130)}, {}, DefaultPlan()));
  server.slices.erase(std::next(server.slices.begin()));
  const auto plan = Plan({PoolOf(130)}, server.All(), DefaultPlan());
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].kind, Kind::kCreate);
  EXPECT_EQ(plan[0].name, "00001-gpu.sdk.test-n1-");
  server.Apply(plan);
  ExpectSound(server, {PoolOf(130)}, 64);
}

TEST(Planner, KeepsTheTimeOfATaintThatStays) {
  Server server;
  WantedPool pool = PoolOf(2);
  pool.devices[0]["taints"] = {{{"key", "k"}, {"value", "v"}, {"effect", "NoSchedule"}}};
  server.Apply(Plan({pool}, {}, DefaultPlan()));
  server.Only()["spec"]["devices"][0]["taints"][0]["timeAdded"] = "2026-01-01T00:00:00Z";
  EXPECT_TRUE(Plan({pool}, server.All(), DefaultPlan()).empty());
  pool.devices[0]["taints"].push_back({{"key", "l"}, {"effect", "NoExecute"}});
  pool.devices[0]["taints"][0]["timeAdded"] = "2026-03-01T00:00:00.25Z";
  const auto plan = Plan({pool}, server.All(), DefaultPlan());
  ASSERT_EQ(plan.size(), 1u);
  const Json& taints = plan[0].body["spec"]["devices"][0]["taints"];
  EXPECT_EQ(taints[0]["timeAdded"], "2026-01-01T00:00:00Z");
  EXPECT_FALSE(taints[1].contains("timeAdded"));
  pool.devices[0]["taints"][0]["value"] = "other";
  EXPECT_EQ(Plan({pool}, server.All(), DefaultPlan())[0]
                .body["spec"]["devices"][0]["taints"][0]["timeAdded"],
            "2026-03-01T00:00:00Z");
}

TEST(Planner, CorrectsTheOwnerWithoutANewGeneration) {
  Server server;
  server.Apply(Plan({PoolOf(70)}, {}, DefaultPlan()));
  PlanOptions options = DefaultPlan();
  options.node_uid = "N2";
  const auto plan = Plan({PoolOf(70)}, server.All(), options);
  EXPECT_EQ(Count(plan, Kind::kUpdate), 2u);
  for (const Operation& operation : plan) {
    EXPECT_EQ(Generation(operation.body), 1);
    EXPECT_EQ(operation.body["metadata"]["ownerReferences"][0]["uid"], "N2");
  }
}

TEST(Planner, WritesOverWhatAStrangerPutIntoTheSpecAndKeepsLabels) {
  Server server;
  server.Apply(Plan({PoolOf(2)}, {}, DefaultPlan()));
  server.Only()["spec"]["strange"] = {{"a", 1}};
  server.Only()["metadata"]["labels"] = {{"theirs", "x"}};
  server.Only()["metadata"]["managedFields"] = {{{"manager", "x"}}};
  const auto plan = Plan({PoolOf(2)}, server.All(), DefaultPlan());
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_FALSE(plan[0].body["spec"].contains("strange"));
  EXPECT_EQ(plan[0].body["metadata"]["labels"]["theirs"], "x");
  EXPECT_FALSE(plan[0].body["metadata"].contains("managedFields"));
}

TEST(Planner, MergesSliceFieldsButNotThoseThatAreOurs) {
  WantedPool pool = PoolOf(1);
  AddCounters(pool, 1);
  pool.slice_fields = {
      {"skipNodeOperations", {"*"}},      {"nodeName", "evil"},      {"allNodes", true},
      {"devices", Json::array()},         {"pool", {{"name", "x"}}}, {"driver", "y"},
      {"partitionTypeAttribute", "a.b/c"}};
  const auto plan = Plan({pool}, {}, DefaultPlan());
  ASSERT_EQ(plan.size(), 2u);
  for (const Operation& operation : plan) {
    const Json& spec = operation.body["spec"];
    EXPECT_EQ(spec["nodeName"], "n1");
    EXPECT_EQ(spec["driver"], "gpu.sdk.test");
    EXPECT_EQ(spec["pool"]["name"], "n1");
    EXPECT_FALSE(spec.contains("allNodes"));
    EXPECT_FALSE(spec.contains("partitionTypeAttribute")) << "no device consumes counters";
    EXPECT_EQ(spec.contains("skipNodeOperations"), spec.contains("devices"));
  }
}

TEST(Planner, LeavesAloneWhatItIsToldToTolerate) {
  Server server;
  server.Apply(Plan({PoolOf(2)}, {}, DefaultPlan()));
  server.Only()["spec"]["devices"][0]["attributes"]["value"]["int"] = 99;
  PlanOptions options = DefaultPlan();
  options.tolerate = [](const Json&, const Json&) { return true; };
  EXPECT_TRUE(Plan({PoolOf(2)}, server.All(), options).empty());
}

TEST(SliceNames, StayWithinTheServersLimitAndCarryTheIndex) {
  EXPECT_EQ(GenerateName(0x1f, "gpu.sdk.test", "n1"), "0001f-gpu.sdk.test-n1-");
  const std::string dotted(40, 'a');
  const std::string cut = GenerateName(1, "gpu.sdk.test", dotted.substr(0, 38) + ".b.c");
  EXPECT_LE(cut.size(), 58u);
  EXPECT_NE(cut.back(), '.');
  EXPECT_EQ(IndexOf("0001f-gpu.sdk.test-n1-abcde"), 0x1fu);
  EXPECT_EQ(IndexOf("n1-gpu.sdk.test-abcde"), std::nullopt);
  EXPECT_EQ(IndexOf("0001F-x"), std::nullopt);
  EXPECT_EQ(IndexOf("123-x"), std::nullopt);
}

// From whatever is stored: one plan makes the pools sound, the next one is empty, and taking one device away is one
// call at most.
TEST(PlannerProperty, ReachesASoundPoolFromAnyStoredState) {
  std::mt19937 random(20261129);
  const auto draw = [&](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  for (int run = 0; run < 150; ++run) {
    SCOPED_TRACE(run);
    PlanOptions options = DefaultPlan();
    options.never_tainted = draw(2) == 0;
    const size_t limit = options.never_tainted ? 128 : 64;
    Server server;
    const auto random_pools = [&] {
      std::vector<WantedPool> pools;
      for (int p = 0; p < 1 + draw(2); ++p) {
        WantedPool pool = PoolOf(0, p == 0 ? "n1" : "n1/more");
        const int density = draw(4);
        for (int i = 0; i < draw(400); ++i) {
          if (draw(4) >= density) pool.devices.push_back(Device(Numbered("d", i), draw(2)));
        }
        if (draw(2) == 0) AddCounters(pool, draw(20));
        std::shuffle(pool.devices.begin(), pool.devices.end(), random);
        pools.push_back(std::move(pool));
      }
      return pools;
    };
    // Some history, with calls that never happened and strangers' hands in it.
    for (int step = 0; step < draw(4); ++step) {
      const auto plan = Plan(random_pools(), server.All(), options);
      const size_t done = draw(2) == 0   ? plan.size()
                          : plan.empty() ? 0
                                         : static_cast<size_t>(draw(static_cast<int>(plan.size())));
      for (size_t i = 0; i < done; ++i) server.Apply(plan[i]);
      for (auto& [name, slice] : server.slices) {
        if (draw(8) == 0) slice["spec"]["pool"]["generation"] = draw(50);
        if (draw(8) == 0) slice["spec"]["pool"]["resourceSliceCount"] = draw(9);
        if (draw(16) == 0 && slice["spec"].contains("devices")) {
          slice["spec"]["devices"].push_back(Device(Numbered("d", draw(400))));
        }
        if (draw(16) == 0) slice["spec"]["sharedCounters"] = {{{"name", "c0001"}}};
      }
      if (!server.slices.empty() && draw(3) == 0) server.slices.erase(server.slices.begin());
    }

    std::vector<WantedPool> wanted = random_pools();
    server.Apply(Plan(wanted, server.All(), options));
    ExpectSound(server, wanted, limit);
    EXPECT_TRUE(Plan(wanted, server.All(), options).empty());
    for (WantedPool& pool : wanted) {
      if (pool.devices.empty()) continue;
      pool.devices.erase(pool.devices.begin() + draw(static_cast<int>(pool.devices.size())));
      const auto plan = Plan(wanted, server.All(), options);
      EXPECT_LE(plan.size(), 1u);
      EXPECT_EQ(Count(plan, Kind::kUpdate), plan.size());
      server.Apply(plan);
      ExpectSound(server, wanted, limit);
    }
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace dra::publisher
