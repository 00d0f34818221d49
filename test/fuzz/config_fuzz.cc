// The daemon's configuration file.
#include "dra/driver/config.h"
#include "dra/driver/yaml.h"
#include "test/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text = dra::fuzz::Text(data, size);
  const auto config = dra::driver::ParseDaemonConfig(text, "config.yaml");
  if (config.ok()) {
    (void)dra::driver::ValidateDaemonConfig(*config);
  } else {
    dra::fuzz::Require(config.status().message().find("config.yaml") != absl::string_view::npos,
                       "a refused configuration names the file");
  }
  (void)dra::driver::YamlToJson(text, "manifest.yaml");
  return 0;
}
