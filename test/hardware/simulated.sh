#!/usr/bin/env bash
# Runs nvidia.sh on simulated cards, whole and in MIG mode, so that it can be trusted on real ones: it passes, and it
# fails where nvidia-smi says something else than the backend. Needs root, as nvidia.sh does; exit status 77 without.
# Environment: DRA_BUILD_DIR, a build tree with the programs that nvidia.sh builds, and the simulator.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export DRA_BUILD_DIR=${DRA_BUILD_DIR:?a build tree}
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nodes=
mknod "$work/probe" c 1 3 2> /dev/null || nodes=--no-nodes   # a container may not let root make them
cat > "$work/model.yaml" <<'END'
driver: {version: 580.65.06, cuda: 13.0}
gpus:
- {model: H200}
- {model: H200, migMode: true, mig: [{profile: 1g.18gb, start: 0}, {profile: 3g.71gb, start: 4}]}
- {model: T4}
END
"$DRA_BUILD_DIR/backends/nvidia/simulator/tool/dra-nvidia-simulator" create "$work/model.yaml" "$work/host" $nodes

# nvidia-smi of the simulated host, with what the sed program $1 does to its words.
nvidia_smi() {
  mkdir -p "$work/bin"
  libraries=$(dirname "$(find "$work/host" -name libnvidia-ml.so.1)")
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s %s "$@" | sed "%s"\n' "$libraries" "$work/host/usr/bin/nvidia-smi" "$1" \
    > "$work/bin/nvidia-smi"
  chmod +x "$work/bin/nvidia-smi"
}
run() {
  PATH=$work/bin:$PATH "$here/nvidia.sh" "driverRoot=$work/host" "kernelRoot=$work/host" pollSeconds=1 > "$work/log" 2>&1
}

nvidia_smi ""
run || { cat "$work/log"; exit 1; }
for lie in "s/143771 MiB/143000 MiB/" "s/Tesla T4/Tesla T8/" "s/MIG 3g/MIG 1c.3g/" "s/ 580.65.06/ 580.65.07/"; do
  nvidia_smi "$lie"
  if run || ! grep -qE "^(FAIL the devices|FAIL libraries)" "$work/log"; then
    cat "$work/log"
    echo "nvidia.sh passed although nvidia-smi says something else: $lie" >&2
    exit 1
  fi
done
echo "passed, and failed where it should"
