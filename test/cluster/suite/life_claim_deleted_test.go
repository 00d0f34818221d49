package suite

import (
	"os"
	"testing"
)

// While the driver is down its pod is deleted by force, and then its claim: nothing is left to tell the driver of it but
// its own record and the kubelet's memory.
func deletePodAndClaimWhileDown(f *Fixture, d *Driver) {
	f.T.Helper()
	f.AwaitDevices(1)
	f.Apply(TunedClaimYAML("lost") + PodYAML("lost", "lost"))
	f.RunAndCheck("lost", "lost", 1)
	d.Kill()
	f.ForceDelete("lost")
	f.DeleteClaim("lost")
}

func TestClaimDeletedWhileTheDriverIsDownIsReleased(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1, "deviceNodes": true}})
	deletePodAndClaimWhileDown(f, d)
	d.Start()
	f.AwaitNothingLeft()
	d.CheckInterval("gpu-0", "Default")
	f.Apply(ClaimYAML("next", "") + PodYAML("next", "next"))
	f.RunAndCheck("next", "next", 1)
	f.EndPods()
}

// The same with a kubelet that has forgotten the claim and never asks for its unprepare: the driver finds the orphan.
func TestOrphanOfAForgetfulKubeletIsReleased(t *testing.T) {
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1, "deviceNodes": true},
		Driver: Object{"orphanCheckInterval": "1s", "orphanGrace": "1s"}})
	deletePodAndClaimWhileDown(f, d)
	f.Component(t, "stop", "kubelet")
	t.Cleanup(func() { f.Component(t, "start", "kubelet") })
	if err := os.Remove(f.Path("/var/lib/kubelet/dra_manager_state")); err != nil {
		t.Fatal(err)
	}
	d.Start()
	f.AwaitNothingLeft()
	d.CheckInterval("gpu-0", "Default")
	d.CheckMetric(1, "dra_claims_released_total", `reason="gone"`)
	d.CheckMetric(0, "dra_kubelet_calls_total")

	f.Component(t, "start", "kubelet")
	d.AwaitReady()
	f.AwaitDevices(1)
	f.Apply(ClaimYAML("next", "") + PodYAML("next", "next"))
	f.RunAndCheck("next", "next", 1)
	f.EndPods()
}
