#!/usr/bin/env bash
# Runs this folder's pods on simulated GPUs, in a node in a box: no GPU, no cluster.
#   examples/nvidia/run.sh [MODEL [PODS...]]     a model of backends/nvidia/simulator/models (default h100x8.yaml), and files of
#                                                this folder (default one-gpu-pod.yaml shared-gpu-pods.yaml)
# Environment: DRA_BUILD_DIR, a build tree to use; without it build/release is built.
set -euo pipefail
cd "$(dirname "$0")/../.."

out=${DRA_BUILD_DIR:-build/release}
if [ -z "${DRA_BUILD_DIR:-}" ]; then
  sdk/cmake/install-packages.sh
  cmake --preset release > /dev/null
  cmake --build --preset release --target dra-driver dra-sandbox nvidia nvidia_simulator
fi
pods=("${@:2}")
[ ${#pods[@]} -gt 0 ] || pods=(one-gpu-pod.yaml shared-gpu-pods.yaml)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
nodes=
mknod "$root/probe" c 1 3 2> /dev/null || nodes=--no-nodes   # only root may make them
"$out/backends/nvidia/simulator/tool/dra-nvidia-simulator" create "backends/nvidia/simulator/models/${1:-h100x8.yaml}" "$root/gpus" $nodes
# The simulated driver lies like a driver container's: below a root of its own, with its own /dev, /proc and /sys.
printf '{"driverRoot": "%s", "kernelRoot": "%s"}\n' "$root/gpus" "$root/gpus" > "$root/config.json"
"$out/sdk/programs/dra-sandbox/dra-sandbox" run --driver gpu.nvidia.com \
  --dra-driver "$out/sdk/programs/dra-driver/dra-driver" \
  --backend "$out/backends/nvidia/dra-backend-nvidia.so" --backend-config "$root/config.json" \
  --apply examples/nvidia/device-class.yaml "${pods[@]/#/--apply=examples/nvidia/}"
