#!/usr/bin/env bash
# Tries the NVIDIA backend on a real GPU: builds, discovers, prepares and unprepares claims, and compares what it says with
# nvidia-smi. Needs Debian 12, root, NVIDIA's driver; no cluster. It changes no setting of the card. Prints a line for each
# check; exit status 0 if all passed.
#   test/hardware/nvidia.sh [NAME=VALUE ...]       options of the backend, such as driverRoot=/run/nvidia/driver
# Environment: DRA_BUILD_DIR, a build tree to use; without it build/hardware is built.
set -euo pipefail
cd "$(dirname "$0")/../.."

failed=0
passed() { echo "PASS $1"; }
failure() { echo "FAIL $1" >&2; failed=1; }
check() { # WHAT COMMAND...
  local what=$1
  shift
  if "$@"; then passed "$what"; else failure "$what"; fi
}

command -v nvidia-smi > /dev/null || { echo "no nvidia-smi on this machine: NVIDIA's driver is not installed" >&2; exit 2; }
nvidia-smi -L || { echo "nvidia-smi does not work on this machine" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${DRA_BUILD_DIR:-}
if [ -z "$build" ]; then
  sdk/cmake/install-packages.sh
  build=$PWD/build/hardware
  echo "building (some minutes the first time) ..."
  { cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDRA_BUILD_TESTS=ON -DDRA_BUILD_BENCH=OFF &&
      cmake --build "$build" --target dra-driver dra-sandbox nvidia dra-backend-conformance; } > "$work/log" 2>&1 ||
    { tail -40 "$work/log" >&2; exit 1; }
fi
build=$(realpath "$build")

python3 - "$@" > "$work/config.json" <<'P'
import json, sys
print(json.dumps(dict(argument.split("=", 1) for argument in sys.argv[1:])))
P
backend=$build/backends/nvidia/dra-backend-nvidia.so

# Discovery, the API server's limits, and every device prepared and unprepared twice.
if "$build/test/conformance/dra-backend-conformance" "$backend" --config "$work/config.json" --driver gpu.nvidia.com \
  > "$work/conformance" 2>&1; then
  passed "the conformance suite"
else
  failure "the conformance suite"
fi
cat "$work/conformance"

# Pods' claim through the whole daemon, in a node in a box. It has no configuration, so it fits a whole card and an instance.
if "$build/sdk/programs/dra-sandbox/dra-sandbox" run --driver gpu.nvidia.com \
  --dra-driver "$build/sdk/programs/dra-driver/dra-driver" --backend "$backend" --backend-config "$work/config.json" \
  --apply examples/nvidia/device-class.yaml --apply examples/nvidia/shared-gpu-pods.yaml > "$work/sandbox" 2>&1; then
  passed "a claim is prepared and unprepared, and nothing is left"
else
  failure "a claim is prepared and unprepared, and nothing is left"
fi
cat "$work/sandbox"

# A card is published whole, in MIG mode its instances instead; a card's device is named by its UUID, in lower case.
printf 'nodeName: node\ndrivers: [{name: gpu.nvidia.com, backend: %s, config: %s}]\n' "$backend" "$(cat "$work/config.json")" \
  > "$work/driver.yaml"
devices=$("$build/sdk/programs/dra-driver/dra-driver" --config "$work/driver.yaml" --check 2>&1 |
  sed -n 's/.*: nvidia [^,]*, \([0-9]*\) devices.*/\1/p' || true)   # it also misses a kubelet here
expected=0
while IFS=, read -r uuid mig; do
  uuid=$(tr -d ' ' <<< "$uuid")
  case "$mig" in
    *Enabled*) expected=$((expected + $(nvidia-smi -L -i "$uuid" | grep -c 'MIG ' || true))) ;;
    *)
      expected=$((expected + 1))
      # The sandbox names 16 devices of a slice at most.
      grep -q ' and [0-9]* more' "$work/sandbox" ||
        check "card $uuid is published whole" grep -q "${uuid,,}\( \|$\)" "$work/sandbox" ;;
  esac
done < <(nvidia-smi --query-gpu=uuid,mig.mode.current --format=csv,noheader)
check "as many devices (${devices:-unknown}) as nvidia-smi has cards and MIG instances ($expected)" [ "$devices" = "$expected" ]

version=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)
check "libraries are those of the running driver $version" grep -q "libcuda.so.$version" "$work/sandbox"
# Device nodes are named as the container sees them; those of MIG capabilities need not be there on the host.
dev_root=
for argument in "$@"; do
  case $argument in
    devRoot=*) dev_root=${argument#*=} && break ;;
    driverRoot=*) [ ! -d "${argument#*=}/dev" ] || dev_root=${argument#*=} ;;
  esac
done
paths=0
while read -r path; do
  paths=$((paths + 1))
  [ -e "$path" ] || failure "the CDI file names $path, which does not exist"
done < <(sed -n "s/^ *mount  *\([^ ]*\) -> .*/\1/p; s|^ *device  *\(/[^ ]*\) .*|${dev_root%/}\1|p" "$work/sandbox" | grep -v /nvidia-caps/)
check "the CDI file names paths at all ($paths)" [ "$paths" -gt 0 ]

[ $failed = 0 ] && echo "all passed" || echo "something failed" >&2
exit $failed
