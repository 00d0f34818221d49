#!/usr/bin/env bash
# Runs the cluster tests on a cluster that is up, $DRA_CLUSTER: builds the driver, its image and the tests, loads the image.
#   test/cluster/suite/run.sh [GO-TEST-FLAGS]
# Environment: DRA_BUILD_DIR, a build tree with the targets below; without it build/release is built.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
. "$here/../lib/cache.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${DRA_BUILD_DIR:-}
if [ -z "$build" ]; then
  build=$root/build/release
  say "building the driver (some minutes the first time) ..."
  (cd "$root" && cmake --preset release && cmake --build --preset release -j "${DRA_JOBS:-$(nproc)}" \
    --target dra-driver dra-sandbox fake nvidia nvidia_simulator rdma rdma_simulator) > "$work/log" 2>&1 || { tail -40 "$work/log" >&2 && exit 1; }
fi
build=$(realpath "$build")

say "making and loading the image ..."
"$here/../lib/chart_image.sh" "$build" "$work/image.tar"
"$here/../run.sh" load "$work/image.tar" > "$work/log" 2>&1 || { cat "$work/log" >&2 && exit 1; }

say "building the tests (a minute or two the first time) ..."
(
  cd "$here"
  "$("$here/../lib/go.sh")" test -count=1 -v -timeout 60m -parallel 6 "$@" . -args -cluster "${DRA_CLUSTER:-default}" \
    -run-script "$here/../run.sh" -driver "$build/sdk/programs/dra-driver/dra-driver" -backend "$build/backends/fake/dra-backend-fake.so" \
    -nvidia-backend "$build/backends/nvidia/dra-backend-nvidia.so" \
    -nvidia-simulator "$build/backends/nvidia/simulator/tool/dra-nvidia-simulator" \
    -rdma-backend "$build/backends/rdma/dra-backend-rdma.so" \
    -rdma-simulator "$build/backends/rdma/simulator/tool/dra-rdma-simulator"
)

# Whoever names tests wants those alone.
case " $* " in *" -run"*) exit 0 ;; esac
say "installing the chart ..."
helm=$("$here/../lib/helm.sh")
"$here/../run.sh" exec env HELM="$helm" python3 "$root/test/chart/install.py" --verbose
