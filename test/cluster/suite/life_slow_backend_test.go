package suite

import (
	"strings"
	"testing"
)

// A prepare that takes longer than the kubelet's call (45 s): the call is answered before, the work goes on, and the
// kubelet's next call finds it done.
func TestPrepareSlowerThanAKubeletCallIsDoneOnce(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1, "deviceNodes": true,
		"manifest": Object{"hookLimits": Object{"prepare": 120}}}})
	f.AwaitDevices(1)
	d.Control(Object{"hooks": Object{"prepare": Object{"latencyMs": 45000}}})
	f.Apply(TunedClaimYAML("claim") + PodYAML("pod", "claim"))
	f.AwaitRunningWithin("pod", 2*afterRetry)
	f.RunAndCheck("pod", "claim", 1)
	if calls := len(d.HookCalls("prepare")); calls != 1 {
		t.Errorf("%d calls of prepare, want 1", calls)
	}
	if said := strings.Join(f.FailedPrepares(), "\n"); !strings.Contains(said, "still working") {
		t.Errorf("the kubelet was told %q, want that the driver is still working", said)
	}
	d.CheckInterval("gpu-0", "Long")
	f.EndPods()
}
