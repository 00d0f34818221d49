// The kubelet's connection to a driver as a process of its own, so that a test can stop it.
//   kubelet_client SOCKET DEVICE
// Writes "health <message of DEVICE>" for each report of the health stream. For a line "NAMESPACE NAME UID" on stdin it
// prepares the claim and writes "prepared" or "failed <why>".

#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>

#include "testing/plugin_client.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string socket = argv[1];
  const std::string device = argv[2];
  std::mutex mutex;
  const auto say = [&](const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex);
    std::cout << text << std::endl;
  };
  dra::testing::PluginClient client(socket);
  const std::jthread watcher([&](const std::stop_token& stop) {
    client
        .WatchHealth(
            "v1.DRAResourceHealth",
            [&](const std::vector<dra::testing::ReportedHealth>& devices) {
              for (const auto& reported : devices) {
                if (reported.device == device) say("health " + reported.message);
              }
            },
            stop)
        .IgnoreError();
  });
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    dra::testing::KubeletClaim claim;
    words >> claim.namespace_name >> claim.name >> claim.uid;
    const auto reply = client.Prepare("v1.DRAPlugin", {claim}, absl::Seconds(45));
    if (!reply.ok()) {
      say("failed " + std::string(reply.status().message()));
    } else {
      say(reply->errors.empty() ? "prepared" : "failed " + reply->errors.begin()->second);
    }
  }
  return 0;
}
