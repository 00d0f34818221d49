#!/usr/bin/env bash
# Runs this folder's pods on simulated NICs, in a node in a box: no hardware, no cluster.
#   examples/rdma/run.sh [MODEL [PODS...]]     a model of backends/rdma/simulator/models (default h100-8gpu-8nic-4roots.yaml), and
#                                              files of this folder (default one-nic-pod.yaml two-nics-pod.yaml)
# It shows what is allocated and what the container runtime is told: device nodes and the hook's line. dra-sandbox starts no
# containers, so the hook does not run, no interface moves, and what a claim's status would tell of it is not there. In a network
# namespace of its own it makes interfaces that stand for the NICs'; without the right to that it exits with 77.
# Environment: DRA_BUILD_DIR, a build tree to use; without it build/release is built. DRA_RDMA_CONFIG, a JSON file of further options
# of the backend (shared.json for shared-nic-pods.yaml).
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ -z "${DRA_RDMA_APART:-}" ]; then
  for how in "unshare --net" "unshare --user --map-root-user --net --mount"; do
    if $how true 2> /dev/null; then DRA_RDMA_APART=1 exec $how "$0" "$@"; fi
  done
  echo "run.sh: not permitted to make a network namespace" >&2
  exit 77
fi

out=${DRA_BUILD_DIR:-build/release}
if [ -z "${DRA_BUILD_DIR:-}" ]; then
  sdk/cmake/install-packages.sh
  cmake --preset release > /dev/null
  cmake --build --preset release --target dra-driver dra-sandbox rdma rdma_simulator
fi
pods=("${@:2}")
[ ${#pods[@]} -gt 0 ] || pods=(one-nic-pod.yaml two-nics-pod.yaml)
root=$(mktemp -d)
trap 'umount "$root"/host/dev/infiniband/* 2> /dev/null || true; rm -rf "$root"' EXIT
nodes=
mknod "$root/probe" c 1 3 2> /dev/null || nodes=--no-nodes   # only root may make them
simulator="$out/backends/rdma/simulator/tool/dra-rdma-simulator"
"$simulator" create "backends/rdma/simulator/models/${1:-h100-8gpu-8nic-4roots.yaml}" "$root/host" $nodes
"$simulator" links "$root/host"
if [ -n "$nodes" ]; then   # container runtimes want device nodes, not links
  for node in "$root"/host/dev/infiniband/*; do
    rm "$node"; touch "$node"; mount --bind /dev/null "$node"
  done
fi
ip link set lo up
python3 - "$root/host" "${DRA_RDMA_CONFIG:-}" > "$root/config.json" <<'PYTHON'
import json, sys
more = json.load(open(sys.argv[2])) if sys.argv[2] else {}
print(json.dumps({"kernelRoot": sys.argv[1], "devRoot": sys.argv[1], **more}))
PYTHON
"$out/sdk/programs/dra-sandbox/dra-sandbox" run --driver dra.net \
  --dra-driver "$out/sdk/programs/dra-driver/dra-driver" \
  --backend "$out/backends/rdma/dra-backend-rdma.so" --backend-config "$root/config.json" \
  --apply examples/rdma/device-class.yaml "${pods[@]/#/--apply=examples/rdma/}"
