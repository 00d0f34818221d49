#pragma once

#include <map>
#include <string>
#include <vector>

#include "dra/base/json.h"
#include "dra/testing/kubelet_double.h"
#include "dra/testing/temp_directory.h"
#include "test/crash/crash_node.h"

namespace dra::crash {

inline constexpr char kOldDriver[] = "580.65.06";
inline constexpr char kNewDriver[] = "580.126.20";

// A simulated host with three cards: devices 0 and 2 of the node are whole GPUs, 1 and 3 instances of one card in MIG
// mode. What cannot be done fails the running test.
class SimulatedGpus {
 public:
  SimulatedGpus();

  // For a CrashNode: the NVIDIA backend on this host.
  Hardware ToHardware() const;

  // `dra-nvidia-simulator set`.
  void Set(const std::string& arguments);
  // Sets the minors of the three cards, and makes their nodes ("1,2,0").
  void SetMinors(const std::string& minors) { Set("--minors " + minors); }
  // Another version of driver and kernel module underneath. Instances go with the module and are made again, as a
  // node's start-up does.
  void Upgrade(const std::string& version);
  // Another boot, instances made again.
  void Reboot();

  // Takes the nodes of cards and control devices away; that of the device's card stays ("": none does).
  void RemoveNodes(const std::string& device);
  // In place of a node: one with the numbers of no card, a plain file, and one whose maker died before it was open for
  // all.
  enum class Wrong { kNumbers, kPlainFile, kHalfMade };
  void PlantNode(const std::string& name, Wrong wrong);
  // Name below /dev of the card's own node: "nvidia1".
  std::string NodeOf(const std::string& device) const;
  // Whether this process may make device nodes at all; where it may not, CDI files carry numbers.
  bool MakesNodes() const { return makes_nodes_; }

  // The claim's one CDI file: each device has the node of its card and of no other, with the numbers of now, which is
  // one that everybody can open or none on the host; the hook program exists; the libraries are of the driver version.
  // "" or what is wrong.
  std::string CheckCdi(const CrashNode& node, const testing::KubeletClaim& claim,
                       const std::vector<std::string>& devices, const std::string& driver) const;

  const std::vector<std::string>& devices() const { return devices_; }

 private:
  Json State() const;  // what the simulator says of itself
  std::string Run(const std::string& arguments) const;
  std::string Path(const std::string& path) const { return directory_.Path("root/" + path); }
  std::string CheckNode(const Json& node, unsigned minor) const;

  testing::TempDirectory directory_;
  bool makes_nodes_ = false;
  std::vector<std::string> devices_;
};

}  // namespace dra::crash
