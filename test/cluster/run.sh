#!/usr/bin/env bash
# A one-node Kubernetes on this machine: real kube-apiserver, scheduler, controller-manager, kubelet, etcd, containerd
# with CDI and NRI, runc; in namespaces of its own, so that several run side by side and nothing is left of one. Needs root.
#   test/cluster/run.sh up [OPTIONS]                  start it (builds what is not in the cache: minutes the first time)
#   test/cluster/run.sh exec [OPTIONS] COMMAND...     run a command inside: kubectl, ctr, your driver; $KUBECONFIG is set
#   test/cluster/run.sh load [OPTIONS] ARCHIVE...     import images
#   test/cluster/run.sh component [OPTIONS] start|stop|kill|restart NAME    one of its programs
#   test/cluster/run.sh reboot [OPTIONS]              all of it dies, and starts with what its disk keeps and a new boot id
#   test/cluster/run.sh down [OPTIONS]                end it, and remove what it wrote
#   test/cluster/run.sh list                          the clusters of this machine
#   test/cluster/run.sh with [OPTIONS] -- COMMAND...  start one, run COMMAND on this machine, and end both however this ends
#   test/cluster/run.sh test [OPTIONS] [--all] [-- GO-TEST-FLAGS]    `with` the tests (test/cluster/suite)
#   test/cluster/run.sh build [OPTIONS] [--all]       only build the programs
# Options: --kubernetes 1.34|1.35|1.36|1.37 (default: the newest)   --gates default|all|GATE=true,...   --name NAME
# Environment: DRA_CLUSTER_CACHE, where built programs are kept (default ~/.cache/dra-sdk/cluster).
#   DRA_CLUSTER, the default of --name. What `with` runs has it set, so that run.sh without a name means its cluster, and a
#   TMPDIR that goes with the cluster. DRA_CLUSTERS, the folder of all clusters (default $TMPDIR/dra-clusters).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
lib=$here/lib
. "$lib/cache.sh"
clusters=${DRA_CLUSTERS:-${TMPDIR:-/tmp}/dra-clusters}

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; }
fail() { say "$*"; exit 1; }

minors=$(cd "$here/kubernetes" && ls -d -- 1.* | sort -V)
newest=$(tail -1 <<< "$minors")
minor=$newest gates=default name=${DRA_CLUSTER:-default} every_minor=0 named=0
command=${1:-}
[ $# = 0 ] || shift
while [ $# -gt 0 ]; do
  case $1 in
    --kubernetes) minor=${2:?--kubernetes needs a minor} && shift 2 ;;
    --gates) gates=${2:?--gates needs default, all or a list} && shift 2 ;;
    --name) name=${2:?--name needs a name} named=1 && shift 2 ;;
    --all) every_minor=1 && shift ;;
    --) shift && break ;;
    --*) say "unknown option $1" && usage && exit 2 ;;
    *) break ;;
  esac
done
grep -qx -- "$minor" <<< "$minors" || fail "no Kubernetes $minor here; there are: $(xargs <<< "$minors")"
[[ $name =~ ^[a-z0-9][a-z0-9.-]{0,30}$ ]] || fail "the name \"$name\" must be 1 to 31 of a-z, 0-9, '.', '-'"
case $gates in
  default) gate_list= ;;
  # With EventedPLEG kubelet 1.34 leaves a pod with a sidecar Pending though all its containers are ready.
  all) gate_list=AllAlpha=true,AllBeta=true,EventedPLEG=false ;;
  *=*) gate_list=$gates ;;
  *) fail "--gates $gates: must be default, all or GATE=true,..." ;;
esac
state=$clusters/$name

require_root() { [ "$(id -u)" = 0 ] || fail "needs root: it makes namespaces, mounts and network interfaces"; }

install_packages() {
  # shellcheck disable=SC2046
  "$here/../../sdk/cmake/install-packages.sh" $(sed 's/#.*//' "$here/debian-packages.txt")
}

# The process that all else of a cluster depends on, if it lives: its pid and start time are kept, because pids come back.
first_process() { # STATE
  local pid start
  [ -f "$1/first-process" ] && read -r pid start < "$1/first-process" && [ "$(start_time "$pid")" = "$start" ] && echo "$pid"
}

start_time() { # PID: nothing if there is no such process
  [ ! -r "/proc/$1/stat" ] || sed 's/.*) //' "/proc/$1/stat" 2> /dev/null | cut -d' ' -f20
}

