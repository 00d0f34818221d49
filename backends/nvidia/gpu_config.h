#pragma once

#include <vector>

#include "dra/backend/backend.h"

namespace nvidia {

inline constexpr char kConfigApiVersion[] = "resource.nvidia.com/v1beta1";

// The kinds of configuration with their JSON schemas: GpuConfig and MigDeviceConfig. Both may be empty; `sharing`,
// which the public driver has, is read and refused by name until this backend can share.
std::vector<dra::BackendManifest::ConfigKind> ConfigKinds();

// Reads one opaque config strictly. Throws DRA_INVALID_ARGUMENT with the path; sharing strategies and kinds that this
// backend does not have yet are refused by name.
void ValidateConfig(const dra::Json& parameters);

// The config that counts for the device must be of its kind: GpuConfig for a whole GPU, MigDeviceConfig for an
// instance. As in the public driver the list is walked from the highest down to the first that fits; on the way one
// that names the request is an error, and one for all requests is passed over. Every config is read strictly.
void CheckConfigOf(const dra::AllocatedDevice& device, bool is_mig);

// A claim's own config for all requests must fit one of its devices at least. Kubernetes 1.37 drops the names of the
// requests where a config names all that the claim has, so that the wrong kind for them looks like one for all.
// is_mig: one for each of `devices`.
void CheckConfigsFit(const std::vector<dra::AllocatedDevice>& devices,
                     const std::vector<bool>& is_mig);

}  // namespace nvidia
