// nvidia-smi of the simulated host: prints what libnvidia-ml.so.1 shows, on the host and in containers. It knows -L,
// --query-gpu=... --format=csv[,noheader][,nounits], -i, and without arguments a short table. It changes nothing.

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nvml.h"

namespace {

// NVML's numbers for what went wrong are nvidia-smi's exit codes too (its man page, "RETURN VALUE").
struct Failure {
  int exit_code;
  std::string text;
};

// A library that was opened, and the functions that this program needs of it.
struct Nvml {
#define DRA_NVML_MEMBER(symbol, parameters) nvml::Return(*symbol) parameters = nullptr;
  DRA_NVML_FUNCTIONS(DRA_NVML_MEMBER)
#undef DRA_NVML_MEMBER
  const char* (*error_string)(nvml::Return) = nullptr;

  std::string Describe(nvml::Return result) const {
    return error_string != nullptr ? error_string(result) : "error " + std::to_string(result);
  }
};

Nvml OpenNvml() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* problem = dlerror();
    throw Failure{nvml::kLibraryNotFound,
                  "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system: " +
                      std::string(problem != nullptr ? problem : "dlopen failed")};
  }
  Nvml nvml;
#define DRA_NVML_LOAD(symbol, parameters) \
  nvml.symbol = reinterpret_cast<nvml::Return(*) parameters>(dlsym(library, #symbol));
  DRA_NVML_FUNCTIONS(DRA_NVML_LOAD)
#undef DRA_NVML_LOAD
  nvml.error_string =
      reinterpret_cast<const char* (*)(nvml::Return)>(dlsym(library, "nvmlErrorString"));
  if (nvml.nvmlInitWithFlags == nullptr)
    throw Failure{nvml::kFunctionNotFound, "libnvidia-ml.so.1 has no nvmlInitWithFlags"};
  const nvml::Return result = nvml.nvmlInitWithFlags(nvml::kInitNoGpus);
  if (result != nvml::kSuccess)
    throw Failure{result, "Failed to initialize NVML: " + nvml.Describe(result)};
  return nvml;
}

// What `function` writes into a buffer; "[N/A]" if the library does not support it.
std::string Text(const Nvml& nvml, nvml::Return (*function)(nvml::Device, char*, unsigned),
                 nvml::Device device) {
  if (function == nullptr) return "[N/A]";
  char buffer[nvml::kUuidBytes] = {};
  const nvml::Return result = function(device, buffer, sizeof(buffer));
  if (result == nvml::kSuccess) return buffer;
  return result == nvml::kNotSupported ? "[N/A]" : "[" + nvml.Describe(result) + "]";
}

struct Card {
  unsigned index = 0;
  nvml::Device device = nullptr;
  std::string problem;  // why there is no handle
};

std::vector<Card> AllCards(const Nvml& nvml) {
  unsigned count = 0;
  const nvml::Return counted = nvml.nvmlDeviceGetCount_v2(&count);
  if (counted != nvml::kSuccess)
    throw Failure{counted, "Failed to count the GPUs: " + nvml.Describe(counted)};
  std::vector<Card> cards;
  for (unsigned i = 0; i < count; ++i) {
    Card card{i, nullptr, ""};
    const nvml::Return result = nvml.nvmlDeviceGetHandleByIndex_v2(i, &card.device);
    if (result != nvml::kSuccess) card.problem = nvml.Describe(result);
    cards.push_back(card);
  }
  return cards;
}

std::string BusId(const Nvml& nvml, nvml::Device device) {
  nvml::PciInfo pci = {};
  return nvml.nvmlDeviceGetPciInfo_v3(device, &pci) == nvml::kSuccess ? pci.bus_id : "[N/A]";
}

std::vector<nvml::Device> MigDevices(const Nvml& nvml, nvml::Device device) {
  std::vector<nvml::Device> devices;
  unsigned count = 0;
  if (nvml.nvmlDeviceGetMaxMigDeviceCount(device, &count) != nvml::kSuccess) return devices;
  for (unsigned i = 0; i < count; ++i) {
    nvml::Device mig = nullptr;
    if (nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, i, &mig) == nvml::kSuccess)
      devices.push_back(mig);
  }
  return devices;
}

