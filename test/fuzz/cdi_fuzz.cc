// CDI files: of others as they are read, and edits of a backend as they are checked and applied.
#include "dra/base/json.h"
#include "dra/cdi/names.h"
#include "dra/cdi/oci.h"
#include "dra/cdi/spec.h"
#include "dra/cdi/validate.h"
#include "test/fuzz/absent_file_system.h"
#include "test/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text = dra::fuzz::Text(data, size);
  (void)dra::cdi::ParseQualifiedName(text);
  const auto spec = dra::cdi::ParseSpecFile(text);
  if (spec.ok()) {
    (void)dra::cdi::ValidateSpec(*spec);
    const auto again = dra::cdi::SpecFromJson(dra::cdi::ToJson(*spec));
    dra::fuzz::Require(again.ok() && *again == *spec, "a spec that is written reads the same");
    dra::fuzz::Require(dra::cdi::CompareVersions(dra::cdi::MinimumVersion(*spec), "1.1.0").ok(),
                       "the minimum version is a version");
  }
  const auto json = dra::ParseJson(text, "edits");
  if (!json.ok()) return 0;
  auto edits = dra::cdi::EditsFromJson(*json);
  if (!edits.ok()) return 0;
  dra::cdi::DropRedundantHostPaths(*edits);
  dra::cdi::CompleteMountOptions(*edits);
  if (!dra::cdi::ValidateEdits(*edits, "edits").ok()) return 0;
  (void)dra::cdi::ValidateOwnEdits(*edits, "edits");
  dra::fuzz::AbsentFileSystem host;
  dra::Json oci = {{"ociVersion", "1.2.0"}};
  (void)dra::cdi::ApplyEdits(oci, *edits, host);
  return 0;
}