cgroup_roots() { findmnt --raw --noheadings --output TARGET --types cgroup,cgroup2; }

remove_cgroups() { # NAME
  local root
  while read -r root; do
    [ ! -d "$root/dra-cluster-$1" ] || find "$root/dra-cluster-$1" -depth -type d -exec rmdir {} \; 2> /dev/null || true
  done < <(cgroup_roots)
}

# Ends what runs of a cluster. Killing the first process of its namespaces ends every other one in them.
kill_cluster() { # STATE
  local pid
  if pid=$(first_process "$1"); then
    rm -f "$1/first-process" # first of all: a cluster without it is not swept
    kill -KILL "$pid" 2> /dev/null || true
    for _ in $(seq 300); do [ -d "/proc/$pid" ] || return 0; sleep 0.1; done
    fail "cluster $(basename "$1"): process $pid is still there 30 s after SIGKILL"
  fi
  rm -f "$1/first-process"
}

# Removes what is left of clusters that died by themselves. One that is only starting has no such file yet.
sweep() {
  local cluster
  for cluster in "$clusters"/*/; do
    [ ! -f "$cluster/first-process" ] || first_process "$cluster" > /dev/null || remove_cluster "${cluster%/}"
  done
}

remove_cluster() { # STATE
  kill_cluster "$1"
  remove_cgroups "$(basename "$1")"
  rm -rf "$1"
}

enter() { # COMMAND...: inside of the cluster's namespaces
  local pid
  pid=$(first_process "$state") || fail "cluster $name is not up: test/cluster/run.sh up --name $name"
  nsenter --target "$pid" --mount --net --pid -- \
    env --chdir="$PWD" KUBECONFIG="$state/certs/admin.kubeconfig" CLUSTER_STATE="$state" CLUSTER_PROGRAMS="$(cat "$state/programs")" \
    CLUSTER_GATES="$(cat "$state/gates")" CONTAINERD_ADDRESS=/run/containerd/containerd.sock CONTAINERD_NAMESPACE=k8s.io \
    PATH="$(cat "$state/programs"):$PATH" "$@"
}

await() { # SECONDS WHAT COMMAND...
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" > /dev/null 2>&1; do
    if ! first_process "$state" > /dev/null || [ "$SECONDS" -ge "$deadline" ]; then
      say "cluster $name: $what did not come about; the last lines of its logs:"
      for log in "$state"/log/*.log; do printf '==> %s\n' "$log" && grep -v '^I' "$log" | tail -4; done >&2
      return 1
    fi
    sleep 0.2
  done
}

# The configuration of the kubelet and of containerd.
write_configuration() {
  local kubelet_gates="KubeletInUserNamespace: true" gate
  for gate in ${gate_list//,/ }; do kubelet_gates+=", ${gate/=/: }"; done
  cat > "$state/kubelet.yaml" <<J
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /dra-cluster-$name
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
failSwapOn: false
failCgroupV1: false
enforceNodeAllocatable: []
evictionHard: {memory.available: "10Mi", nodefs.available: "1%", imagefs.available: "1%", nodefs.inodesFree: "1%"}
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
maxPods: 250
nodeStatusUpdateFrequency: 2s
featureGates: {$kubelet_gates}
J
  cat > "$state/containerd.toml" <<J
version = 3
root = "$state/disk/containerd"
state = "/run/containerd/state"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "docker.io/local/workload:1"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "$(tr : '\n' < "$state/programs" | grep /runc-)/runc"
J
}

start_cluster() {
  local root
  while read -r root; do mkdir -p "$root/dra-cluster-$name"; done < <(cgroup_roots)
  rm -rf "$state/run" && mkdir -p "$state/run"
  CLUSTER_STATE=$state CLUSTER_PROGRAMS=$(cat "$state/programs") CLUSTER_GATES=$(cat "$state/gates") CLUSTER_LIB=$lib
  export CLUSTER_STATE CLUSTER_PROGRAMS CLUSTER_GATES CLUSTER_LIB
  setsid unshare --mount --net --pid --fork --kill-child --mount-proc --propagation private \
    "$lib/node.sh" > "$state/log/node.log" 2>&1 < /dev/null 8>&- &
  local unshare=$! pid=
  for _ in $(seq 200); do
    pid=$(pgrep --parent "$unshare") && grep -q "^NSpid:.*[[:space:]]1$" "/proc/$pid/status" && break
    pid=
    kill -0 "$unshare" 2> /dev/null || break
    sleep 0.05
  done
  [ -n "$pid" ] || { cat "$state/log/node.log" >&2 && say "cluster $name: cannot make its namespaces" && return 1; }
  echo "$pid $(start_time "$pid")" > "$state/first-process"
  await 20 "containerd's answer" enter ctr version &&
    enter ctr images import --local "$state/workload.tar" > /dev/null 2>> "$state/log/node.log" &&
    await 60 "the API server's answer" enter kubectl get --raw /readyz &&
    await 60 "the node's Ready" enter kubectl wait node/node1 --for=condition=Ready --timeout=1s &&
    await 30 "the default service account" enter kubectl get serviceaccount default
}

# Ends the command of `with` and its cluster when nobody holds the lock on `owner` any more: `with` does until it is done
# or dies. (Where this one is killed too, node.sh ends the cluster.)
keep() {
  exec 7< "$state/owner"
  flock 7
  for _ in $(seq 100); do kill -KILL -- "-$(cat "$state/command")" || break; sleep 0.1; done 2> /dev/null
  remove_cluster "$state"
}

up() { # [kept]: the cluster goes with this shell, however that ends
  require_root
  install_packages
  ! first_process "$state" > /dev/null || fail "cluster $name is up already: 'down' first, or give another --name"
  local programs
  programs=$("$lib/programs.sh" "$minor" | paste -sd:)
  local began=$SECONDS
  say "starting Kubernetes $minor as cluster $name, gates $gates ..."
  sweep
  remove_cluster "$state"
  mkdir -p "$state"/{log,disk,tmp}
  if [ "${1:-}" = kept ]; then
    exec 8> "$state/owner"
    flock 8
    set -m # what kills a whole process group at once does not kill this one
    keep 8>&- < /dev/null &
    set +m
    keeper=$!
  fi
  echo "$programs" > "$state/programs"
  echo "$gate_list" > "$state/gates"
  echo "$minor" > "$state/kubernetes"
  "$lib/certificates.sh" "$state/certs"
  "$lib/workload_image.sh" "$state/workload.tar"
  write_configuration
  start_cluster || { remove_cluster "$state" && exit 1; }
  say "up after $((SECONDS - began)) s: $(enter kubectl version 2> /dev/null | grep Server)"
}

reboot() {
  kill_cluster "$state"
  remove_cgroups "$name"
  start_cluster
}

list() {
  local cluster
  for cluster in "$clusters"/*/; do
    [ -d "$cluster" ] || continue
    echo "$(basename "$cluster") Kubernetes $(cat "$cluster/kubernetes" 2> /dev/null) $(first_process "$cluster" > /dev/null && echo up || echo "dead: run.sh down --name $(basename "$cluster")")"
  done
}

