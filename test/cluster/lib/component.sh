#!/usr/bin/env bash
# Starts or stops one program of a cluster; runs inside of its namespaces. node.sh starts all of them; a test stops and
# starts one with `run.sh component`.
#   component.sh start|stop|kill|restart COMPONENT
# stop asks with SIGTERM and waits; kill does not ask; restart is kill and start.
# From the environment: CLUSTER_STATE, CLUSTER_PROGRAMS (folders, by colons), CLUSTER_GATES.
set -euo pipefail
state=$CLUSTER_STATE
PATH=$CLUSTER_PROGRAMS:$PATH
cd "$state"

# One set of gates for all four components: half of them on would be a cluster that nobody has.
gate_flags=()
[ -z "$CLUSTER_GATES" ] || gate_flags=("--feature-gates=$CLUSTER_GATES")

launch() { # COMPONENT PROGRAM ARGUMENTS...
  local component=$1
  shift
  printf '\n--- started %s\n' "$(date -u +%FT%TZ)" >> "log/$component.log"
  # shellcheck disable=SC2094
  setsid "$@" >> "log/$component.log" 2>&1 < /dev/null 9>&- &
  echo $! > "run/$component.pid"
}

alive() { # COMPONENT; a zombie is not: its parent, the node's first process, will reap it
  [ -f "run/$1.pid" ] && case $(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$(cat "run/$1.pid")/status" 2> /dev/null) in
    "" | Z) false ;;
  esac
}

start() {
  ! alive "$1" || return 0
  case $1 in
    etcd)
      launch etcd etcd --data-dir disk/etcd --unsafe-no-fsync --log-level warn \
        --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
        --listen-peer-urls http://127.0.0.1:2380
      ;;
    apiserver)
      launch apiserver kube-apiserver --shutdown-delay-duration=0s --etcd-servers=http://127.0.0.1:2379 \
        --bind-address=0.0.0.0 --secure-port=443 --advertise-address=192.168.77.1 --service-cluster-ip-range=10.96.0.0/24 \
        --tls-cert-file=certs/apiserver.crt --tls-private-key-file=certs/apiserver.key --cert-dir=certs \
        --token-auth-file=certs/tokens.csv --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
        --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=certs/sa.key \
        --service-account-signing-key-file=certs/sa.key --allow-privileged --kubelet-preferred-address-types=InternalIP \
        --runtime-config=api/all=true "${gate_flags[@]}"
      ;;
    controller-manager)
      launch controller-manager kube-controller-manager --kubeconfig=certs/controller-manager.kubeconfig \
        --service-account-private-key-file=certs/sa.key --root-ca-file=certs/ca.crt --use-service-account-credentials \
        --leader-elect=false "${gate_flags[@]}"
      ;;
    scheduler)
      launch scheduler kube-scheduler --kubeconfig=certs/scheduler.kubeconfig --leader-elect=false \
        --authentication-kubeconfig=certs/scheduler.kubeconfig --authorization-kubeconfig=certs/scheduler.kubeconfig \
        --kube-api-qps=1000 --kube-api-burst=1000 "${gate_flags[@]}"
      ;;
    containerd)
      # Pods outlive a containerd that is started again, as on a real node: its shims are no children of it.
      launch containerd containerd -c containerd.toml
      ;;
    kubelet)
      # It gives up at once where nobody answers at the runtime's socket yet.
      for _ in $(seq 200); do ! ctr --address /run/containerd/containerd.sock version > /dev/null 2>&1 || break; sleep 0.1; done
      launch kubelet kubelet --config=kubelet.yaml --kubeconfig=certs/kubelet.kubeconfig --hostname-override=node1 \
        --node-ip=192.168.77.1 --root-dir=/var/lib/kubelet
      ;;
    *)
      echo "component.sh: no component \"$1\": etcd, apiserver, controller-manager, scheduler, containerd, kubelet" >&2
      exit 2
      ;;
  esac
}

end() { # SIGNAL COMPONENT
  ! alive "$2" || kill "-$1" "$(cat "run/$2.pid")" 2> /dev/null || true
  # An API server lets its watches run out, which takes up to a minute.
  for _ in $(seq 900); do
    alive "$2" || { rm -f "run/$2.pid" && return 0; }
    sleep 0.1
  done
  echo "component.sh: $2 (pid $(cat "run/$2.pid")) is still there 90 s after SIG$1" >&2
  exit 1
}

case $1 in
  start) start "$2" ;;
  stop) end TERM "$2" ;;
  kill) end KILL "$2" ;;
  restart)
    end KILL "$2"
    start "$2"
    ;;
  *)
    echo "component.sh: no command \"$1\": start, stop, kill, restart" >&2
    exit 2
    ;;
esac
