#!/usr/bin/env bash
# Prints the path of helm, which is built from its Go module if it isn't in the cache yet.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/cache.sh"
module=$here/../tools

version_of() { # MODULE
  awk -v module="$1" '$1 == module && $2 ~ /^v/ { print $2; exit }' "$module/go.mod"
}

helm=$(version_of helm.sh/helm/v3)
client=$(version_of k8s.io/client-go)
minor=${client#v0.}
minor=${minor%%.*}
target=$cache/helm-${helm#v}
if [ ! -x "$target/helm" ]; then
  mkdir -p "$cache"
  exec 9> "$cache/lock"
  flock -n 9 || { say "waiting for another build of $cache ..."; flock 9; }
fi
if [ ! -x "$target/helm" ]; then
  go=$("$here/go.sh")
  work=$(mktemp -d "$cache/.build-XXXXXX")
  trap 'rm -rf "$work"' EXIT
  say "building helm ${helm#v} (minutes the first time) ..."
  # As its own release does: its version, and the Kubernetes version that it assumes where it has no cluster.
  capabilities=helm.sh/helm/v3/pkg/chartutil
  (cd "$module" && GOFLAGS=-mod=readonly CGO_ENABLED=0 "$go" build -buildvcs=false -o "$work/helm" -ldflags "-s -w
    -X helm.sh/helm/v3/internal/version.version=$helm
    -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=$minor
    -X $capabilities.k8sVersionMajor=1 -X $capabilities.k8sVersionMinor=$minor" helm.sh/helm/v3/cmd/helm) > "$target.log" 2>&1 || {
    tail -20 "$target.log" >&2
    say "helm ${helm#v} does not build; the whole output is in $target.log"
    exit 1
  }
  rm -rf "$target"
  mv -T "$work" "$target"
  chmod 755 "$target"
  rm -f "$target.log"
  say "built helm ${helm#v} after $SECONDS s"
fi
echo "$target/helm"
