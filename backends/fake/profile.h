#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "dra/backend/backend.h"

namespace fake {

// The devices of one configuration: cards of one kind, or those of a file. What a profile answers is what the hooks
// of the same name answer (dra/backend/backend.h), without the faults of the control file. Any thread.
class Profile {
 public:
  virtual ~Profile() = default;

  // Adds the attributes and kinds of configuration that its devices have.
  virtual void Describe(dra::BackendManifest& manifest) = 0;
  virtual void Discover(const dra::DiscoverRequest& request, dra::DiscoverSink& sink) = 0;
  virtual std::vector<dra::HealthReport> Health() = 0;
  virtual void ValidateConfig(const dra::Json& parameters) = 0;
  virtual dra::PrepareReply Prepare(const dra::HookCall& call,
                                    const dra::PrepareRequest& request) = 0;
  virtual void Unprepare(const dra::HookCall&, const dra::UnprepareRequest&) {}
  virtual void ReconcileBegin() {}
  virtual dra::ReconcileReply ReconcileRecord(const dra::ReconcileRequest& request) = 0;
  virtual void ReconcileEnd() {}

  // Two texts that change when Discover's and Health's answers may have changed, the control file left aside. Throws
  // dra::BackendError if that cannot be told now.
  virtual std::pair<std::string, std::string> Look() { return {}; }
};

// Declares an attribute; several profiles may publish the same one.
inline void AddAttribute(dra::BackendManifest& manifest,
                         dra::BackendManifest::Attribute attribute) {
  const bool known = std::any_of(manifest.attributes.begin(), manifest.attributes.end(),
                                 [&](const auto& other) { return other.name == attribute.name; });
  if (!known) manifest.attributes.push_back(std::move(attribute));
}

}  // namespace fake
