package suite

import (
	"slices"
	"testing"
)

func TestAllGivesEveryDevice(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 5, "deviceNodes": true}})
	f.AwaitDevices(5)
	f.Apply(ClaimYAML("all", "allocationMode: All") + PodYAML("all", "all"))
	claim, _ := f.RunAndCheck("all", "all", 5)
	if got := slices.Sorted(slices.Values(Devices(claim))); !slices.Equal(got, []string{"gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4"}) {
		t.Errorf("the claim has the devices %v", got)
	}
	f.EndPods()
}

// "All" is all or nothing: where another claim holds one of them it waits.
func TestAllWaitsForTheLastDevice(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 2, "deviceNodes": true}})
	f.AwaitDevices(2)
	f.Apply(ClaimYAML("one", "") + PodYAML("one", "one"))
	f.RunAndCheck("one", "one", 1)
	f.Apply(ClaimYAML("all", "allocationMode: All") + PodYAML("all", "all"))
	f.AwaitUnschedulable("all")
	f.DeletePod("one")
	f.RunAndCheck("all", "all", 2)
	f.EndPods()
}
