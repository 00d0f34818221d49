package suite

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Command runs a command of dra-driver with the configuration of this driver.
func (d *Driver) Command(arguments ...string) (output string, status int) {
	d.t.Helper()
	command := append([]string{*driverPath}, arguments...)
	output, err := d.c.Exec(append(command, "--config", d.file("config.json"))...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return output, exit.ExitCode()
	}
	if err != nil {
		d.t.Fatalf("%v: %v", arguments, err)
	}
	return output, 0
}

// Without its driver a pod with a claim cannot end; `uninstall-check` says so beforehand. It ends when a driver is back.
func TestPodWaitsForARemovedDriver(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1, "deviceNodes": true}})
	f.AwaitDevices(1)
	f.Apply(ClaimYAML("claim", "") + PodYAML("pod", "claim"))
	claim, _ := f.RunAndCheck("pod", "claim", 1)
	id := f.ContainerID("pod")
	output, status := d.Command("uninstall-check", "--driver", f.Driver)
	for _, word := range []string{f.Namespace, "claim", string(claim.UID), Devices(claim)[0], "pod"} {
		if status != 1 || !strings.Contains(output, word) {
			t.Errorf("uninstall-check: exit status %d, want 1 and %q in:\n%s", status, word, output)
		}
	}

	d.Stop()
	if err := f.SameContainer("pod", id); err != nil {
		t.Error(err)
	}
	f.DeletePod("pod")
	Never(t, 15*time.Second, "the pod is gone without its driver", func() error {
		pod, err := f.Pod("pod")
		if err == nil && pod.DeletionTimestamp == nil {
			err = errors.New("it is not being deleted")
		}
		return err
	})
	d.Start()
	f.AwaitGone("pod")
	f.AwaitNothingLeft()
	if output, status := d.Command("uninstall-check", "--driver", f.Driver); status != 0 {
		t.Errorf("uninstall-check: exit status %d, want 0:\n%s", status, output)
	}
}

// A drain keeps new pods away and serves those that are there; `uninstall-check` tells when the driver can go.
func TestDrainKeepsNewPodsAway(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 2, "deviceNodes": true}})
	f.AwaitDevices(2)
	f.Apply(ClaimYAML("claim", "") + PodYAML("pod", "claim"))
	f.RunAndCheck("pod", "claim", 1)
	id := f.ContainerID("pod")

	if output, status := d.Command("drain", "--driver", f.Driver); status != 0 {
		t.Fatalf("drain: exit status %d:\n%s", status, output)
	}
	if f.GateOn(t, "DRADeviceTaints") {
		f.AwaitTaints("gpu-0", f.Driver+"/drain=:NoSchedule")
		f.AwaitTaints("gpu-1", f.Driver+"/drain=:NoSchedule")
	} else {
		// A server that drops taints would not keep anything away.
		Await(t, 30*time.Second, "the slices are withdrawn", func() error {
			stored, err := f.Slices()
			if err == nil && len(stored) > 0 {
				err = fmt.Errorf("there are %d", len(stored))
			}
			return err
		})
	}
	f.Apply(ClaimYAML("next", "") + PodYAML("next", "next"))
	f.AwaitUnschedulable("next")
	if err := f.SameContainer("pod", id); err != nil {
		t.Error(err)
	}
	if output, status := d.Command("drain", "--driver", f.Driver, "--wait", "1"); status != 1 {
		t.Errorf("drain --wait 1 with a claim: exit status %d, want 1:\n%s", status, output)
	}
	f.DeletePod("pod")
	f.AwaitGone("pod")
	if output, status := d.Command("drain", "--driver", f.Driver, "--wait", "30"); status != 0 {
		t.Errorf("drain --wait 30 without a claim: exit status %d, want 0:\n%s", status, output)
	}
	if output, status := d.Command("drain", "--driver", f.Driver, "--off"); status != 0 {
		t.Fatalf("drain --off: exit status %d:\n%s", status, output)
	}
	f.RunAndCheck("next", "next", 1)
	f.EndPods()
}
