#!/usr/bin/env bash
# Measures dra-driver on a real API server, and beside it the public example driver, if a checkout of it is given: the same
# client, the same cluster, in turn. Prints a table.
#   test/cluster/bench.sh [--peer CHECKOUT] [--kubernetes MINOR] [-- BENCH-FLAGS]
# CHECKOUT is a clone of kubernetes-sigs/dra-example-driver. A figure is worth something on a machine that does nothing else.
# Each driver has a CDI directory of its own, which containerd does not watch: it reads all files of a watched one anew for
# each that changes (as the peer does with its own), and on two cores that is in the figures of whoever is asked meanwhile.
# Environment: DRA_BUILD_DIR, an optimised build tree with dra-driver and the fake backend; DRA_CLUSTER, a cluster that is
# up, to be used in place of one of its own.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/cache.sh"

usage() { sed -n '2,9p' "$0" >&2; exit 2; }
peer= options=()
while [ $# -gt 0 ]; do
  case $1 in
    --peer) peer=$(realpath "$2") && shift 2 ;;
    --kubernetes) options+=("$1" "$2") && shift 2 ;;
    --) shift && break ;;
    *) usage ;;
  esac
done
build=$(realpath "${DRA_BUILD_DIR:?an optimised build tree with dra-driver and the fake backend}")
[ -n "${DRA_CLUSTER:-}" ] || exec "$here/run.sh" with "${options[@]}" -- "$0" ${peer:+--peer "$peer"} -- "$@"

go=$("$here/lib/go.sh")
work=$(mktemp -d)
(cd "$here/suite" && "$go" build -o "$work/bench" ./bench)
inside() { "$here/run.sh" exec "$@"; }

# Starts a program on the node, and tells its pid there once its devices are published.
start() { # DRIVER COMMAND...
  local driver=$1
  shift
  inside setsid sh -c 'echo $$ > "$0"; exec "$@"' "$work/$driver.pid" "$@" > "$work/$driver.log" 2>&1 < /dev/null &
  for _ in $(seq 300); do
    [ "$(inside kubectl get resourceslices --field-selector "spec.driver=$driver" -o name)" = "" ] || return 0
    sleep 0.2
  done
  tail -20 "$work/$driver.log" >&2
  say "driver $driver published nothing within a minute"
  exit 1
}

kubeconfig=$(inside printenv KUBECONFIG)
inside mkdir -p /run/cdi-ours /run/cdi-peer
cat > "$work/config.yaml" <<J
nodeName: node1
kubeconfig: $kubeconfig
cdiDirectory: /run/cdi-ours
drivers: [{name: ours.dra.test, backend: $build/backends/fake/dra-backend-fake.so, config: {numDevices: 100, shared: true, nodeName: node1}}]
J
start ours.dra.test "$build/sdk/programs/dra-driver/dra-driver" --config "$work/config.yaml"
contenders=("ours.dra.test=$(cat "$work/ours.dra.test.pid")")
if [ -n "$peer" ]; then
  (cd "$peer" && "$go" build -o "$work/peer" ./cmd/dra-example-kubeletplugin)
  inside mkdir -p /var/lib/kubelet/plugins/peer.dra.test
  # Its client is held to 5 requests a second unless told.
  start peer.dra.test "$work/peer" --node-name node1 --driver-name peer.dra.test --num-devices 100 --cdi-root /run/cdi-peer \
    --kubeconfig "$kubeconfig" --kube-api-qps 1000 --kube-api-burst 1000 --healthcheck-port -1
  contenders+=("peer.dra.test=$(cat "$work/peer.dra.test.pid")")
fi
"$work/bench" -cluster "$DRA_CLUSTER" -run-script "$here/run.sh" "$@" "${contenders[@]}"
