#!/usr/bin/env bash
# Prints the path of helm, which is built from its Go module if it is not in the cache yet.
set -euo pipefail
. "$(dirname "$0")/build.sh"

helm=$(version_of helm.sh/helm/v3 tools)
client=$(version_of k8s.io/client-go tools)
minor=${client#v0.}
minor=${minor%%.*}
# As its own release does: its version, and the Kubernetes version that it assumes where it has no cluster.
kubernetes=helm.sh/helm/v3/pkg
build "$cache/helm-$helm" tools "-s -w -X helm.sh/helm/v3/internal/version.version=$helm \
  -X $kubernetes/lint/rules.k8sVersionMajor=1 -X $kubernetes/lint/rules.k8sVersionMinor=$minor \
  -X $kubernetes/chartutil.k8sVersionMajor=1 -X $kubernetes/chartutil.k8sVersionMinor=$minor" "" helm=helm.sh/helm/v3/cmd/helm
echo "$cache/helm-$helm/helm"
