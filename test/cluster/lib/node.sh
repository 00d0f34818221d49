#!/usr/bin/env bash
# The first process of a cluster, inside of namespaces of its own (mounts, network, processes): makes the node's file
# systems and network, starts the components, and reaps. When it ends, the kernel ends all that runs in the namespaces,
# and the mounts and interfaces go with them: that is how nothing is left, whatever died.
# From the environment: CLUSTER_STATE, CLUSTER_PROGRAMS, CLUSTER_GATES, CLUSTER_LIB.
set -euo pipefail
state=$CLUSTER_STATE
cd "$state"

file_systems() {
  # sysfs shows the network interfaces of the namespace that it was mounted in: this node's are those of this one.
  mkdir -p run/cgroup
  mount --rbind /sys/fs/cgroup run/cgroup
  mount -t sysfs sysfs /sys
  mount --rbind run/cgroup /sys/fs/cgroup
  umount --recursive --lazy run/cgroup
  mount --make-rshared / # the kubelet wants shared mounts
  # A file system of its own over each folder that kubelet, runtime and drivers write to. What a reboot would keep lies
  # on the disk, the rest in memory.
  mount -t tmpfs cluster /run
  mkdir -p /run/cdi /run/nri /run/lock /var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers /etc/cdi /etc/cni/net.d
  for pair in kubelet:/var/lib/kubelet cni:/var/lib/cni podlogs:/var/log/pods containerlogs:/var/log/containers; do
    mkdir -p "disk/${pair%%:*}"
    mount --bind "disk/${pair%%:*}" "${pair#*:}"
  done
  mount --make-rshared /var/lib/kubelet
  mount -t tmpfs cluster /etc/cdi
  mount -t tmpfs cluster /etc/cni/net.d
  # Each start is a boot of its own to whoever asks.
  cat /proc/sys/kernel/random/uuid > boot_id
  mount --bind boot_id /proc/sys/kernel/random/boot_id
}

network() {
  ip link set lo up
  ip address add 10.96.0.1/32 dev lo # the service address of the API server: no kube-proxy is needed
  ip link add br0 type bridge
  ip address add 192.168.77.1/24 dev br0
  ip link set br0 up
  ip route add default via 192.168.77.1 dev br0 # leads nowhere; the kubelet wants one
  sysctl -qw net.ipv4.ip_forward=1
  cat > /etc/cni/net.d/10-bridge.conflist <<'J'
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/22"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
J
}

file_systems
network
for component in etcd containerd apiserver controller-manager scheduler kubelet; do
  "$CLUSTER_LIB/component.sh" start "$component"
done
touch run/started
# Ends when its folder is removed; a cluster of `run.sh with` also when nobody holds the lock on `owner` any more.
while [ -f run/started ] && { [ ! -f owner ] || ! flock --nonblock owner true; }; do
  sleep 2 &
  wait $! || true
done
