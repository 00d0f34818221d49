#!/usr/bin/env bash
# Runs this folder's pods on simulated GPUs, in a node in a box: no GPU, no cluster.
#   examples/nvidia/run.sh [MODEL]     a model of backends/nvidia/simulator/models, default h100x8.yaml
# Environment: DRA_BUILD_DIR, a build tree to use; without it build/release is built.
set -euo pipefail
cd "$(dirname "$0")/../.."

out=${DRA_BUILD_DIR:-build/release}
if [ -z "${DRA_BUILD_DIR:-}" ]; then
  sdk/cmake/install-packages.sh
  cmake --preset release > /dev/null
  cmake --build --preset release --target dra-driver dra-sandbox nvidia nvidia_simulator
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
"$out/backends/nvidia/simulator/tool/dra-nvidia-simulator" create "backends/nvidia/simulator/models/${1:-h100x8.yaml}" "$root/gpus"
# The simulated driver lies like a driver container's: below a root of its own, with its own /dev, /proc and /sys.
printf '{"driverRoot": "%s", "kernelRoot": "%s"}\n' "$root/gpus" "$root/gpus" > "$root/config.json"
"$out/sdk/programs/dra-sandbox/dra-sandbox" run --driver gpu.nvidia.com \
  --dra-driver "$out/sdk/programs/dra-driver/dra-driver" \
  --backend "$out/backends/nvidia/dra-backend-nvidia.so" --backend-config "$root/config.json" \
  --apply examples/nvidia/device-class.yaml --apply examples/nvidia/one-gpu-pod.yaml \
  --apply examples/nvidia/shared-gpu-pods.yaml
