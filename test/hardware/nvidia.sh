#!/usr/bin/env bash
# Tries the NVIDIA backend on a real GPU: builds, discovers, prepares and unprepares claims, and compares what it says with
# nvidia-smi. Needs Debian 12, root, NVIDIA's driver; no cluster. It changes no setting of the card. Prints a line for each
# check; exit status 0 if all passed.
#   test/hardware/nvidia.sh [NAME=VALUE ...]       options of the backend, such as driverRoot=/run/nvidia/driver
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

sdk/cmake/install-packages.sh
build=build/hardware
log=$(mktemp)
work=$(mktemp -d)
trap 'rm -rf "$log" "$work"' EXIT
echo "building (some minutes the first time) ..."
{ cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDRA_BUILD_TESTS=ON -DDRA_BUILD_BENCH=OFF &&
    cmake --build "$build" --target dra-driver dra-sandbox nvidia dra-backend-conformance; } > "$log" 2>&1 ||
  { tail -40 "$log" >&2; exit 1; }

python3 - "$@" > "$work/config.json" <<'P'
import json, sys
print(json.dumps(dict(argument.split("=", 1) for argument in sys.argv[1:])))
P
backend=$PWD/$build/backends/nvidia/dra-backend-nvidia.so

# Discovery, the API server's limits, and every device prepared and unprepared twice.
if "$build/test/conformance/dra-backend-conformance" "$backend" --config "$work/config.json" --driver gpu.nvidia.com \
  > "$work/conformance" 2>&1; then
  passed "the conformance suite"
else
  failure "the conformance suite"
fi
cat "$work/conformance"

# A pod's claim through the whole daemon, in a node in a box.
if "$build/sdk/programs/dra-sandbox/dra-sandbox" run --driver gpu.nvidia.com \
  --dra-driver "$build/sdk/programs/dra-driver/dra-driver" --backend "$backend" --backend-config "$work/config.json" \
  --apply examples/nvidia/device-class.yaml --apply examples/nvidia/one-gpu-pod.yaml > "$work/sandbox" 2>&1; then
  passed "a claim is prepared and unprepared, and nothing is left"
else
  failure "a claim is prepared and unprepared, and nothing is left"
fi
cat "$work/sandbox"

# A card's device is named by its UUID, in lower case; in MIG mode the instances are there instead of the card.
published=$(grep -o 'gpu-[0-9a-f]\{8\}-[-0-9a-z]*' "$work/sandbox" | sort -u)
while IFS=, read -r uuid mig; do
  name=$(echo "$uuid" | tr 'A-Z' 'a-z' | tr -d ' ')
  case "$mig" in
    *Enabled*)
      instances=$(nvidia-smi -L -i "$(echo "$uuid" | tr -d ' ')" | grep -c 'MIG ' || true)
      found=$(grep -c "^$name-mig-" <<< "$published" || true)
      check "card $name in MIG mode shows its $instances instances (found $found)" [ "$found" = "$instances" ] ;;
    *) check "card $name is published whole" grep -qx "$name" <<< "$published" ;;
  esac
done < <(nvidia-smi --query-gpu=uuid,mig.mode.current --format=csv,noheader)

version=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)
check "libraries are those of the running driver $version" grep -q "libcuda.so.$version" "$work/sandbox"
paths=0
while read -r path; do
  paths=$((paths + 1))
  [ -e "$path" ] || failure "the CDI file names $path, which does not exist"
done < <(sed -n 's/^ *mount  *\([^ ]*\) -> .*/\1/p; s/^ *device  *\(\/[^ ]*\) .*/\1/p' "$work/sandbox" | grep -v '/files/\|/shared/')
check "the CDI file names paths at all ($paths)" [ "$paths" -gt 0 ]

[ $failed = 0 ] && echo "all passed" || echo "something failed" >&2
exit $failed
