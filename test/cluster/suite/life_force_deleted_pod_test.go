package suite

import (
	"fmt"
	"testing"
	"time"
)

// A force-deleted pod is gone from the API before its claim is unprepared, and the scheduler gives its device away at
// once. The next pod gets it when it is free, in the same call of the kubelet.
func TestDeviceOfAForceDeletedPodIsNeverGivenTwice(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1, "deviceNodes": true}})
	f.AwaitDevices(1)
	f.Apply(ClaimYAML("first", "") + PodYAML("first", "first"))
	first, _ := f.RunAndCheck("first", "first", 1)
	f.Apply(ClaimYAML("second", "") + PodYAML("second", "second"))
	f.AwaitUnschedulable("second")
	d.Control(Object{"hooks": Object{"unprepare": Object{"hang": "untilRemoved"}}})
	f.ForceDelete("first")
	Await(t, 60*time.Second, "the second claim is given the device of the first, which is being unprepared", func() error {
		claim, err := f.Claim("second")
		if err == nil && (claim.Status.Allocation == nil || len(d.HookCalls("unprepare")) == 0) {
			err = fmt.Errorf("allocation %v, unprepares %v", claim.Status.Allocation, d.HookCalls("unprepare"))
		}
		return err
	})
	Never(t, 5*time.Second, "the second claim is prepared beside the first", func() error {
		if calls := d.HookCalls("prepare"); len(calls) != 1 {
			return fmt.Errorf("prepares %v", calls)
		}
		return nil
	})
	d.Control(Object{})
	f.AwaitRunning("second")
	second, _ := f.RunAndCheck("second", "second", 1)
	events := d.HookEvents()
	freed := FindEvent(events, Object{"event": "end", "hook": "unprepare"})
	if freed < 0 || events[freed]["claim"] != string(first.UID) {
		t.Fatalf("the first end of an unprepare is %d of %v, want claim %s", freed, events, first.UID)
	}
	if taken := FindEvent(events, Object{"event": "begin", "hook": "prepare", "claim": string(second.UID)}); taken < freed {
		t.Errorf("claim %s was prepared (event %d) before %s was unprepared (event %d)", second.UID, taken, first.UID, freed)
	}
	if failed := f.FailedPrepares(); len(failed) > 0 {
		t.Errorf("prepares failed: %v", failed)
	}
	f.EndPods()
}