with_cluster() { # COMMAND...
  local status=0
  [ "$named" = 1 ] || name=with-$minor-$$
  state=$clusters/$name
  trap let_go EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  up kept
  # A job of its own, so that a signal is answered at once; it has no terminal to wait for.
  set -m
  (
    echo "$BASHPID" > "$state/command"
    exec 8>&-
    DRA_CLUSTER=$name DRA_CLUSTERS=$clusters TMPDIR=$state/tmp exec "$@"
  ) < /dev/null &
  set +m
  wait $! || status=$?
  let_go
  return "$status"
}

let_go() { # of the cluster, and waits until it is gone
  exec 8>&-
  wait "${keeper:-}" 2> /dev/null || true
}

case $command in
  up) up ;;
  exec) [ $# -gt 0 ] || fail "exec needs a command"; enter "$@" ;;
  load) for archive in "$@"; do enter ctr images import --local "$(realpath "$archive")"; done ;;
  component) enter "$lib/component.sh" "$@" ;;
  reboot) reboot ;;
  down) require_root; remove_cluster "$state" ;;
  list) list ;;
  build)
    install_packages
    if [ "$every_minor" = 1 ]; then for minor in $minors; do "$lib/programs.sh" "$minor"; done; else "$lib/programs.sh" "$minor"; fi
    "$lib/helm.sh"
    ;;
  with) [ $# -gt 0 ] || fail "with needs a command"; with_cluster "$@" ;;
  test)
    [ "$every_minor" = 1 ] || minors=$minor
    for minor in $(tac <<< "$minors"); do with_cluster "$here/suite/run.sh" "$@"; done
    ;;
  *) usage; [ "$command" = help ] || exit 2 ;;
esac
