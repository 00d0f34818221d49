package suite

import (
	"testing"
	"time"
)

// A driver that dies in the middle of a prepare goes on after its next start: the pod runs, the card is set once and,
// at the end, set back to what it was before the first try.
func TestDriverKilledInAPrepareGoesOn(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"begin", "undoSaved", "configured", "end"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			f := NewFixture(t)
			d := NewDriver(t, f.Cluster, f.Driver, DriverOptions{Backend: Object{"numDevices": 1, "deviceNodes": true}})
			d.Control(Object{"hooks": Object{"prepare": Object{"at": at, "crash": "kill", "times": 1}}})
			d.Start()
			d.AwaitReady()
			f.Apply(TunedClaimYAML("claim") + PodYAML("pod", "claim"))
			d.AwaitEnd(60 * time.Second)
			calls := d.HookCalls("prepare")
			if len(calls) != 1 {
				t.Fatalf("%d prepares before the kill, want 1", len(calls))
			}

			d.Start()
			f.AwaitRunningWithin("pod", afterRetry)
			_, view := f.RunAndCheck("pod", "claim", 1)
			if got := view.Env["GPU_DEVICE_0_TIMESLICE_INTERVAL"]; got != "Long" {
				t.Errorf("the container sees the interval %q, want Long", got)
			}
			d.CheckInterval("gpu-0", "Long")
			if sets := CountEvents(d.HookEvents(), Object{"event": "set", "card": "gpu-0"}); sets != 1 {
				t.Errorf("the card was set %d times, want once", sets)
			}
			calls = d.HookCalls("prepare")
			if saved := at != "begin"; len(calls) != 2 || (calls[1]["undo"] != "") != saved {
				t.Errorf("prepares %v, want two, the second with saved undo: %v", calls, saved)
			}

			f.EndPods()
			d.CheckInterval("gpu-0", "Default")
		})
	}
}
