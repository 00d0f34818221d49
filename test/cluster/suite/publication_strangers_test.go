package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Whoever deletes a slice, it is back at once.
func TestDeletedSliceComesBack(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 65}})
	f.AwaitDevices(65)
	before, err := f.Slices()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Client.ResourceV1().ResourceSlices().Delete(context.Background(), before[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.awaitRepair(before, func(now []resourceapi.ResourceSlice) bool { return len(now) == 2 })
}

// What lies under `spec` is the driver's; labels that others add are theirs.
func TestEditedSliceIsSetRight(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 3}})
	f.AwaitDevices(3)
	before, err := f.Slices()
	if err != nil {
		t.Fatal(err)
	}
	name := before[0].Name
	if _, err := f.Client.ResourceV1().ResourceSlices().Patch(context.Background(), name, types.MergePatchType, []byte(
		`{"metadata": {"labels": {"stranger.test/was": "here"}}, "spec": {"devices": [{"name": "gpu-0"}, {"name": "bogus"}]}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	f.awaitRepair(before, func(now []resourceapi.ResourceSlice) bool {
		return len(now) == 1 && now[0].Name == name && now[0].Labels["stranger.test/was"] == "here"
	})
}

// A slice that a stranger makes in the driver's name would spoil the pool: it goes.
func TestForgedSliceGoes(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 2}})
	f.AwaitDevices(2)
	before, err := f.Slices()
	if err != nil {
		t.Fatal(err)
	}
	f.Apply(`
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: forged-$NAMESPACE}
spec: {driver: $DRIVER, nodeName: ` + NodeName + `, pool: {name: ` + NodeName + `, generation: 99, resourceSliceCount: 1}, devices: [{name: forged}]}
`)
	f.awaitRepair(before, func(now []resourceapi.ResourceSlice) bool { return len(now) == 1 })
}

// awaitRepair waits until the pool is complete again and offers what it did before.
func (f *Fixture) awaitRepair(before []resourceapi.ResourceSlice, also func([]resourceapi.ResourceSlice) bool) {
	f.T.Helper()
	want, err := completePool(before)
	if err != nil {
		f.T.Fatal(err)
	}
	Await(f.T, 15*time.Second, "the slices are repaired", func() error {
		now, err := f.Slices()
		if err != nil {
			return err
		}
		have, err := completePool(now)
		if err != nil {
			return err
		}
		// Maps are written in the order of their keys.
		wantText, _ := json.Marshal(want)
		haveText, _ := json.Marshal(have)
		if string(haveText) != string(wantText) || !also(now) {
			return fmt.Errorf("the slices are %+v", now)
		}
		return nil
	})
}
