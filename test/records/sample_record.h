#pragma once

#include "dra/records/record.h"

namespace dra::records {

// A record with every member set: the golden file and the documentation show it.
inline Record SampleRecord() {
  Record record;
  record.phase = Phase::kPrepared;
  record.boot_id = "0f6f2c1e-52d4-4c0e-9f3e-2a9b61d5b7aa";
  record.claim = {"ml", "trainer-gpu", "5b2d9f0e-8c44-4a53-9a07-3f1d2c6e7a10"};
  record.reserved_for = Json::parse(R"([{"resource":"pods","name":"trainer","uid":"9c1f"}])");
  record.allocation_digest = "3b8e5c";
  RecordDevice gpu;
  gpu.result =
      Json::parse(R"({"request":"gpu","driver":"gpu.sdk.test","pool":"n1","device":"d0"})");
  gpu.pool = "n1";
  gpu.device = "d0";
  gpu.request = "gpu";
  gpu.identity = "pci-0000:17:00.0";
  gpu.exclusion_keys = {{"card-0", "whole"}};
  gpu.consumes_counters =
      Json::parse(R"([{"counterSet":"card-0","counters":{"memory":{"value":"40Gi"}}}])");
  gpu.configs = Json::parse(
      R"([{"source":"FromClaim","request":"gpu","parameters":{"apiVersion":"gpu.sdk.test/v1","kind":"Config","sharing":{"mode":"x"}}}])");
  gpu.edits = Json::parse(R"({"deviceNodes":[{"path":"/dev/fake0"}]})");
  gpu.status = Json::parse(R"({"data":{"temperature":41}})");
  RecordDevice share;
  share.result = Json::parse(
      R"({"request":"net/fast","driver":"gpu.sdk.test","pool":"n1","device":"nic0","shareID":"6f1c2a34-0d1b-4c58-8a53-1f1f3f0f9e77","consumedCapacity":{"bandwidth":"1G"}})");
  share.pool = "n1";
  share.device = "nic0";
  share.request = "net/fast";
  share.share_id = "6f1c2a34-0d1b-4c58-8a53-1f1f3f0f9e77";
  share.identity = "pci-0000:65:00.0";
  share.exclusion_keys = {{"nic-0", "pf"}};
  share.edits = Json::parse(R"({"env":["NIC=nic0"]})");
  record.devices = {gpu, share};
  record.claim_edits = Json::parse(R"({"env":["CLAIM=1"]})");
  record.undo = std::string("\x00\xff previous", 11);
  record.has_undo = true;
  record.backend = "fake 1.2.0";
  record.shared_files = {"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"};
  record.since = absl::FromUnixMillis(1767225600250);
  record.last_error = "";
  return record;
}

}  // namespace dra::records
