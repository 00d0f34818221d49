#pragma once

#include <functional>
#include <string>
#include <vector>

#include "state.h"

namespace rdma_simulator {

// Real interfaces in the calling process's network namespace: for every visible interface of the host that a veth can
// stand for (Ethernet; not a bond, vlan or the like) one end of a veth pair with its name, hardware address, MTU and
// addresses, the other end up in the namespace of the wires. Makes what is missing, removes what is not visible any
// more, wherever it is, and notes in the state where each is: a new index, a new name, away.
// Throws std::runtime_error, as where another interface has the name.
void MatchLinks(State& state);

// Removes them all, wherever they are.
void RemoveLinks(State& state);

// "ens1f0np0-w"; at most 15 bytes, and still different for different names.
std::string PeerName(const std::string& interface);

// What is left out, with the reason; for the user.
std::vector<std::string> LeftOut(const State& state);

// Renames the real one, if it is here. Before RenameInterface.
void RenameLink(const State& state, const std::string& from, const std::string& to);
// The real one's carrier follows the interface's state.
void MatchCarrier(const State& state, const std::string& interface);

// Calls `changed` whenever links of this namespace change; returns never.
[[noreturn]] void FollowLinks(const std::function<void()>& changed);

}  // namespace rdma_simulator
