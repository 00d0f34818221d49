package suite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"
)

// A driver that is configured away from an installation loses its slices and its marker, but not while a claim is held;
// the driver of another installation keeps both.
func TestDriverConfiguredAwayIsRetired(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	second := f.Of(f.SecondDriver())
	stranger := f.Of("stranger-" + f.Driver)
	other := NewDriver(t, f.Cluster, stranger.Driver, DriverOptions{Backend: Object{"numDevices": 1}})
	other.Config()["installation"] = "other/driver"
	other.WriteConfig()
	other.Start()
	other.AwaitReady()
	stranger.AwaitDevices(1)

	t.Cleanup((&Driver{Name: second.Driver, c: f.Cluster}).forget)
	d := NewDriver(t, f.Cluster, f.Driver, DriverOptions{Backend: Object{"numDevices": 1}})
	first := d.Config()["drivers"].([]Object)
	both := append(first[:1:1], Object{"name": second.Driver, "backend": *backendPath,
		"config": Object{"numDevices": 1, "nodeName": NodeName, "deviceNodes": true, "stateDirectory": StateFolder(t)}})
	configure := func(drivers []Object) {
		d.Stop()
		d.Config()["installation"] = "this/driver"
		d.Config()["drivers"] = drivers
		d.WriteConfig()
		d.Start()
	}
	configure(both)
	d.AwaitReady()
	second.AwaitDevices(1)
	second.Apply(ClaimYAML("claim", "") + PodYAML("pod", "claim"))
	claim, _ := second.RunAndCheck("pod", "claim", 1)

	configure(first)
	Await(t, 60*time.Second, "the driver says that a claim is in the way of the retirement", func() error {
		status, err := d.Status()
		if err != nil {
			return err
		}
		for _, condition := range status["conditions"].([]any) {
			if condition := condition.(Object); condition["name"] == "retired" && condition["ok"] == false &&
				strings.Contains(condition["message"].(string), string(claim.UID)) {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", status["conditions"])
	})
	if err := marker(second); err != nil {
		t.Error(err)
	}

	configure(both)
	d.AwaitReady()
	second.EndPods()
	second.AwaitDevices(1)
	configure(first)
	Await(t, 60*time.Second, "the driver is retired", func() error {
		if !errors.Is(marker(second), fs.ErrNotExist) {
			return errors.New("its marker is still there")
		}
		stored, err := second.Slices()
		if err == nil && len(stored) > 0 {
			err = fmt.Errorf("there are %d slices", len(stored))
		}
		return err
	})
	d.AwaitReady()
	f.AwaitDevices(1)
	stranger.AwaitDevices(1)

	// The other installation's driver is down: also then it is not this one's to retire.
	other.Stop()
	configure(first)
	d.AwaitReady()
	if err := marker(stranger); err != nil {
		t.Error(err)
	}
	if !strings.Contains(d.Log(), second.Driver) || strings.Contains(d.Log(), stranger.Driver) {
		t.Errorf("the log must name %s and not %s", second.Driver, stranger.Driver)
	}
}

// marker is an error unless the file is there that says whose the driver's directory is.
func marker(f *Fixture) error {
	_, err := os.Stat(f.Path("/var/lib/kubelet/plugins/" + f.Driver + "/driver.json"))
	return err
}
