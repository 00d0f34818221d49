// What this SDK says, for programs in other languages to compare with: reads one JSON request a line on standard input
// and writes one JSON answer a line on standard output, until the input ends.
//
//   {"op": "validate_slice", "object": <ResourceSlice>}         -> {"errors": [{"path": ..., "message": ...}]}
//   {"op": "cdi_write", "directory", "driver", "claimUid", "devices": [{"device", "shareId", "edits"}], "claimEdits"}
//                                                               -> {"file": <path>, "ids": [[...]]}
//   {"op": "cdi_scan", "directory"}                             -> {"devices": [...], "errors": {<path>: <why>}}
//   {"op": "cdi_merge", "directory", "oci", "ids": [...]}       -> {"oci": <config.json>}
// An operation that is refused answers {"refused": <why>}; a request that is no request ends the program.

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "dra/base/file_system.h"
#include "dra/base/json.h"
#include "dra/base/status.h"
#include "dra/cdi/claim_specs.h"
#include "dra/resource/slice.h"
#include "dra/testing/cdi_runtime.h"
#include "nlohmann/json.hpp"

namespace {

using dra::Json;
using dra::StringOr;

const Json& Part(const Json& request, absl::string_view name) {
  static const Json none;
  const Json* part = dra::Find(request, name);
  return part == nullptr ? none : *part;
}

Json ValidateSlice(const Json& request) {
  Json errors = Json::array();
  for (const dra::resource::FieldError& error :
       dra::resource::ValidateResourceSlice(Part(request, "object"))) {
    errors.push_back({{"path", error.field}, {"message", error.Detail()}});
  }
  return {{"errors", std::move(errors)}};
}

absl::StatusOr<Json> CdiWrite(const Json& request, dra::FileSystem& fs) {
  dra::cdi::ClaimSpecs specs(&fs, StringOr(request, "directory"), StringOr(request, "driver"));
  std::vector<dra::cdi::ClaimDevice> devices;
  for (const Json& device : Part(request, "devices")) {
    devices.push_back(
        {StringOr(device, "device"), StringOr(device, "shareId"), Part(device, "edits")});
  }
  const std::string claim_uid = StringOr(request, "claimUid");
  DRA_ASSIGN_OR_RETURN(const auto ids,
                       specs.Write(claim_uid, devices, Part(request, "claimEdits")));
  return Json{{"file", specs.PathFor(claim_uid)}, {"ids", ids}};
}

Json CdiScan(const Json& request, dra::FileSystem& fs) {
  const auto registry = dra::testing::CdiRuntime(&fs, {StringOr(request, "directory")}).Scan();
  return {{"devices", registry.devices}, {"errors", registry.errors}};
}

absl::StatusOr<Json> CdiMerge(const Json& request, dra::FileSystem& fs) {
  const dra::testing::CdiRuntime runtime(&fs, {StringOr(request, "directory")});
  DRA_ASSIGN_OR_RETURN(
      Json oci,
      runtime.Inject(Part(request, "oci"), Part(request, "ids").get<std::vector<std::string>>()));
  return Json{{"oci", std::move(oci)}};
}

absl::StatusOr<Json> Answer(const Json& request, dra::FileSystem& fs) {
  const std::string op = StringOr(request, "op");
  if (op == "validate_slice") return ValidateSlice(request);
  if (op == "cdi_write") return CdiWrite(request, fs);
  if (op == "cdi_scan") return CdiScan(request, fs);
  if (op == "cdi_merge") return CdiMerge(request, fs);
  return absl::UnimplementedError(absl::StrCat("no operation \"", op, "\""));
}

}  // namespace

int main() {
  dra::PosixFileSystem fs;
  for (std::string line; std::getline(std::cin, line);) {
    const absl::StatusOr<Json> request = dra::ParseJsonObject(line, "request");
    const absl::StatusOr<Json> answer =
        request.ok() ? Answer(*request, fs) : absl::StatusOr<Json>(request.status());
    if (!request.ok() || absl::IsUnimplemented(answer.status())) {
      std::cerr << "dra-differential: " << answer.status().ToString() << "\n";
      return 2;
    }
    const Json text =
        answer.ok() ? *answer : Json{{"refused", std::string(answer.status().message())}};
    std::cout << dra::DumpJson(text) << "\n" << std::flush;
  }
  return 0;
}