void List(const Nvml& nvml, const std::vector<Card>& cards) {
  for (const Card& card : cards) {
    if (card.device == nullptr) {
      std::cout << "Unable to determine the device handle for gpu " << card.index << ": "
                << card.problem << "\n";
      continue;
    }
    std::cout << "GPU " << card.index << ": " << Text(nvml, nvml.nvmlDeviceGetName, card.device)
              << " (UUID: " << Text(nvml, nvml.nvmlDeviceGetUUID, card.device) << ")\n";
    unsigned number = 0;
    for (const nvml::Device mig : MigDevices(nvml, card.device)) {
      // A MIG device's name is the card's with the profile behind it: "NVIDIA H100 80GB HBM3 MIG 1g.10gb".
      const std::string name = Text(nvml, nvml.nvmlDeviceGetName, mig);
      const size_t profile = name.rfind("MIG ");
      std::string shown = profile == std::string::npos ? "?" : name.substr(profile + 4);
      shown.resize(std::max<size_t>(shown.size(), 11), ' ');
      std::cout << "  MIG " << shown << " Device " << (number < 10 ? " " : "") << number
                << ": (UUID: " << Text(nvml, nvml.nvmlDeviceGetUUID, mig) << ")\n";
      ++number;
    }
  }
}

using Value = std::function<std::string(const Nvml&, const Card&)>;

std::string Mib(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

std::string MemoryOf(const Nvml& nvml, const Card& card, uint64_t nvml::Memory::*part) {
  nvml::Memory memory = {};
  return nvml.nvmlDeviceGetMemoryInfo(card.device, &memory) == nvml::kSuccess ? Mib(memory.*part)
                                                                              : "[N/A]";
}

std::string MigMode(const Nvml& nvml, const Card& card, bool pending_wanted) {
  unsigned current = 0, pending = 0;
  if (nvml.nvmlDeviceGetMigMode(card.device, &current, &pending) != nvml::kSuccess) return "[N/A]";
  return (pending_wanted ? pending : current) == 1 ? "Enabled" : "Disabled";
}

const std::map<std::string, Value>& Fields() {
  static const std::map<std::string, Value> fields = {
      {"index", [](const Nvml&, const Card& card) { return std::to_string(card.index); }},
      {"count",
       [](const Nvml& nvml, const Card&) { return std::to_string(AllCards(nvml).size()); }},
      {"name", [](const Nvml& nvml,
                  const Card& card) { return Text(nvml, nvml.nvmlDeviceGetName, card.device); }},
      {"uuid", [](const Nvml& nvml,
                  const Card& card) { return Text(nvml, nvml.nvmlDeviceGetUUID, card.device); }},
      {"serial",
       [](const Nvml& nvml, const Card& card) {
         return Text(nvml, nvml.nvmlDeviceGetSerial, card.device);
       }},
      {"pci.bus_id", [](const Nvml& nvml, const Card& card) { return BusId(nvml, card.device); }},
      {"driver_version",
       [](const Nvml& nvml, const Card&) -> std::string {
         char version[nvml::kVersionBytes] = {};
         return nvml.nvmlSystemGetDriverVersion(version, sizeof(version)) == nvml::kSuccess
                    ? version
                    : "[N/A]";
       }},
      {"memory.total", [](const Nvml& nvml,
                          const Card& card) { return MemoryOf(nvml, card, &nvml::Memory::total); }},
      {"memory.used", [](const Nvml& nvml,
                         const Card& card) { return MemoryOf(nvml, card, &nvml::Memory::used); }},
      {"memory.free", [](const Nvml& nvml,
                         const Card& card) { return MemoryOf(nvml, card, &nvml::Memory::free); }},
      {"compute_cap",
       [](const Nvml& nvml, const Card& card) -> std::string {
         int major = 0, minor = 0;
         if (nvml.nvmlDeviceGetCudaComputeCapability(card.device, &major, &minor) != nvml::kSuccess)
           return "[N/A]";
         return std::to_string(major) + "." + std::to_string(minor);
       }},
      {"mig.mode.current",
       [](const Nvml& nvml, const Card& card) { return MigMode(nvml, card, false); }},
      {"mig.mode.pending",
       [](const Nvml& nvml, const Card& card) { return MigMode(nvml, card, true); }},
  };
  return fields;
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t comma = text.find(',', begin);
    parts.push_back(text.substr(begin, comma - begin));
    if (comma == std::string::npos) return parts;
    begin = comma + 1;
  }
}

