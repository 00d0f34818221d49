#pragma once

#include <string>

namespace nvidia {

// Another text after each boot and each load of the driver's kernel module. "" if that cannot be told.
// root: below it lie the host's proc and sys, as this process sees them.
std::string DriverEpoch(const std::string& root);

}  // namespace nvidia
