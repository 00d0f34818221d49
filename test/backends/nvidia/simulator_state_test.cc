#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "cards.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nvml.h"
#include "state.h"

// The state as values and as JSON, the cards, and the file.
namespace nvidia_simulator {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30, kMiB = uint64_t{1} << 20;

std::string WhyNot(const Json& json) {
  try {
    StateFromJson(json);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

Json OneCard(const std::string& model) { return {{"gpus", {ToJson(MakeCard(model, 0))}}}; }

// As NVIDIA's tools make the name from the memory: eighths of the card, in GB.
unsigned NamedGigabytes(uint64_t profile_bytes, uint64_t total_bytes) {
  const double eighths =
      std::ceil(8.0 * static_cast<double>(profile_bytes) / static_cast<double>(total_bytes)) / 8;
  return static_cast<unsigned>(std::round(
      eighths * std::ceil(static_cast<double>(total_bytes) / static_cast<double>(kGiB))));
}

TEST(Cards, AreWholeAndReadAsTheyAreWritten) {
  for (const std::string& model : CardNames()) {
    SCOPED_TRACE(model);
    State state;
    for (unsigned i = 0; i < 16; ++i) state.gpus.push_back(MakeCard(model, i));
    const Json json = ToJson(state);
    EXPECT_EQ(ToJson(StateFromJson(json)).dump(),
              ToJson(StateFromJson(ToJson(StateFromJson(json)))).dump());
    EXPECT_EQ(ToJson(StateFromJson(json))["gpus"].dump(), json["gpus"].dump());
    EXPECT_FALSE(state.gpus[0].name.empty());
    EXPECT_EQ(state.gpus[0].pci.device_id & 0xffff, 0x10deu);
  }
}

TEST(Cards, AreTheSameForTheSameNodeAndDifferForOthers) {
  EXPECT_EQ(MakeCard("T4", 3).uuid, MakeCard("L4", 3).uuid) << "of the place, not of the model";
  std::set<std::string> uuids, serials, bus_ids;
  for (const char* node : {"a", "b"}) {
    for (unsigned i = 0; i < 16; ++i) {
      const Gpu gpu = MakeCard("T4", i, node);
      uuids.insert(gpu.uuid);
      serials.insert(gpu.serial);
      bus_ids.insert(gpu.pci.bus_id);
      EXPECT_THAT(gpu.uuid,
                  testing::MatchesRegex(
                      "GPU-[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
      EXPECT_EQ(gpu.serial.size(), 13u);
    }
  }
  EXPECT_EQ(uuids.size(), 32u);
  EXPECT_EQ(serials.size(), 32u);
  EXPECT_EQ(bus_ids.size(), 16u);
}

TEST(Cards, ShareAPcieRootInPairs) {
  EXPECT_EQ(MakeCard("T4", 0).pcie_root, MakeCard("T4", 1).pcie_root);
  EXPECT_NE(MakeCard("T4", 1).pcie_root, MakeCard("T4", 2).pcie_root);
  EXPECT_EQ(MakeCard("T4", 3).numa_node, 0);
  EXPECT_EQ(MakeCard("T4", 4).numa_node, 1);
}

TEST(Cards, HaveMigProfilesWhoseNamesFollowFromTheirMemory) {
  for (const std::string& model : CardNames()) {
    const Gpu gpu = MakeCard(model, 0);
    EXPECT_EQ(gpu.mig_capable, model != "L4" && model != "T4");
    EXPECT_EQ(gpu.mig_profiles.empty(), !gpu.mig_capable);
    for (const MigProfile& profile : gpu.mig_profiles) {
      SCOPED_TRACE(model + " " + profile.name);
      const std::string start =
          std::to_string(profile.slices) + "g." +
          std::to_string(NamedGigabytes(profile.memory_mib * kMiB, *gpu.memory_bytes)) + "gb";
      EXPECT_EQ(profile.name.substr(0, start.size()), start);
      EXPECT_EQ(profile.placements.size() >= profile.instances, true);
      EXPECT_FALSE(profile.verified);
      EXPECT_THAT(profile.unverified, testing::Contains("multiprocessors"));
    }
  }
}

TEST(Cards, SayWhichNumbersAreUnverified) {
  const Json json = ToJson(MakeCard("GB200", 0));
  EXPECT_THAT(json["migProfiles"][0]["verified"], false);
  EXPECT_THAT(json["migProfiles"][0]["unverified"].dump(), testing::HasSubstr("placements"));
  EXPECT_THAT(ToJson(MakeCard("H100-80GB", 0))["migProfiles"][0]["unverified"].dump(),
              testing::Not(testing::HasSubstr("placements")));
  EXPECT_THAT(json["unverified"].dump(), testing::HasSubstr("memoryBytes"));
}

TEST(Cards, RefuseAModelThatIsNone) {
  try {
    MakeCard("H900", 0);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("\"H900\"; there are: A100-40GB"));
  }
}

TEST(StateJson, NamesWhatItRefuses) {
  const struct {
    const char* pointer;
    Json value;
    const char* expected;
  } cases[] = {
      {"/gpus/0/colour", "red", "gpus[0].colour: no such member"},
      {"/gpus/0/minor", "0", "gpus[0].minor: must be a whole number"},
      {"/gpus/0/minor", -1, "gpus[0].minor: -1 is out of range"},
      {"/gpus/0/minor", 4294967296, "gpus[0].minor: 4294967296 is out of range"},
      {"/gpus/0/lost", 1, "gpus[0].lost: must be true or false"},
      {"/gpus/0/uuid", "", "gpus[0].uuid: is missing"},
      {"/gpus/0/pci/bus_id", "65:00.0",
       "gpus[0].pci.bus_id: \"65:00.0\" is not such as \"00000000:65:00.0\""},
      {"/gpus/0/pci/device_id", "0xg", "gpus[0].pci.device_id: \"0xg\" is no 32-bit number"},
      {"/gpus/0/fabric/state", 4, "gpus[0].fabric.state: must be 0 to 3"},
      {"/gpus/0/migProfiles/0/placements", Json::array(),
       "gpus[0].migProfiles[0].placements: must not be empty"},
      {"/gpus/0/mig",
       {{{"profile", "1g.10gb"}}},
       "gpus[0].mig[0].start: 1g.10gb has no free placement: migMode is false"},
      {"/driver/loaded", "yes", "driver.loaded: must be true or false"},
      {"/visibility", "some", "visibility: \"some\" is none of auto, all, nodes"},
      {"/faults",
       {{{"function", "open"}}},
       "faults[0].function: \"open\" is neither a function of NVML nor \"*\""},
      {"/faults", {{{"function", "*"}}}, "faults[0].return: or hangSeconds must be given"},
      {"/faults",
       {{{"function", "*"}, {"return", "BAD"}}},
       "faults[0].return: \"BAD\" is no return code of NVML"},
      {"/faults",
       {{{"function", "*"}, {"hangSeconds", -1}}},
       "faults[0].hangSeconds: must not be negative"},
      {"/events",
       {{{"gpu", "x"}, {"type", "bang"}}},
       "events[0].type: \"bang\" is no type of event"},
      {"/capMinors",
       {{"gpu0/gi0/access", "x"}},
       "capMinors.gpu0/gi0/access: must be a whole number"},
      {"/gpus", 1, "gpus: must be a list"},
  };
  for (const auto& entry : cases) {
    Json json = OneCard("H100-80GB");
    json[Json::json_pointer(entry.pointer)] = entry.value;
    EXPECT_EQ(WhyNot(json), entry.expected);
  }
  EXPECT_EQ(WhyNot(Json(1)), "state: must be an object");
}

TEST(StateJson, RefusesTwoCardsOfOneIdentity) {
  Json json = OneCard("T4");
  json["gpus"].push_back(json["gpus"][0]);
  EXPECT_THAT(WhyNot(json), testing::HasSubstr("gpus[1].uuid: GPU-"));
  json["gpus"][1]["uuid"] = "GPU-2";
  EXPECT_EQ(WhyNot(json), "gpus[1].minor: 0 is that of gpus[0] too");
  json["gpus"][1]["minor"] = 1;
  EXPECT_EQ(WhyNot(json), "gpus[1].pci.bus_id: 00000000:13:00.0 is that of gpus[0] too");
}

TEST(StateJson, CompletesMigInstances) {
  Json json = OneCard("A100-40GB");
  json["gpus"][0]["migMode"] = true;
  json["gpus"][0]["mig"] = {{{"profile", "1g.5gb"}, {"start", 0}},
                            {{"profile", "3g.20gb"},
                             {"start", 4},
                             {"gi", 1},
                             {"compute", {{{"slices", 1}}, {{"slices", 2}}}}},
                            {{"profile", "1g.5gb"}, {"compute", Json::array()}}};
  const State state = StateFromJson(json);
  const Gpu& gpu = state.gpus[0];
  EXPECT_TRUE(gpu.mig_mode_pending);
  ASSERT_EQ(gpu.mig.size(), 3u);
  EXPECT_EQ(gpu.mig[0].compute.at(0).slices, 1u);
  EXPECT_EQ(gpu.mig[0].compute.at(0).uuid, MigUuid(gpu.uuid, gpu.mig[0].gi, 0));
  EXPECT_EQ(gpu.mig[1].gi, 1u);
  EXPECT_EQ(gpu.mig[1].compute.at(1).start, 1u);
  EXPECT_EQ(gpu.mig[1].compute.at(1).ci, 1u);
  EXPECT_EQ(gpu.mig[2].start, 1u) << "where it fits";
  EXPECT_TRUE(gpu.mig[2].compute.empty());
  EXPECT_EQ(ToJson(StateFromJson(ToJson(state))).dump(), ToJson(state).dump());
}

TEST(StateJson, RefusesMigInstancesThatCannotBe) {
  const struct {
    Json mig;
    const char* expected;
  } cases[] = {
      {{{{"profile", "9g.1gb"}}},
       "gpus[0].mig[0].profile: \"9g.1gb\" is none of the card's: 1g.5gb"},
      {{{{"profile", "4g.20gb"}, {"start", 4}}},
       "gpus[0].mig[0].start: 4g.20gb has no free placement at 4"},
      {{{{"profile", "3g.20gb"}, {"start", 0}}, {{"profile", "1g.5gb"}, {"start", 3}}},
       "gpus[0].mig[1].start: 1g.5gb has no free placement at 3"},
      {{{{"profile", "1g.5gb"}, {"gi", 8}}, {{"profile", "1g.5gb"}, {"gi", 8}}},
       "gpus[0].mig[1].gi: 8 is there twice"},
      {{{{"profile", "1g.5gb"}, {"gi", 15}}}, "gpus[0].mig[0].gi: must be below 15"},
      {{{{"profile", "2g.10gb"}, {"ci", 8}}}, "gpus[0].mig[0].ci: must be below 8"},
      {{{{"profile", "2g.10gb"}, {"slices", 3}}},
       "gpus[0].mig[0].slices: 3 do not fit GPU instance 3"},
      {{{{"profile", "3g.20gb"}, {"compute", {{{"slices", 1}}, {{"slices", 1}, {"start", 0}}}}}},
       "gpus[0].mig[0].compute[1].start: overlaps compute instance 0"},
  };
  for (const auto& entry : cases) {
    Json json = OneCard("A100-40GB");
    json["gpus"][0]["migMode"] = true;
    json["gpus"][0]["mig"] = entry.mig;
    EXPECT_THAT(WhyNot(json), testing::StartsWith(entry.expected));
  }
  Json json = OneCard("T4");
  json["gpus"][0]["migMode"] = true;
  EXPECT_EQ(WhyNot(json), "gpus[0].migMode: the card is not MIG capable");
}

TEST(StateJson, ReadsFaultsEventsAndProcesses) {
  Json json = OneCard("T4");
  json["gpus"][0]["processes"] = {12, "Xorg", {{"pid", 13}, {"gi", 1}}};
  json["faults"] = {
      {{"function", "nvmlDeviceGetName"}, {"gpu", 0}, {"return", "GPU_IS_LOST"}, {"times", 2}},
      {{"function", "*"}, {"return", 999}, {"hangSeconds", 1.5}}};
  json["events"] = {{{"gpu", "GPU-1"}, {"type", "xid"}, {"value", 79}},
                    {{"gpu", "GPU-1"}, {"type", 2}}};
  const State state = StateFromJson(json);
  EXPECT_EQ(state.gpus[0].processes[1].name, "Xorg");
  EXPECT_EQ(state.gpus[0].processes[2].gi, 1u);
  EXPECT_EQ(state.faults[0].gpu, "0");
  EXPECT_EQ(state.faults[0].result, 15);
  EXPECT_EQ(state.faults[1].id, 2u);
  EXPECT_EQ(state.events[0].type, nvml::kEventXid);
  EXPECT_EQ(state.events[1].id, 2u);
  EXPECT_EQ(state.next_event, 3u);
  EXPECT_EQ(ToJson(StateFromJson(ToJson(state))).dump(), ToJson(state).dump());
}

TEST(StateJson, CompletesTheDriver) {
  const State state = StateFromJson({{"driver", {{"version", "570.1"}, {"cuda", "12.8"}}}});
  EXPECT_EQ(state.driver.kernel_module, "570.1");
  EXPECT_EQ(state.driver.nvml, "12.570.1");
}

TEST(Capabilities, AreNumberedAsTheDriverDoes) {
  State state;
  EXPECT_EQ(CapMinor(state, 0, 0, std::nullopt), 3u);
  EXPECT_EQ(CapMinor(state, 0, 0, 0), 4u);
  EXPECT_EQ(CapMinor(state, 3, 3, 3), 439u);
  EXPECT_EQ(CapMinor(state, 6, 11, 7), 920u);
  state.cap_minors["gpu0/gi0/ci0/access"] = 77;
  EXPECT_EQ(CapMinor(state, 0, 0, 0), 77u);
}

TEST(Names, GoBothWays) {
  EXPECT_EQ(ReturnCode("GPU_IS_LOST"), nvml::kGpuIsLost);
  EXPECT_EQ(ReturnName(nvml::kLibRmVersionMismatch), "LIB_RM_VERSION_MISMATCH");
  EXPECT_EQ(ReturnCode("gpu is lost"), std::nullopt);
  EXPECT_EQ(EventType("double-bit-ecc"), nvml::kEventDoubleBitEcc);
  EXPECT_EQ(EventName(nvml::kEventGpuRecoveryAction), "gpu-recovery-action");
}

TEST(Reset, EndsWhatIsVolatile) {
  Gpu gpu = MakeCard("A100-40GB", 0);
  gpu.mig_mode = true;
  gpu.mig_mode_pending = true;
  unsigned gi = 0;
  ASSERT_EQ(CreateGpuInstance(gpu, *gpu.ProfileWithId(19), {}, &gi), 0);
  gpu.ecc.volatile_uncorrected = gpu.ecc.aggregate_uncorrected = 2;
  gpu.remapped_rows.pending = true;
  gpu.lost = true;
  ResetGpu(gpu);
  EXPECT_TRUE(gpu.mig.empty());
  EXPECT_TRUE(gpu.mig_mode);
  EXPECT_EQ(gpu.ecc.volatile_uncorrected, 0u);
  EXPECT_EQ(gpu.ecc.aggregate_uncorrected, 2u);
  EXPECT_FALSE(gpu.remapped_rows.pending);
  EXPECT_EQ(gpu.remapped_rows.uncorrected, 1u);
  EXPECT_TRUE(gpu.lost);
}

class StateFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "simulator-state-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    path_ = directory_ + "/state";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  ino_t Inode() const {
    struct stat info {};
    EXPECT_EQ(stat(path_.c_str(), &info), 0);
    return info.st_ino;
  }
  std::string directory_, path_;
};

TEST_F(StateFileTest, SaysWhichFileCannotBeRead) {
  EXPECT_THROW(
      {
        try {
          ReadState(path_);
        } catch (const std::runtime_error& error) {
          EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr(path_),
                                                   testing::HasSubstr("No such file")));
          throw;
        }
      },
      std::runtime_error);
  std::ofstream(path_) << "{]";
  EXPECT_THROW(ReadState(path_), std::runtime_error);
  std::ofstream(path_) << "{\"a\": 1}";
  EXPECT_THROW(ReadState(path_), std::runtime_error);
}

