#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dra/base/json.h"
#include "dra/resource/quantity.h"
#include "nlohmann/json.hpp"

namespace dra::sandbox {

// Gives claims devices by driver and count: the first free ones in the order that Kubernetes uses (pool, slice name,
// place in the slice). It respects what is taken, taints, shared counters, consumable capacity and admin access.
// Selectors other than `device.driver == "<driver>"` and constraints are refused by name: they need the CEL allocator.
// One thread.
class Allocator {
 public:
  // `slices`: the stored ResourceSlices of the node; `classes`: DeviceClasses by name.
  Allocator(std::vector<Json> slices, std::map<std::string, Json> classes, std::string node_name);

  // The status.allocation for the claim; its devices are taken until Release. Errors: InvalidArgument for what is
  // refused, with the path; ResourceExhausted, naming the request, when too few devices are left (with why each of
  // the others did not fit).
  absl::StatusOr<Json> Allocate(const Json& claim);
  void Release(const Json& allocation);

 private:
  struct Candidate {
    std::string driver;
    std::string pool;
    Json device;
  };
  struct Request {
    std::string name;  // as it stands in the result: "<request>" or "<request>/<subrequest>"
    std::string class_name;
    std::string driver;  // "" = any
    bool all = false;
    int64_t count = 1;
    bool admin_access = false;
    Json tolerations;
    Json capacity;  // capacity.requests, object
  };

  absl::StatusOr<Request> ReadRequest(const Json& request, const std::string& name,
                                      const std::string& path) const;
  absl::StatusOr<std::vector<Json>> Take(const Request& request);
  // "" if the device fits, else why not.
  std::string WhyNot(const Candidate& candidate, const Request& request, Json* consumed) const;
  Json Config(const Json& claim, const std::vector<Request>& requests) const;
  void Account(const Json& result, int sign);

  const std::map<std::string, Json> classes_;
  const std::string node_name_;
  std::vector<Candidate> candidates_;
  std::map<std::string, resource::Quantity> counters_;  // "<driver>/<pool>/<set>/<counter>" -> left
  std::map<std::string, int> taken_;  // "<driver>/<pool>/<device>" -> allocations that own it
  std::map<std::string, resource::Quantity>
      consumed_;  // "<driver>/<pool>/<device>/<capacity>" -> consumed
};

}  // namespace dra::sandbox
