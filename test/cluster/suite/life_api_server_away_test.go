package suite

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// While the API server is away pods go on, a claim is unprepared, a prepare that was begun waits, and no slice is lost.
func TestAPIServerAway(t *testing.T) {
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 3, "deviceNodes": true}})
	f.AwaitDevices(3)
	f.Apply(ClaimYAML("stays", "") + PodYAML("stays", "stays") + ClaimYAML("ends", "") + slowToEnd("ends", "ends"))
	f.RunAndCheck("stays", "stays", 1)
	f.AwaitRunning("ends")
	stays, ends := f.ContainerID("stays"), f.Allocated("ends", 1)
	before, err := f.sliceUIDs()
	if err != nil {
		t.Fatal(err)
	}

	// A prepare that is tried again within the kubelet's call, and needs the API server each time.
	d.Control(Object{"hooks": Object{"prepare": Object{"fail": Object{"code": "UNAVAILABLE", "message": "card resets"}}}})
	f.Apply(ClaimYAML("begun", "") + PodYAML("begun", "begun"))
	Await(t, 60*time.Second, "the prepare of pod begun is tried", func() error {
		if calls := d.HookCalls("prepare"); calls[len(calls)-1]["claim"] == string(ends.UID) || len(calls) < 3 {
			return fmt.Errorf("calls %v", calls)
		}
		return nil
	})
	f.DeletePod("ends")
	Await(t, 10*time.Second, "the container of pod ends was told to end", func() error {
		log, err := f.Client.CoreV1().Pods(f.Namespace).GetLogs("ends", &corev1.PodLogOptions{}).DoRaw(context.Background())
		if err == nil && !strings.Contains(string(log), "told to end") {
			err = fmt.Errorf("its log is %q", log)
		}
		return err
	})
	f.Component(t, "kill", "apiserver")
	stopped := time.Now()
	t.Cleanup(func() { f.Component(t, "start", "apiserver") })
	if len(d.HookCalls("unprepare")) > 0 {
		t.Fatal("the claim was unprepared before the API server was away")
	}
	tried := len(d.HookCalls("prepare"))
	d.Control(Object{})

	Await(t, 60*time.Second, "the claim is unprepared without the API server", func() error {
		left, err := f.Leftovers()
		for _, path := range left {
			if strings.Contains(path, string(ends.UID)) {
				return fmt.Errorf("there is %s", path)
			}
		}
		if err == nil && len(d.HookCalls("unprepare")) != 1 {
			err = fmt.Errorf("%d calls of unprepare", len(d.HookCalls("unprepare")))
		}
		return err
	})
	Never(t, time.Until(stopped.Add(60*time.Second)), "a claim is prepared that could not be read", func() error {
		if now := len(d.HookCalls("prepare")); now != tried {
			return fmt.Errorf("%d calls of prepare, %d before", now, tried)
		}
		return nil
	})

	f.Component(t, "start", "apiserver")
	f.AwaitRunningWithin("begun", afterRetry)
	f.RunAndCheck("begun", "begun", 1)
	f.AwaitGone("ends")
	d.AwaitReady()
	f.AwaitDevices(3)
	if err := f.SameContainer("stays", stays); err != nil {
		t.Error(err)
	}
	if after, err := f.sliceUIDs(); err != nil || after != before {
		t.Errorf("slices %s (%v), before %s", after, err, before)
	}
	f.EndPods()
}

// slowToEnd is a pod that says so when it is told to end, and ends only with its grace period.
func slowToEnd(name, claim string) string {
	pod := strings.Replace(PodYAML(name, claim), "terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 15", 1)
	return strings.Replace(pod, "command: [show]",
		`command: [bash, -c, "trap 'echo told to end' TERM; while :; do sleep 1; done"]`, 1)
}

// sliceUIDs tell the driver's slices from others of the same names.
func (f *Fixture) sliceUIDs() (string, error) {
	stored, err := f.Slices()
	var uids []string
	for _, slice := range stored {
		uids = append(uids, string(slice.UID))
	}
	return strings.Join(uids, " "), err
}
