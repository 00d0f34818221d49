#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "dra/base/file_system.h"
#include "dra/driver/preflight.h"

namespace dra::driver {

// What the container runtimes' own files say of CDI, held against the directory this driver writes to: containerd's
// <root>/etc/containerd/config.toml with what it imports, and CRI-O's <root>/etc/crio/crio.conf with its crio.conf.d.
// One finding for each runtime that has a file; none where there is none, which in a container says nothing.
// Source of the keys: containerd docs/cri/config.md (plugins "io.containerd.grpc.v1.cri" and
// "io.containerd.cri.v1.runtime": enable_cdi, cdi_spec_dirs), crio.conf(5) (crio.runtime.cdi_spec_dirs).
std::vector<CheckResult> CheckRuntimeCdi(FileSystem& fs, absl::string_view root,
                                         absl::string_view cdi_directory);

}  // namespace dra::driver
