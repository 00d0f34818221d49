#!/usr/bin/env bash
# Compares what this SDK says with what upstream's own Go packages say, on generated slices and CDI files: README.md.
#   test/differential/run.sh [--answers PROGRAM] [-- GO-TEST-FLAGS]
# --answers: a built dra-differential; without it one is built in BUILD_DIR (default build/dev).
# GO-TEST-FLAGS: those of `go test`, and -args with ours: -seed N, -cases N, -only N, -show N.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
answers=
while [ $# -gt 0 ]; do
  case $1 in
    --answers) [ $# -gt 1 ] || { echo "--answers wants a program" >&2; exit 2; }; answers=$2; shift 2 ;;
    --) shift; break ;;
    *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
  esac
done
if [ -z "$answers" ]; then
  build=${BUILD_DIR:-$source/build/dev}
  cmake -S "$source" --preset dev -B "$build" > /dev/null
  cmake --build "$build" --target dra-differential
  answers=$build/test/differential/dra-differential
fi
[ -x "$answers" ] || { echo "--answers $answers: no program there" >&2; exit 2; }
answers=$(realpath "$answers")
go=$("$here/../cluster/lib/go.sh")
cd "$here"
args=()
while [ $# -gt 0 ] && [ "$1" != -args ]; do args+=("$1"); shift; done
[ $# = 0 ] || shift
# Never from the cache: what is compared with is a program that Go does not see.
GOFLAGS=-mod=readonly exec "$go" test -count=1 -timeout 10m ./compare "${args[@]}" -args -answers "$answers" "$@"
