#!/usr/bin/env bash
# Runs the backend on the mock NVML of NVIDIA/k8s-test-infra: somebody else's idea of the library, on every card that it
# has. Prints the devices found; exit status 0 if the conformance suite passes on all.
#   test/backends/nvidia/mock_nvml.sh CHECKOUT
# CHECKOUT is a clone of NVIDIA/k8s-test-infra. Environment: DRA_BUILD_DIR, a build tree with dra-backend-conformance and the
# backend; GO, default go.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
checkout=$(realpath "${1:?a clone of NVIDIA/k8s-test-infra}")
build=$(realpath "${DRA_BUILD_DIR:?a build tree with dra-backend-conformance and the backend}")
go=${GO:-$("$here/../../cluster/lib/go.sh")}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$checkout" && CGO_ENABLED=1 "$go" build -mod=vendor -tags nopadding -buildmode=c-shared -o "$work/mock.so" \
  ./pkg/gpu/mocknvml/bridge) > "$work/build.log" 2>&1 || { tail -20 "$work/build.log" >&2; exit 1; }

# The mock leaves names unresolved that nothing calls. The backend refuses such a library, since a call of one of them would
# end the process: here each gets a definition.
nm -D --undefined-only "$work/mock.so" | awk '$2 ~ /^nvml/ { print "int " $2 "(void) { return 13; }" }' > "$work/missing.c"
cc -shared -fPIC -o "$work/missing.so" "$work/missing.c"

failed=0
for model in "$checkout"/pkg/gpu/mocknvml/configs/*.yaml; do
  name=$(basename "$model" .yaml)
  # The driver's files carry the version that the model says.
  version=$(awk '$1 == "driver_version:" { gsub(/"/, "", $2); print $2; exit }' "$model")
  directory=$work/$name/usr/lib/x86_64-linux-gnu
  mkdir -p "$directory" "$work/$name/proc"
  printf 'Character devices:\n195 nvidia\n510 nvidia-uvm\n' > "$work/$name/proc/devices"
  cp "$work/mock.so" "$directory/libnvidia-ml.so.$version"
  ln -s "libnvidia-ml.so.$version" "$directory/libnvidia-ml.so.1"
  echo "{\"hostRoot\": \"$work/$name\"}" > "$work/config.json"
  if MOCK_NVML_CONFIG=$model LD_PRELOAD=$work/missing.so "$build/test/conformance/dra-backend-conformance" \
    "$build/backends/nvidia/dra-backend-nvidia.so" --config "$work/config.json" --driver gpu.nvidia.com > "$work/report" 2>&1; then
    echo "ok   $name: $(grep -c ^PASS "$work/report") checks passed"
  else
    failed=1
    echo "FAIL $name" >&2
    grep -v ^PASS "$work/report" >&2 || true
  fi
done
exit $failed
