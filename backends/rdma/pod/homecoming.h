#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "give_back.h"
#include "links.h"
#include "namespace.h"
#include "plan.h"
#include "rdma_moves.h"

namespace rdma {

// What brings a claim's interfaces home: GiveBack's work, and Attach's where it fails or finds an earlier sandbox's.
struct Homecoming {
  const NetworkNamespace& host;
  const NetworkNamespace* pod;         // where they may be; nullptr: it is gone, or not to be seen
  const AttachState* state;            // nullptr: nothing was noted
  std::string sys;                     // root of sysfs
  std::chrono::milliseconds patience;  // for what the kernel is bringing back, all of it
  RdmaMoves& rdma;
};

// Whether something can be elsewhere than at home: a state without a namespace only tells of an error.
inline bool MayHaveMoved(const AttachState& state) { return state.namespace_inode != 0; }

// One of them, with its RDMA device first. May be repeated. Throws where a repeat may help.
GivenBack BringHome(const Homecoming& way, const std::string& claim_uid,
                    const Attachment& attachment);

// All of these; each is tried before what the first that failed has thrown is thrown on.
std::vector<GivenBack> BringAllHome(const Homecoming& way, const std::string& claim_uid,
                                    const std::vector<Attachment>& attachments);

// What is noted of the device in this very namespace; nullptr if nothing is.
const AttachedInterface* NotedOf(const AttachState* state, const std::string& device,
                                 const NetworkNamespace& pod);

// Takes from it the alternative names that it has not from home.
void DeleteForeignNames(NetlinkSocket& route, const Link& link, const HostInterface& home);

// Takes from it the XDP programs that it has not from home. Throws.
void DetachXdp(NetlinkSocket& route, const Link& link, const HostInterface& home);

// The settings of an interface of the calling thread's namespace, before it is moved away.
LostSettings NoteSettings(const std::string& interface, const NetworkConfig& config);

}  // namespace rdma
