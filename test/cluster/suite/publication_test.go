package suite

import (
	"fmt"
	"testing"
	"time"
)

// Counts around the limits of a slice (64 devices here, 128 by the API's own), and one far above.
func TestPublishesAnyNumberOfDevices(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, 64, 65, 128, 129, 1000} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			t.Parallel()
			f := NewFixture(t)
			d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": count}})
			f.AwaitDevices(count)
			slices, err := f.Slices()
			if err != nil {
				t.Fatal(err)
			}
			if want := (count + 63) / 64; len(slices) != want {
				t.Errorf("%d slices, want %d", len(slices), want)
			}
			status, err := d.DriverStatus()
			if err != nil {
				t.Fatal(err)
			}
			publication := status["publication"].(Object)
			// More creates than slices are the kubelet's doing: one that was started anew a moment ago deletes slices.
			if publication["creates"].(float64) < float64(len(slices)) || publication["updates"] != 0.0 || publication["deletes"] != 0.0 {
				t.Errorf("%d slices took %v creates, %v updates, %v deletes", len(slices), publication["creates"],
					publication["updates"], publication["deletes"])
			}
		})
	}
}

// A kubelet that starts deletes the slices of its node; the driver's must be back at once, not after a resync.
func TestSlicesComeBackAfterAKubeletRestart(t *testing.T) {
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 3}})
	f.AwaitDevices(3)
	before, err := f.Slices()
	if err != nil {
		t.Fatal(err)
	}
	f.Component(t, "restart", "kubelet")
	// Until then all looks as it did before the restart.
	Await(t, 60*time.Second, "the kubelet has deleted the slice, and there is another", func() error {
		now, err := f.Slices()
		if err == nil && (len(now) != 1 || now[0].UID == before[0].UID) {
			err = fmt.Errorf("the slices are %+v", now)
		}
		return err
	})
	d.AwaitReady()
	f.AwaitDevices(3)
}
