#!/usr/bin/env bash
# Nothing is left of `run.sh with` however it ends: no process, no file, no cgroup, and the command ends too.
#   test/cluster/with_test.sh [run.sh's options]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export DRA_CLUSTERS
DRA_CLUSTERS=$(mktemp -d)
trap 'rm -rf "$DRA_CLUSTERS"' EXIT
options=(--name "with-test-$$" "$@")

# Each process of the cluster and of the command has DRA_CLUSTERS in its environment.
processes() { # but for this script's own children
  grep -lsz "^DRA_CLUSTERS=$DRA_CLUSTERS\$" /proc/[0-9]*/environ | cut -d/ -f3 | grep -vxe "$$" -e "$BASHPID" |
    while read -r pid; do [ ! -f "/proc/$pid/exe" ] || echo "$pid $(tr '\0' ' ' < "/proc/$pid/cmdline" | cut -c1-100)"; done
}

leftovers() {
  find "$DRA_CLUSTERS" -mindepth 1
  find /sys/fs/cgroup -name "dra-cluster-with-test-$$*" -type d
  processes
}

await() { # SECONDS WHAT COMMAND...
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    [ "$SECONDS" -lt "$deadline" ] || { echo "with_test.sh: $what: did not come about"; leftovers; exit 1; }
    sleep 0.2
  done
}

begun() { [ -f "$DRA_CLUSTERS/with-test-$$/tmp/begun" ]; }
nothing_left() { [ -z "$(leftovers)" ]; }

echo "the command's status is the script's, and it reaches the cluster"
status=0
# shellcheck disable=SC2016
"$here/run.sh" with "${options[@]}" -- bash -euc '
  "$0" exec kubectl get node node1 > /dev/null
  sleep 1000 &
  exit 42' "$here/run.sh" || status=$?
[ "$status" = 42 ] || { echo "with_test.sh: the status is $status, want 42"; exit 1; }
nothing_left || { echo "with_test.sh: there is left:"; leftovers; exit 1; }

set -m # the script gets a process group, as from a terminal
for signal in INT TERM KILL; do
  for whom in "the script" "its process group"; do
    echo "SIG$signal to $whom"
    # shellcheck disable=SC2016
    "$here/run.sh" with "${options[@]}" -- bash -c 'touch "$TMPDIR/begun"; sleep 1000' &
    script=$!
    await 120 "the command runs" begun
    if [ "$whom" = "the script" ]; then kill "-$signal" "$script"; else kill "-$signal" -- "-$script"; fi
    status=0
    wait "$script" || status=$?
    [ "$status" -gt 128 ] || { echo "with_test.sh: the status is $status, want that of a signal"; exit 1; }
    # Whoever can, waits until all is gone.
    [ "$signal" = KILL ] || nothing_left || { echo "with_test.sh: there is left:"; leftovers; exit 1; }
    await 30 "nothing is left" nothing_left
  done
done
