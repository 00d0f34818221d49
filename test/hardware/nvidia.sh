#!/usr/bin/env bash
# Tries the NVIDIA backend on a real GPU: builds, discovers, prepares and unprepares claims, and compares what it says
# with nvidia-smi. Needs root, NVIDIA's driver, python3, and Debian 12 to build; no cluster. It changes no setting of a
# card. Prints a line for each check; exit status 0 if all passed.
#   test/hardware/nvidia.sh [NAME=VALUE ...]
# NAME=VALUE: options of the backend, values as JSON or text, such as driverRoot=/run/nvidia/driver. If none is given, a
# driver root other than / is taken from where the loader finds libnvidia-ml.so.1: in containers that may be below
# /usr/local/nvidia.
# Environment: DRA_BUILD_DIR, a build tree to use, or what pack.sh made of one for a machine where nothing can be
# installed; without it build/hardware is built.
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

[ "$(id -u)" = 0 ] || { echo "run this as root: the driver's daemon makes device nodes" >&2; exit 2; }
PATH=$PATH:/usr/local/nvidia/bin:/opt/bin
command -v nvidia-smi > /dev/null || { echo "no nvidia-smi here: NVIDIA's driver is not installed" >&2; exit 2; }
nvidia-smi -L || { echo "nvidia-smi does not work on this machine" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${DRA_BUILD_DIR:-}
if [ -z "$build" ]; then
  sdk/cmake/install-packages.sh || { echo "cannot build here: see DRA_BUILD_DIR in this script" >&2; exit 2; }
  build=$PWD/build/hardware
  echo "building (some minutes the first time) ..."
  { cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDRA_BUILD_TESTS=ON -DDRA_BUILD_BENCH=OFF &&
      cmake --build "$build" --target dra-driver dra-sandbox nvidia dra-backend-conformance; } > "$work/log" 2>&1 ||
    { tail -40 "$work/log" >&2; exit 2; }
fi
build=$(realpath "$build")
own() { # COMMAND...: one of our programs; a packed build has its libraries beside it
  if [ -d "$build/lib" ]; then LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"; else "$@"; fi
}
# Of every card: what a run must not change.
settings() {
  nvidia-smi --query-gpu=uuid,persistence_mode,compute_mode,mig.mode.current,mig.mode.pending --format=csv 2>&1 || true
}
settings > "$work/settings"

# Also prints, for below, where the host's /dev and /proc lie.
python3 - "$work/config.json" "$@" > "$work/roots" <<'P'
import ctypes, json, os, re, sys
config = {}
for argument in sys.argv[2:]:
    name, value = argument.split("=", 1)
    try:
        config[name] = json.loads(value)
    except ValueError:
        config[name] = value
if not {"driverRoot", "nvmlLibrary"} & config.keys():
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        pass  # the backend looks in the usual places
    for line in open("/proc/self/maps"):
        found = re.search(r" ((?:/.+?)??)(?:/usr)?/lib(?:64|/[a-z0-9_]+-linux-gnu)/libnvidia-ml\.so[^/]*$",
                          line.strip())
        if found and found.group(1):
            config["driverRoot"] = found.group(1)
json.dump(config, open(sys.argv[1], "w"))
driver = config.get("driverRoot", "")
print(config.get("devRoot") or (driver if driver and os.path.isdir(driver + "/dev") else "/"))
print(config.get("kernelRoot", "/"))
P
{ read -r dev_root; read -r kernel_root; } < "$work/roots"
dev_root=${dev_root%/}
echo "the backend's configuration: $(cat "$work/config.json")"
backend=$build/backends/nvidia/dra-backend-nvidia.so

# Discovery, the API server's limits, and every device prepared and unprepared twice. Then the devices, a line each.
if own "$build/test/conformance/dra-backend-conformance" "$backend" --config "$work/config.json" \
  --driver gpu.nvidia.com --show > "$work/conformance" 2>&1; then
  passed "the conformance suite"
else
  failure "the conformance suite"
fi
cat "$work/conformance"

# Each whole card and each MIG instance that nvidia-smi knows is a device of the same numbers, and there is no other.
# Instances that are divided are not served.
nvidia-smi -L > "$work/list"
nvidia-smi --query-gpu=uuid,name,pci.bus_id,memory.total,compute_cap,driver_version,mig.mode.current \
  --format=csv,noheader > "$work/cards"
if python3 - "$work/conformance" "$work/list" "$work/cards" <<'P'
import json, re, sys
report, listed, cards = (open(name).read().splitlines() for name in sys.argv[1:])
devices = {}
for line in report:
    if line.startswith("{"):
        device = json.loads(line)
        attributes = {name: next(iter(value.values())) for name, value in device["attributes"].items()}
        devices[attributes["uuid"]] = (device["name"], attributes, device.get("capacity", {}))
instances, card = {}, None
for line in listed:
    found = re.search(r"UUID: ([^)]+)", line)
    if found and line.startswith("GPU "):
        card = found.group(1)
        instances[card] = []
    elif found and "MIG " in line and not re.search(r"MIG \d+c\.", line):
        instances[card].append(found.group(1))
expected, wrong = set(), []
for line in cards:
    uuid, name, bus, memory, capability, version, mig = (part.strip() for part in line.split(","))
    if mig == "Enabled":
        expected.update(instances[uuid])
        continue
    expected.add(uuid)
    if uuid not in devices:
        continue
    device, have, capacity = devices[uuid]
    # 00000000:65:00.0 -> 0000:65:00.0; 580.065.06 -> 580.65.6
    numbers = [str(int(part)) for part in version.split(".")]
    want = {"productName": name, "type": "gpu",
            "resource.kubernetes.io/pciBusID": re.sub("^0000(?=[0-9a-f]{4}:)", "", bus.lower()),
            "cudaComputeCapability": capability + ".0", "driverVersion": ".".join((numbers + ["0", "0"])[:3])}
    wrong += [f"{uuid}: {key} is {have.get(key)!r}, nvidia-smi says {value!r}" for key, value in want.items()
              if str(have.get(key)).split("+")[0] != value and "[" not in value]
    if device != uuid.lower():
        wrong.append(f"{uuid} is called {device}")
    if re.fullmatch(r"\d+ MiB", memory):
        number, unit = re.fullmatch(r"(\d+)([KMGT]i)?", capacity["memory"]["value"]).groups()
        mib = int(number) * 1024 ** ["", "Ki", "Mi", "Gi", "Ti"].index(unit or "") / 2 ** 20
        if abs(mib - int(memory.split()[0])) >= 1:
            wrong.append(f"{uuid}: memory is {capacity['memory']['value']}, nvidia-smi says {memory}")
wrong += [f"{uuid} is not found" for uuid in sorted(expected - devices.keys())]
wrong += [f"{devices[uuid][0]} ({uuid}) is not known to nvidia-smi" for uuid in sorted(devices.keys() - expected)]
names = ", ".join(sorted(name for name, _, _ in devices.values()))
print("\n".join(wrong or [f"{len(expected)} devices: {names}"]))
sys.exit(bool(wrong) or not expected)
P
then passed "the devices are those of nvidia-smi"; else failure "the devices are those of nvidia-smi"; fi

# Pods' claim through the whole daemon, in a node in a box. It has no configuration, so it fits a whole card and an instance.
if own "$build/sdk/programs/dra-sandbox/dra-sandbox" run --driver gpu.nvidia.com --patience 120 \
  --dra-driver "$build/sdk/programs/dra-driver/dra-driver" --backend "$backend" --backend-config "$work/config.json" \
  --apply examples/nvidia/device-class.yaml --apply examples/nvidia/shared-gpu-pods.yaml > "$work/sandbox" 2>&1; then
  passed "a claim is prepared and unprepared, and nothing is left"
else
  failure "a claim is prepared and unprepared, and nothing is left"
fi
cat "$work/sandbox"

version=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | sed -n 1p)
check "libraries are those of the running driver $version" grep -q "libnvidia-ml.so.$version ->" "$work/sandbox"
# A node that is not there has numbers in the CDI file, of a driver that the kernel knows: the runtime makes it.
paths=0
while read -r kind path _ numbers _; do
  paths=$((paths + 1))
  if [ "$kind" = device ]; then path=$dev_root$path; else numbers=none; fi
  [ -e "$path" ] || grep -qs "^ *${numbers%%:*} " "${kernel_root%/}/proc/devices" ||
    failure "the CDI file names $path, which does not exist"
done < <(grep -E '^ *(mount|device)  *[^ ]' "$work/sandbox")
check "the CDI file names paths at all ($paths)" [ "$paths" -gt 0 ]
# CUDA does not start without it.
[ ! -e "$dev_root/dev/nvidia-uvm" ] ||
  check "containers get /dev/nvidia-uvm" grep -q 'device  *[^ ]*/dev/nvidia-uvm ' "$work/sandbox"
settings > "$work/settings-after"
check "the cards' settings are as before" cmp -s "$work/settings" "$work/settings-after"

[ $failed = 0 ] && echo "all passed" || echo "something failed" >&2
exit $failed
