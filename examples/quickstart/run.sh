#!/usr/bin/env bash
# Builds the daemon, the sandbox and the fake backend, then shows the whole line on this machine: devices published,
# two pods' claims prepared, what their containers get, and all of it gone again. Needs no cluster and no hardware.
# On a fresh Debian 12 machine it installs what it needs (see sdk/cmake/debian-packages.txt).
set -euo pipefail
cd "$(dirname "$0")/../.."

sdk/cmake/install-packages.sh
echo "building (some minutes the first time) ..."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ cmake --preset release && cmake --build --preset release -j "${DRA_JOBS:-$(nproc)}" --target dra-driver dra-sandbox fake; } \
  > "$log" 2>&1 || { tail -40 "$log" >&2; exit 1; }

out=build/release
exec "$out/sdk/programs/dra-sandbox/dra-sandbox" run \
  --dra-driver "$out/sdk/programs/dra-driver/dra-driver" \
  --backend "$out/backends/fake/dra-backend-fake.so" \
  --driver gpu.example.com \
  --backend-config examples/quickstart/fake.yaml \
  --apply examples/fake-manifests/device-class.yaml \
  --apply examples/fake-manifests/time-sliced-pod.yaml \
  --apply examples/fake-manifests/shared-claim-pod.yaml
