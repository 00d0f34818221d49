#!/usr/bin/env bash
# Runs the cluster tests on a cluster that is up: builds the driver, its image and the tests, loads the image.
#   test/cluster/suite/run.sh --name CLUSTER [-- GO-TEST-FLAGS]
# Environment: DRA_BUILD_DIR, a build tree with dra-driver, dra-sandbox and the fake backend; without it build/release is built.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
. "$here/../lib/cache.sh"

name=
while [ $# -gt 0 ]; do
  case $1 in
    --name) name=$2 && shift 2 ;;
    --) shift && break ;;
    *) sed -n '2,4p' "$0" >&2 && exit 2 ;;
  esac
done
[ -n "$name" ] || { sed -n '2,4p' "$0" >&2 && exit 2; }

build=${DRA_BUILD_DIR:-}
if [ -z "$build" ]; then
  build=$root/build/release
  say "building the driver (some minutes the first time) ..."
  log=$(mktemp)
  (cd "$root" && cmake --preset release && cmake --build --preset release -j "${DRA_JOBS:-$(nproc)}" \
    --target dra-driver dra-sandbox fake) > "$log" 2>&1 || { tail -40 "$log" >&2 && exit 1; }
  rm -f "$log"
fi
build=$(realpath "$build")

say "making and loading the image ..."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/../lib/chart_image.sh" "$build" "$work/image.tar"
"$here/../run.sh" load --name "$name" "$work/image.tar" > "$work/log" 2>&1 || { cat "$work/log" >&2 && exit 1; }

say "building the tests (a minute or two the first time) ..."
(
  cd "$here"
  "$("$here/../lib/go.sh")" test -count=1 -v -timeout 60m -parallel 6 "$@" . -args -cluster "$name" -run-script "$here/../run.sh" \
    -driver "$build/sdk/programs/dra-driver/dra-driver" -backend "$build/backends/fake/dra-backend-fake.so"
)

# Whoever names tests wants those alone.
case " $* " in *" -run"*) exit 0 ;; esac
say "installing the chart ..."
helm=$("$here/../lib/helm.sh")
"$here/../run.sh" exec --name "$name" env HELM="$helm" python3 "$root/test/chart/install.py" --verbose
