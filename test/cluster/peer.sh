#!/usr/bin/env bash
# Runs the suite of the public example driver, unmodified, against our chart and image on a cluster of its own: whoever uses
# that driver's chart can take ours in its place.
#   test/cluster/peer.sh CHECKOUT [--kubernetes MINOR] [--gates default|all] [-- GINKGO-FLAGS]
# CHECKOUT is a clone of kubernetes-sigs/dra-example-driver. Its specs of the webhook and of binding conditions are left
# out: the webhook needs cert-manager, and what answers binding conditions is cluster-side.
# Environment: DRA_BUILD_DIR as in suite/run.sh; PEER_CHART and PEER_IMAGE_ARCHIVE run it with another chart and image;
# DRA_CLUSTER, a cluster that is up, to be used in place of one of its own.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/lib/cache.sh"

usage() { sed -n '2,8p' "$0" >&2; exit 2; }
[ $# -gt 0 ] && [ -f "$1/test/e2e/e2e_test.go" ] || usage
checkout=$(realpath "$1")
shift
options=()
while [ $# -gt 0 ]; do
  case $1 in
    --kubernetes | --gates) options+=("$1" "$2") && shift 2 ;;
    --) shift && break ;;
    *) usage ;;
  esac
done
archive=${PEER_IMAGE_ARCHIVE:-}
[ -n "$archive" ] || : "${DRA_BUILD_DIR:?a build tree with dra-driver, dra-sandbox and the backends}"
[ -n "${DRA_CLUSTER:-}" ] || exec "$here/run.sh" with "${options[@]}" -- "$0" "$checkout" -- "$@"

work=$(mktemp -d)
say "building the suite of $checkout ..."
(cd "$checkout" && "$("$here/lib/go.sh")" test -c -tags e2e -o "$work/e2e.test" ./test/e2e)
if [ -z "$archive" ]; then
  archive=$work/image.tar
  "$here/lib/chart_image.sh" "$DRA_BUILD_DIR" "$archive"
fi
"$here/run.sh" load "$archive" > /dev/null
# As its own helpers do: they run from its folder.
cd "$checkout/test/e2e"
"$here/run.sh" exec env HELM_CHART_PATH="${PEER_CHART:-$root/templates/chart}" HOME="$work" "$work/e2e.test" \
  -ginkgo.skip 'invalid .* ResourceClaim|binding.?[cC]onditions' -ginkgo.v "$@"
