package suite

import (
	"testing"
	"time"
)

// When the container runtime is started again pods go on, and containers that start afterwards get their devices.
func TestContainerdRestartLeavesRunningPodsAlone(t *testing.T) {
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 2, "deviceNodes": true}})
	f.AwaitDevices(2)
	f.Apply(ClaimYAML("claim", "") + PodYAML("pod", "claim"))
	claim, _ := f.RunAndCheck("pod", "claim", 1)
	id := f.ContainerID("pod")

	f.Component(t, "restart", "containerd")
	f.Apply(ClaimYAML("next", "") + PodYAML("next", "next"))
	f.AwaitRunningWithin("next", afterRetry)
	f.RunAndCheck("next", "next", 1)
	if err := f.SameContainer("pod", id); err != nil {
		t.Error(err)
	}
	f.KillContainer(id)
	f.AwaitRestarted("pod", id, 120*time.Second)
	f.CheckSees("pod", "main", Sees(claim))
	d.CheckMetric(2, "dra_kubelet_calls_total", `method="NodePrepareResources"`) // one for each pod
	f.EndPods()
}
