#!/bin/sh
# Builds what the bench needs, optimised, and runs it. Options go to dra-bench: --quick, --json FILE, --only GROUP,
# --kubeconfig FILE, ... (dra-bench --help). BUILD_DIR is where to build; README.md explains the figures.
set -eu
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build_dir=${BUILD_DIR:-$source_dir/build/release}
cmake -S "$source_dir" --preset release -B "$build_dir" -DDRA_BUILD_BENCH=ON >/dev/null
cmake --build "$build_dir" --target dra-driver fake dra-bench
exec "$build_dir/test/bench/dra-bench" --driver-program "$build_dir/sdk/programs/dra-driver/dra-driver" \
  --backend "$build_dir/backends/fake/dra-backend-fake.so" "$@"
