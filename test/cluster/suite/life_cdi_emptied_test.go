package suite

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// The kubelet asks for no prepare when a container starts again or another pod joins a prepared claim, so the driver
// itself must notice that the claim's CDI file is gone. It looks whenever it looks for orphans.
func TestEmptiedCDIDirectoryIsFilledAgain(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1, "deviceNodes": true},
		Driver: Object{"orphanCheckInterval": "1s"}})
	f.AwaitDevices(1)
	f.Apply(ClaimYAML("claim", "") + PodYAML("pod", "claim"))
	claim, _ := f.RunAndCheck("pod", "claim", 1)
	id := f.ContainerID("pod")
	file := f.Path(fmt.Sprintf("/var/run/cdi/k8s.%s-claim_%s.json", f.Driver, claim.UID))
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all, err := f.cdiFiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}

	Await(t, 30*time.Second, "the CDI file is there again", func() error {
		after, err := os.ReadFile(file)
		if err == nil && string(after) != string(before) {
			err = fmt.Errorf("it differs:\n%s\nbefore:\n%s", after, before)
		}
		return err
	})
	f.KillContainer(id)
	f.AwaitRestarted("pod", id, 120*time.Second)
	f.CheckSees("pod", "main", Sees(claim))
	f.Apply(PodYAML("joins", "claim"))
	f.RunAndCheck("joins", "claim", 1)
	if calls := len(d.HookCalls("prepare")); calls != 1 {
		t.Errorf("%d calls of prepare, want 1", calls)
	}
	f.EndPods()
}

// A container that starts while the file is away fails and is tried again; a driver that starts makes the file at once.
func TestContainerWithoutItsCDIFileWaitsForTheDriver(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1, "deviceNodes": true}})
	f.AwaitDevices(1)
	f.Apply(ClaimYAML("claim", "") + PodYAML("pod", "claim"))
	claim, _ := f.RunAndCheck("pod", "claim", 1)
	id := f.ContainerID("pod")
	d.Kill()
	if err := os.Remove(f.Path(fmt.Sprintf("/var/run/cdi/k8s.%s-claim_%s.json", f.Driver, claim.UID))); err != nil {
		t.Fatal(err)
	}
	f.KillContainer(id)
	Await(t, 60*time.Second, "the container cannot be created", func() error {
		container, err := f.Container("pod")
		if err == nil && (container.State.Waiting == nil || container.State.Waiting.Reason != "CreateContainerError") {
			err = fmt.Errorf("state %+v", container.State)
		}
		return err
	})
	d.Start()
	f.AwaitRestarted("pod", id, 120*time.Second)
	f.CheckSees("pod", "main", Sees(claim))
	f.EndPods()
}