TEST_F(StateFileTest, IsWrittenInPlaceAndItsTimeAlwaysGrows) {
  State state;
  state.gpus.push_back(MakeCard("T4", 0));
  WriteState(path_, state);
  const ino_t before = Inode();
  auto last = std::filesystem::last_write_time(path_);
  for (int i = 0; i < 50; ++i) {
    UpdateState(path_, [&](State& now) { now.gpus[0].minor = static_cast<unsigned>(i % 10); });
    const auto time = std::filesystem::last_write_time(path_);
    EXPECT_GT(time, last);
    last = time;
  }
  EXPECT_EQ(Inode(), before);
  state.gpus.clear();
  WriteState(path_, state);
  EXPECT_TRUE(ReadState(path_).gpus.empty()) << "nothing of the longer text is left";
}

TEST_F(StateFileTest, StaysAsItWasWhereAChangeThrows) {
  WriteState(path_, State{});
  EXPECT_THROW(UpdateState(path_,
                           [](State& state) {
                             state.driver.loaded = false;
                             throw std::runtime_error("no");
                           }),
               std::runtime_error);
  EXPECT_TRUE(ReadState(path_).driver.loaded);
}

TEST_F(StateFileTest, LosesNoChangeOfSeveralWriters) {
  WriteState(path_, State{});
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&] {
      for (int n = 0; n < 25; ++n) {
        UpdateState(path_, [](State& state) {
          AddEvent(state, {0, "GPU-1", nvml::kEventXid, 13, {}, {}});
        });
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(ReadState(path_).events.size(), 100u);
  EXPECT_EQ(ReadState(path_).next_event, 101u);
}

TEST_F(StateFileTest, KeepsTheLastThousandEvents) {
  State state;
  for (int i = 0; i < 1200; ++i) AddEvent(state, {0, "GPU-1", nvml::kEventXid, 13, {}, {}});
  EXPECT_EQ(state.events.size(), 1000u);
  EXPECT_EQ(state.events.front().id, 201u);
}

}  // namespace
}  // namespace nvidia_simulator
