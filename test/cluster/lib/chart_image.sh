#!/usr/bin/env bash
# Makes the image of the driver under the name that the chart gives it, as an archive that containerd imports.
#   chart_image.sh BUILD-DIR OUTPUT
set -euo pipefail
templates=$(cd "$(dirname "$0")/../../../templates" && pwd)
name=$(python3 - "$templates/chart" <<'PY'
import sys
import yaml

folder = sys.argv[1]
with open(folder + "/values.yaml") as values, open(folder + "/Chart.yaml") as chart:
    print(yaml.safe_load(values)["image"]["repository"] + ":" + yaml.safe_load(chart)["appVersion"])
PY
)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$templates/image/build.sh" --build-dir "$1" --output "$2" --name "$name" > "$log" 2>&1 || { cat "$log" >&2 && exit 1; }
