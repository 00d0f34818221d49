#!/usr/bin/env bash
# Builds the programs of a cluster that are not in the cache yet, and prints their folders, one a line: Kubernetes'
# (kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl), then the runtime's (etcd, containerd, its
# shim, ctr, runc).
#   test/cluster/lib/programs.sh <minor>
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/cache.sh"
modules=$(dirname "$here")
minor=$1

[ -d "$modules/kubernetes/$minor" ] || {
  say "no Kubernetes $minor here; there are: $(cd "$modules/kubernetes" && echo *)"
  exit 2
}

version_of() { # MODULE FOLDER: what its go.mod requires
  awk -v module="$1" '$1 == "require" { $1 = ""; $0 = $0 } $1 == module && $2 ~ /^v/ { print $2; exit }' "$modules/$2/go.mod"
}

# One build at a time: two would only slow each other down, and may want the same programs.
lock_cache() {
  mkdir -p "$cache"
  exec 9> "$cache/lock"
  flock -n 9 || { say "waiting for another build into $cache ..."; flock 9; }
}

# Builds `package`s of one module folder into a folder of the cache, which appears whole or not at all.
build() { # TARGET FOLDER LDFLAGS TAGS NAME=PACKAGE...
  local target=$1 folder=$2 ldflags=$3 tags=$4 log work go name package number=0
  shift 4
  [ ! -d "$target" ] || return 0
  lock_cache
  [ ! -d "$target" ] || return 0
  log=$target.log
  go=$("$here/go.sh")
  work=$(mktemp -d "$cache/.build-XXXXXX")
  for name_and_package in "$@"; do
    name=${name_and_package%%=*}
    package=${name_and_package#*=}
    number=$((number + 1))
    say "building $name of ${target##*/} ($number of $#; minutes the first time) ..."
    (cd "$modules/$folder" && GOFLAGS=-mod=readonly \
      "$go" build -buildvcs=false -ldflags "$ldflags" -tags "$tags" -o "$work/$name" "$package") > "$log" 2>&1 || {
      tail -20 "$log" >&2
      say "$name of ${target##*/} does not build; the whole output is in $log"
      rm -rf "$work"
      exit 1
    }
  done
  mv -T "$work" "$target"
  chmod 755 "$target"
  rm -f "$log"
  say "built ${target##*/} after $SECONDS s"
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
