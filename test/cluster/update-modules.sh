#!/usr/bin/env bash
# Writes test/cluster/kubernetes/<minor>/go.mod and go.sum for one patch release of Kubernetes. For maintainers: run it
# when a newer patch is served, look at the change, commit it.
#   test/cluster/update-modules.sh 1.37.2
# The module zip of k8s.io/kubernetes has no staging modules: its own go.mod replaces them by folders, ours by the
# published modules of the same release (1.37.2 is k8s.io/api v0.37.2 and so on).
set -euo pipefail
cd "$(dirname "$0")"
[ $# = 1 ] || { sed -n '2,6p' "$0" >&2; exit 2; }
version=$1
minor=${version%.*}
go=$(lib/go.sh)

module=kubernetes/$minor
rm -rf "$module"
mkdir -p "$module"
cd "$module"
printf 'module dra-sdk.invalid/cluster/kubernetes\n\ngo 1.26.0\n' > go.mod
source=$("$go" mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
{
  echo "// The programs of Kubernetes v$version. Written by test/cluster/update-modules.sh."
  echo "module dra-sdk.invalid/cluster/kubernetes"
  echo
  echo "go 1.26.0"
  echo
  echo "require k8s.io/kubernetes v$version"
  echo
  echo "replace ("
  grep -oE '^\s*k8s.io/[a-z0-9-]+ => ' "$source/go.mod" | awk '{print $1}' | sort -u |
    while read -r staging; do printf '\t%s => %s v0.%s\n' "$staging" "$staging" "${version#1.}"; done
  echo ")"
} > go.mod
for program in kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do
  "$go" get -tool "k8s.io/kubernetes/cmd/$program@v$version"
done
