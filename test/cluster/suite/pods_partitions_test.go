package suite

import "testing"

const (
	wholeCard = `selectors: [{cel: {expression: 'device.attributes["$DRIVER"].?full.orValue(false)'}}]`
	onePart   = `selectors: [{cel: {expression: '"partition" in device.attributes["$DRIVER"]'}}]`
)

// The counters of a card keep its whole and its parts apart.
func TestWholeCardAndItsPartsExcludeEachOther(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.needsCounters()
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1, "partitions": 2, "deviceNodes": true}})
	f.AwaitDevices(3)
	f.Apply(ClaimYAML("part-1", onePart) + PodYAML("part-1", "part-1") + ClaimYAML("part-2", onePart) + PodYAML("part-2", "part-2"))
	one, _ := f.RunAndCheck("part-1", "part-1", 1)
	two, _ := f.RunAndCheck("part-2", "part-2", 1)
	if Devices(one)[0] == Devices(two)[0] {
		t.Errorf("partition %s is given to two claims", Devices(one)[0])
	}
	f.Apply(ClaimYAML("whole", wholeCard) + PodYAML("whole", "whole"))
	f.AwaitUnschedulable("whole")
	f.DeletePod("part-1")
	f.AwaitGone("part-1")
	if pod, err := f.Pod("whole"); err != nil || pod.Spec.NodeName != "" {
		t.Errorf("the whole card is given while a part is in use: %v %+v", err, pod.Status)
	}
	f.DeletePod("part-2")
	whole, _ := f.RunAndCheck("whole", "whole", 1)
	if Devices(whole)[0] != "gpu-0-full" {
		t.Errorf("the claim for the whole card has %s", Devices(whole)[0])
	}
	f.Apply(ClaimYAML("part-3", onePart) + PodYAML("part-3", "part-3"))
	f.AwaitUnschedulable("part-3")
	f.DeletePod("whole")
	f.RunAndCheck("part-3", "part-3", 1)
	f.EndPods()
}

// Where the API server drops counters, parts would look independent of the whole: there are none.
func TestWithoutCountersThereAreOnlyWholeCards(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.NeedsNoGate("DRAPartitionableDevices")
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 2, "partitions": 2, "deviceNodes": true}})
	f.AwaitDevices(2)
	f.Apply(ClaimYAML("whole", "allocationMode: All") + PodYAML("whole", "whole"))
	claim, _ := f.RunAndCheck("whole", "whole", 2)
	for _, device := range Devices(claim) {
		if device != "gpu-0-full" && device != "gpu-1-full" {
			t.Errorf("device %s is published", device)
		}
	}
	f.EndPods()
}

// needsCounters skips where shared counters are off, or have the layout of 1.34, which the driver does not write.
func (f *Fixture) needsCounters() {
	f.T.Helper()
	if !f.AtLeast(35) {
		f.T.Skip("the shared counters of Kubernetes 1.34 have another layout")
	}
	f.NeedsGate("DRAPartitionableDevices")
}
