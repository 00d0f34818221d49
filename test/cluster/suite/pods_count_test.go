package suite

import (
	"slices"
	"testing"
)

// What is given is given once: a claim that asks for more than is left waits until there is enough.
func TestExactCountIsGivenOnce(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 4, "deviceNodes": true}})
	f.AwaitDevices(4)
	f.Apply(ClaimYAML("three", "allocationMode: ExactCount, count: 3") + PodYAML("first", "three"))
	f.RunAndCheck("first", "three", 3)

	f.Apply(ClaimYAML("one", "") + PodYAML("second", "one"))
	one, _ := f.RunAndCheck("second", "one", 1)
	if three := f.Allocated("three", 3); slices.Contains(Devices(three), Devices(one)[0]) {
		t.Errorf("device %s is given to two claims", Devices(one)[0])
	}

	f.Apply(ClaimYAML("two", "count: 2") + PodYAML("third", "two"))
	f.AwaitUnschedulable("third")
	f.DeletePod("first")
	f.RunAndCheck("third", "two", 2)
	f.EndPods()
}
