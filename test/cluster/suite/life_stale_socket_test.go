package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A killed driver leaves its registration socket, and a kubelet that starts afterwards, as after a power cut, asks there
// for ten seconds, again and again, each time twice as long after the time before, up to two minutes.
func restartKubeletWithDeadSocket(f *Fixture, d *Driver, until string) {
	f.T.Helper()
	d.Kill()
	log := filepath.Join(f.state, "log", "kubelet.log")
	before, err := os.Stat(log)
	if err != nil {
		f.T.Fatal(err)
	}
	f.Component(f.T, "restart", "kubelet")
	line := regexp.MustCompile(regexp.QuoteMeta(f.Driver) + `-reg\.sock".*` + until)
	Await(f.T, 150*time.Second, "the kubelet logs "+line.String(), func() error {
		text, err := os.ReadFile(log)
		if err == nil && !line.Match(text[before.Size():]) {
			err = fmt.Errorf("no such line in %s", log)
		}
		return err
	})
}

func (d *Driver) registered() error {
	status, err := d.DriverStatus()
	if err == nil && status["registration"].(Object)["registered"] != true {
		err = fmt.Errorf("registration %v", status["registration"])
	}
	return err
}

// A driver that starts then must not wait for the kubelet's next time.
func TestDeadSocketDoesNotDelayTheNextDriver(t *testing.T) {
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1}})
	restartKubeletWithDeadSocket(f, d, "failed.*durationBeforeRetry 16s")
	d.Start()
	Await(t, 8*time.Second, "the kubelet has registered the driver", d.registered)
}

// Nor may the kubelet take the new socket for the dead one that it asks just now: then it finds out a second later that they
// differ and registers the driver once more, and the prepares that run in between fail.
func TestDeadSocketIsNotTakenForTheNextDriver(t *testing.T) {
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1}})
	restartKubeletWithDeadSocket(f, d, "connection refused")
	d.Start()
	Await(t, 60*time.Second, "the kubelet has registered the driver", d.registered)
	Never(t, 5*time.Second, "the kubelet registers the driver a second time", func() error {
		if times := strings.Count(d.Log(), "registered with the kubelet"); times != 2 { // one by each process
			return fmt.Errorf("%d registrations in the log, want 2", times)
		}
		return nil
	})
}
