#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "discovery.h"
#include "dra/backend/backend.h"
#include "host_files.h"

namespace nvidia {

// CDI containerEdits of one device: its own nodes. Numbers are read from the system now; a node that is missing on the
// host is made there, and where it cannot be (or is there with numbers of a driver that is gone) it is written with
// type, major and minor, so that the container gets its own. Never empty. Throws DRA_UNAVAILABLE, naming node and
// cause.
// hook_path: the hook's program (hook/main.cc) on the host, which makes links to the nodes where the host has them.
dra::Json DeviceEdits(const HostFiles& files, const PresentDevice& device,
                      const std::string& hook_path);

// What all devices of a claim share: control nodes, libraries, binaries, sockets, NVIDIA_VISIBLE_DEVICES=void, and the
// hook that makes links and loader cache. Throws DRA_UNAVAILABLE also if nvidia-uvm is not loaded.
dra::Json ClaimEdits(const HostFiles& files, const std::string& driver_version,
                     const std::string& hook_path);

struct AllEdits {
  dra::Json common;
  std::vector<dra::Json> devices;  // one for each of a claim's devices
};

// Instead of both, from a CDI spec of NVIDIA's container toolkit: the edits of the device that has the UUID as its name
// (GPU-... or MIG-...; an index slides and counts for nothing), and the spec's common edits.
// path: on the host, JSON. Throws DRA_FAILED_PRECONDITION, with what to run, if the file cannot be read, has no such
// device, or names a path that is not there on the host.
AllEdits FromToolkitSpec(const HostFiles& files, const std::string& path,
                         const std::vector<PresentDevice>& devices);

// The bytes of the static hook program, for Host::SharedFile. They live as long as the library.
std::string_view HookProgram();

}  // namespace nvidia
