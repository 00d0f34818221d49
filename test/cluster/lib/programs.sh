#!/usr/bin/env bash
# Builds the programs of a cluster that are not in the cache yet, and prints their folders, one a line: Kubernetes'
# (kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl), then the runtime's (etcd, containerd, its
# shim, ctr, runc).
#   test/cluster/lib/programs.sh <minor>
set -euo pipefail
. "$(dirname "$0")/build.sh"
minor=$1

[ -d "$modules/kubernetes/$minor" ] || {
  say "no Kubernetes $minor here; there are: $(cd "$modules/kubernetes" && echo *)"
  exit 2
}

kubernetes=$(version_of k8s.io/kubernetes "kubernetes/$minor")
stamp=k8s.io/component-base/version
number=${minor#1.}
programs=()
for program in kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do
  programs+=("$program=k8s.io/kubernetes/cmd/$program")
done
build "$cache/kubernetes-$kubernetes" "kubernetes/$minor" \
  "-s -w -X $stamp.gitVersion=$kubernetes -X $stamp.gitMajor=1 -X $stamp.gitMinor=$number" "" "${programs[@]}"

containerd=$(version_of github.com/containerd/containerd/v2 runtime)
etcd=$(version_of go.etcd.io/etcd/server/v3 runtime)
runc=$(version_of github.com/opencontainers/runc runc)
containerd_commands=github.com/containerd/containerd/v2/cmd
build "$cache/etcd-$etcd" runtime "-s -w" "" etcd=go.etcd.io/etcd/server/v3
build "$cache/containerd-$containerd" runtime "-s -w" "" "containerd=$containerd_commands/containerd" \
  "containerd-shim-runc-v2=$containerd_commands/containerd-shim-runc-v2" "ctr=$containerd_commands/ctr"
build "$cache/runc-$runc" runc "-s -w" seccomp runc=github.com/opencontainers/runc

for folder in "kubernetes-$kubernetes" "etcd-$etcd" "containerd-$containerd" "runc-$runc"; do echo "$cache/$folder"; done
