#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "dra/backend/backend.h"

namespace nvidia {

// The backend's part of the driver's configuration. Host paths are absolute paths on the host, without "..";
// HostPath turns one into what this process opens.
struct Options {
  // "hostRoot": where the host's / is mounted for this process.
  std::string host_root = "/";
  // "driverRoot": the driver's root on the host: "/", or a driver container's, such as /run/nvidia/driver.
  std::string driver_root = "/";
  // "devRoot": the root that /dev lies in, on the host; "" = the driver's root if that has a dev directory, else
  // "/".
  std::string dev_root;
  // "kernelRoot": the root whose /proc and /sys are read, on the host; other than "/" for simulated hardware only.
  std::string kernel_root = "/";
  // "kubeletRoot": below it lies the socket of NVIDIA's device plugin, if one serves the node.
  std::string kubelet_root = "/var/lib/kubelet";
  // "nvmlLibrary": libnvidia-ml.so.1 on the host; "" = searched below the driver's root.
  std::string nvml_library;
  // "cdiSpec": a CDI spec of NVIDIA's container toolkit on the host, as JSON (`nvidia-ctk cdi generate
  // --format=json`), to take all edits from; "" = own edits.
  std::string cdi_spec;
  // "ignoredXids": beside those that applications cause; each 1..65535.
  std::set<int64_t> ignored_xids;
  // "allowDevicePlugin": serve although NVIDIA's device plugin serves the node.
  bool allow_device_plugin = false;
  // "pollSeconds", 1..3600: how often states without events are looked at, and a missing library is looked for.
  int64_t poll_seconds = 10;

  std::string HostPath(const std::string& path) const;  // host_root + path, "//" avoided
};

// Throws DRA_INVALID_ARGUMENT with the path of the option; unknown options are refused.
Options ReadOptions(const dra::Json& config);

}  // namespace nvidia
