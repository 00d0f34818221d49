package suite

import (
	"fmt"
	"testing"
	"time"
)

// Two instances side by side, the older one ends while pods come and go: no pod notices.
func TestRollingUpdateFailsNoPod(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	old := f.StartDriver(DriverOptions{PodUID: "11111111-1111-4111-8111-111111111111",
		Backend: Object{"numDevices": 12, "deviceNodes": true}})
	f.AwaitDevices(12)
	next := old.Instance("22222222-2222-4222-8222-222222222222")

	const pods, atOnce = 30, 5
	pod := func(i int) string { return fmt.Sprintf("pod-%d", i) }
	for i := 0; i < pods+atOnce; i++ {
		switch i {
		case 8:
			next.Start()
		case 13:
			next.AwaitReady()
			old.signal("TERM") // and does not wait: the next pods come while it ends
		case 18:
			old.AwaitEnd(60 * time.Second)
		}
		if i < pods {
			f.Apply(ClaimYAML(pod(i), "") + PodYAML(pod(i), pod(i)))
		}
		if done := i - atOnce; done >= 0 {
			f.RunAndCheck(pod(done), pod(done), 1)
			if container, err := f.Container(pod(done)); err != nil || container.RestartCount != 0 {
				t.Errorf("pod %s: started again %d times (%v)", pod(done), container.RestartCount, err)
			}
			f.DeletePod(pod(done))
		}
	}
	for i := 0; i < pods; i++ {
		f.AwaitGone(pod(i))
	}
	f.AwaitNothingLeft()
	f.AwaitDevices(12)

	if failed := f.FailedPrepares(); len(failed) > 0 {
		t.Errorf("prepares failed: %v", failed)
	}
	byProcess := map[any]int{}
	events := next.HookEvents()
	for _, call := range next.HookCalls("prepare") {
		byProcess[call["pid"]]++
		claim := call["claim"]
		for _, hook := range []string{"prepare", "unprepare"} {
			if count := CountEvents(events, Object{"event": "begin", "hook": hook, "claim": claim}); count != 1 {
				t.Errorf("claim %v: %d calls of %s, want 1", claim, count, hook)
			}
		}
	}
	if len(byProcess) != 2 {
		t.Errorf("prepares by process: %v, want both instances to have some", byProcess)
	}
}
