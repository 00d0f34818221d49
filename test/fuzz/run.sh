#!/usr/bin/env bash
# Builds the fuzz targets (clang, libFuzzer, ASan, UBSan) and runs each for some seconds from its corpus.
#   test/fuzz/run.sh [--seconds N] [--seed N] [--target NAME]... [--keep]
# --seed 0 takes another way each time; the default goes the same way, so that CI does not refuse a change by chance.
# --keep adds to corpus/ the inputs that reach code which no kept input reaches, smallest first.
# A finding ends with status 1; its input lies in build/fuzz/artifacts and, once understood, belongs into corpus/.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=10
seed=1
keep=0
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=$2; shift 2 ;;
    --seed) seed=$2; shift 2 ;;
    --target) targets+=("$2"); shift 2 ;;
    --keep) keep=1; shift ;;
    *) sed -n '2,6p' "$0" >&2; exit 2 ;;
  esac
done
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(ls test/fuzz/corpus)

sdk/cmake/install-packages.sh clang-14 libclang-rt-14-dev
log=${TMPDIR:-/tmp}/dra-configure-fuzz.log
cmake --preset fuzz > "$log" 2>&1 || { cat "$log"; exit 1; }
cmake --build --preset fuzz -j "${DRA_JOBS:-$(nproc)}"

export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
work=build/fuzz/work
mkdir -p build/fuzz/artifacts
# One run: its numbers on a line, or its log.
fuzz() {
  local target=$1 found=$work/$1 output=$work/$1.log
  rm -rf "$found"
  mkdir -p "$found"
  if ! "build/fuzz/test/fuzz/${target}_fuzz" "$found" "test/fuzz/corpus/$target" -max_total_time="$seconds" -seed="$seed" \
      -timeout=10 -rss_limit_mb=2048 -max_len=8192 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/artifacts/$target-" > "$output" 2>&1; then
    echo "FAIL $target"
    tail -n 40 "$output"
    return 1
  fi
  awk -v target="$target" -v seeds="$(ls "test/fuzz/corpus/$target" | wc -l)" '
    /number_of_executed_units/ {runs = $2}
    / cov: / {for (i = 1; i < NF; i++) if ($i == "cov:") cov = $(i + 1)}
    END {printf "ok   %-12s %10d runs %7d edges %5d kept inputs\n", target, runs, cov, seeds}' "$output"
}
export -f fuzz
export seconds seed work
status=0
printf '%s\n' "${targets[@]}" | xargs -P "${DRA_JOBS:-$(nproc)}" -I{} bash -c 'fuzz {}' || status=1

if [ "$keep" = 1 ]; then
  for target in "${targets[@]}"; do
    # Names of found inputs are hashes; what has a name of its own was written by hand and stays.
    "build/fuzz/test/fuzz/${target}_fuzz" -set_cover_merge=1 -use_counters=0 "test/fuzz/corpus/$target" "$work/$target" > "$work/$target.merge.log" 2>&1
  done
fi
exit $status
