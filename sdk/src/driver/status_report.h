#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dra/base/json.h"
#include "dra/claims/claim_manager.h"
#include "dra/inventory/inventory.h"
#include "dra/kubelet/plugin_server.h"
#include "dra/loader/backend_handle.h"
#include "dra/publisher/publisher.h"
#include "driver/backend_supervisor.h"
#include "driver/operator_desk.h"
#include "driver/publish_turn.h"

// The JSON that the status socket shows for one driver: docs/status-socket.md. Pure.
namespace dra::driver {

struct DriverView {
  std::string name;
  loader::BackendDescription library;
  absl::StatusOr<std::shared_ptr<const loader::Manifest>> manifest;
  BackendSupervisor::State backend;
  kubelet::RegistrationState registration;
  publisher::State published;
  PublishTurn::State turn;
  OperatorView desk;
  const inventory::Snapshot& inventory;
  std::vector<claims::ClaimSummary> claims;
};

Json DriverStatus(const DriverView& view);
Json NotStartedStatus(const std::string& name, const std::string& library,
                      const std::string& error);

}  // namespace dra::driver