void Query(const Nvml& nvml, const std::vector<Card>& cards, const std::string& query,
           const std::string& format) {
  bool header = true, units = true;
  for (const std::string& word : Split(format)) {
    if (word == "noheader") {
      header = false;
    } else if (word == "nounits") {
      units = false;
    } else if (word != "csv") {
      throw Failure{nvml::kInvalidArgument,
                    "--format=" + format + ": \"" + word + "\" is not csv, noheader or nounits"};
    }
  }
  const std::vector<std::string> names = Split(query);
  std::string line;
  for (const std::string& name : names) {
    if (Fields().count(name) == 0) {
      std::string known;
      for (const auto& [field, value] : Fields()) known += " " + field;
      throw Failure{nvml::kInvalidArgument,
                    "Field \"" + name + "\" is not a valid field to query. Known here:" + known};
    }
    line += (line.empty() ? "" : ", ") + name;
    if (name.rfind("memory.", 0) == 0 && units) line += " [MiB]";
  }
  if (header) std::cout << line << "\n";
  for (const Card& card : cards) {
    if (card.device == nullptr) {
      throw Failure{nvml::kGpuIsLost, "Unable to determine the device handle for gpu " +
                                          std::to_string(card.index) + ": " + card.problem};
    }
    for (size_t i = 0; i < names.size(); ++i) {
      std::string value = Fields().at(names[i])(nvml, card);
      if (!units && value.size() > 4 && value.substr(value.size() - 4) == " MiB")
        value.resize(value.size() - 4);
      std::cout << (i == 0 ? "" : ", ") << value;
    }
    std::cout << "\n";
  }
}

void Summary(const Nvml& nvml, const std::vector<Card>& cards) {
  char driver[nvml::kVersionBytes] = {};
  int cuda = 0;
  nvml.nvmlSystemGetDriverVersion(driver, sizeof(driver));
  nvml.nvmlSystemGetCudaDriverVersion_v2(&cuda);
  std::cout << "NVIDIA-SMI (simulated)  Driver Version: " << driver
            << "  CUDA Version: " << cuda / 1000 << "." << cuda % 1000 / 10 << "\n";
  for (const Card& card : cards) {
    std::cout << "GPU " << card.index << "  ";
    if (card.device == nullptr) {
      std::cout << "ERR! " << card.problem << "\n";
      continue;
    }
    std::cout << Text(nvml, nvml.nvmlDeviceGetName, card.device) << "  " << BusId(nvml, card.device)
              << "  " << MemoryOf(nvml, card, &nvml::Memory::used) << " / "
              << MemoryOf(nvml, card, &nvml::Memory::total)
              << "  MIG M.: " << MigMode(nvml, card, false) << "\n";
  }
}

// The one that -i names: an index, a UUID or a PCI bus id.
std::vector<Card> Select(const Nvml& nvml, const std::vector<Card>& cards, const std::string& id) {
  for (const Card& card : cards) {
    if (id == std::to_string(card.index)) return {card};
    if (card.device == nullptr) continue;
    const std::string bus_id = BusId(nvml, card.device);
    const bool same_bus = bus_id == id || (bus_id.rfind("0000", 0) == 0 && bus_id.substr(4) == id);
    if (same_bus || Text(nvml, nvml.nvmlDeviceGetUUID, card.device) == id) return {card};
  }
  throw Failure{nvml::kNotFound, "No devices were found: there is no GPU \"" + id + "\""};
}

int Run(int argc, char** argv) {
  bool list = false;
  std::string id, query, format = "csv";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&](const std::string& name) -> std::optional<std::string> {
      if (argument.rfind(name + "=", 0) == 0) return argument.substr(name.size() + 1);
      return std::nullopt;
    };
    if (argument == "-L" || argument == "--list-gpus") {
      list = true;
    } else if (argument == "-i" && i + 1 < argc) {
      id = argv[++i];
    } else if (const auto text = value("--id")) {
      id = *text;
    } else if (const auto fields = value("--query-gpu")) {
      query = *fields;
    } else if (const auto words = value("--format")) {
      format = *words;
    } else {
      throw Failure{nvml::kInvalidArgument,
                    "Invalid combination of input arguments: \"" + argument +
                        "\". This is the simulator's nvidia-smi; it knows -L, -i ID, "
                        "--query-gpu=FIELDS and --format=csv[,noheader][,nounits]"};
    }
  }
  const Nvml nvml = OpenNvml();
  std::vector<Card> cards = AllCards(nvml);
  if (!id.empty()) cards = Select(nvml, cards, id);
  if (cards.empty()) throw Failure{nvml::kNotFound, "No devices were found"};
  if (list) {
    List(nvml, cards);
  } else if (!query.empty()) {
    Query(nvml, cards, query, format);
  } else {
    Summary(nvml, cards);
  }
  nvml.nvmlShutdown();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const Failure& failure) {
    std::cerr << failure.text << "\n";
    return failure.exit_code > 0 && failure.exit_code < 255 ? failure.exit_code : 255;
  }
}
