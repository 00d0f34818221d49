#pragma once

#include <vector>

#include "test/crash/scenario.h"
#include "test/crash/simulated_gpus.h"

namespace dra::crash {

// What is done to a node of simulated GPUs. Those with claims end with a check of the CDI files against the cards, and with
// another claim for a card of the claim under test: it gets nothing before that one is unprepared. gpus outlives them.
std::vector<NamedScenario> NvidiaScenarios(SimulatedGpus* gpus);

}  // namespace dra::crash
