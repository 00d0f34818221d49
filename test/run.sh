#!/usr/bin/env bash
# Builds the SDK and runs its tests. On a fresh Debian 12 machine it installs what it needs (see sdk/cmake/).
#   test/run.sh [--preset dev|asan|tsan] [--threaded] [-- <ctest arguments>]
# --threaded builds and runs only the layers that have threads.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=dev
threaded=0
while [ $# -gt 0 ]; do
  case $1 in
    --preset) preset=$2; shift 2 ;;
    --threaded) threaded=1; shift ;;
    --) shift; break ;;
    *) sed -n '2,4p' "$0" >&2; exit 2 ;;
  esac
done

sdk/cmake/install-packages.sh
jobs=${DRA_JOBS:-$(nproc)}
# ccache keeps compiled files between runs on a warm machine; on a cold one it only watches.
cmake --preset "$preset" > "${TMPDIR:-/tmp}/dra-configure-$preset.log" 2>&1 ||
  { cat "${TMPDIR:-/tmp}/dra-configure-$preset.log"; exit 1; }

if [ "$threaded" = 1 ]; then
  cmake --build --preset "$preset" -j "$jobs" --target threaded_tests
  selection=(-L threaded)
else
  cmake --build --preset "$preset" -j "$jobs"
  selection=()
fi
ctest --preset "$preset" -j "$jobs" --no-tests=error "${selection[@]}" "$@"
