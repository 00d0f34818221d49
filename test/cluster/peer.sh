#!/usr/bin/env bash
# Runs the suite of the public example driver, unmodified, against our chart and image on a cluster of its own: whoever uses
# that driver's chart can take ours in its place.
#   test/cluster/peer.sh CHECKOUT [--kubernetes MINOR] [--gates default|all] [-- GINKGO-FLAGS]
# CHECKOUT is a clone of kubernetes-sigs/dra-example-driver. Its specs of the webhook and of binding conditions are left
# out: the webhook needs cert-manager, and what answers binding conditions is cluster-side.
# Environment: DRA_BUILD_DIR as in suite/run.sh; PEER_CHART and PEER_IMAGE_ARCHIVE run it with another chart and image.
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

name=peer-$$
work=$(mktemp -d)
trap '"$here/run.sh" down --name "$name"; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say "building the suite of $checkout ..."
(cd "$checkout" && "$("$here/lib/go.sh")" test -c -tags e2e -o "$work/e2e.test" ./test/e2e)

chart=${PEER_CHART:-$root/templates/chart}
archive=${PEER_IMAGE_ARCHIVE:-$work/image.tar}
[ -n "${PEER_IMAGE_ARCHIVE:-}" ] ||
  "$here/lib/chart_image.sh" "${DRA_BUILD_DIR:?a build tree with dra-driver, dra-sandbox and the backends}" "$archive"
"$here/run.sh" up --name "$name" "${options[@]}"
"$here/run.sh" load --name "$name" "$archive" > /dev/null
# As its own helpers do: they run from its folder.
cd "$checkout/test/e2e"
"$here/run.sh" exec --name "$name" env HELM_CHART_PATH="$chart" HOME="$work" "$work/e2e.test" \
  -ginkgo.skip 'invalid .* ResourceClaim|binding.?[cC]onditions' -ginkgo.v "$@"
