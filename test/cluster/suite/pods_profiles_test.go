package suite

import (
	"strings"
	"testing"
)

// The other profiles of the fake backend: a share of a NIC's bandwidth, and CPUs of a NUMA node.
func TestProfileNetGivesBandwidth(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.NeedsGate("DRAConsumableCapacity")
	f.StartDriver(DriverOptions{Backend: Object{"profile": "net", "numDevices": 1}})
	f.AwaitDevices(1)
	f.Apply(ClaimYAML("fast", "capacity: {requests: {ingressBandwidth: 60G, egressBandwidth: 40G}}") + PodYAML("fast", "fast") +
		ClaimYAML("plain", "") + PodYAML("plain", "plain"))
	for pod, want := range map[string][2]string{"fast": {"60000000000", "40000000000"}, "plain": {"1000000000", "1000000000"}} {
		f.AwaitRunning(pod)
		claim := f.Allocated(pod, 1)
		env := f.See(pod, "main").Env
		if env["NET_DEVICE_NIC_0_RESOURCE_CLAIM"] != string(claim.UID) || env["NET_DEVICE_0_INGRESS_RATE"] != want[0] ||
			env["NET_DEVICE_0_EGRESS_RATE"] != want[1] {
			t.Errorf("pod %s of claim %s has %v, want the rates %v", pod, claim.UID, env, want)
		}
	}
	f.Apply(ClaimYAML("too-much", "capacity: {requests: {ingressBandwidth: 50G}}") + PodYAML("too-much", "too-much"))
	f.AwaitUnschedulable("too-much")
	f.EndPods()
}

func TestProfileCPUGivesCPUs(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.StartDriver(DriverOptions{Backend: Object{"profile": "cpu", "numaNodes": 1, "cpusPerNUMANode": 1, "driverName": f.Driver}})
	f.AwaitDevices(1)
	// Without the gate there are no shares: a claim has the whole NUMA node and is told no amount.
	told := ""
	if f.GateOn(t, "DRAConsumableCapacity") {
		told = "1"
	}
	f.Apply(ClaimYAML("first", "") + PodYAML("first", "first"))
	f.AwaitRunning("first")
	claim := f.Allocated("first", 1)
	env := f.See("first", "main").Env
	if env["CPU_DEVICE_0"] != "numa-0" || env["CPU_DEVICE_NUMA_0_RESOURCE_CLAIM"] != string(claim.UID) ||
		env["CPU_DEVICE_0_CONSUMED_CPU"] != told {
		t.Errorf("the container of claim %s has %v", claim.UID, env)
	}
	f.Apply(ClaimYAML("second", "") + PodYAML("second", "second"))
	f.AwaitUnschedulable("second")
	f.DeletePod("first")
	f.AwaitRunning("second")
	f.EndPods()
}

// CPUs that a claim consumes are the node's own: it may not consume more than the node has to give.
func TestProfileCPUCountsAgainstTheNode(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	if !f.AtLeast(37) {
		t.Skip("the scheduler of Kubernetes 1.36 forgets this now and then, though the slice has it from the start")
	}
	f.NeedsGate("DRANodeAllocatableResources")
	f.StartDriver(DriverOptions{Backend: Object{"profile": "cpu", "numaNodes": 1, "cpusPerNUMANode": 4096, "driverName": f.Driver}})
	f.AwaitDevices(1)
	f.Apply(ClaimYAML("modest", "capacity: {requests: {$DRIVER/cpu: 1}}") + PodYAML("modest", "modest"))
	f.AwaitRunning("modest")
	f.Apply(ClaimYAML("greedy", "capacity: {requests: {$DRIVER/cpu: 4000}}") + PodYAML("greedy", "greedy"))
	if said := f.AwaitUnschedulable("greedy"); !strings.Contains(said, "Insufficient cpu") {
		t.Errorf("the scheduler says %q", said)
	}
	f.EndPods()
}
