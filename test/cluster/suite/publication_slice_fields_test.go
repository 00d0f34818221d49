package suite

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a backend says of a whole slice is stored as sent, or left out and named; the devices are published either way.
func TestFieldsOfTheSliceAreStoredOrNamed(t *testing.T) {
	t.Parallel()
	part := Object{"device": Object{"name": "part", "attributes": Object{"f.test/profile": Object{"string": "half"}},
		"consumesCounters": []Object{{"counterSet": "card", "counters": Object{"memory": Object{"value": "4Gi"}}}}}}
	for _, field := range []struct {
		name, gate string
		value      any
		inventory  Object
	}{
		{"skipNodeOperations", "DRAOptionalNodeOperations", []any{"NodePrepareResources", "NodeUnprepareResources"},
			Object{"devices": []Object{{"device": Object{"name": "plain"}}}}},
		{"partitionTypeAttribute", "DRAPartitionableDevicesType", "f.test/profile", Object{"devices": []Object{part},
			"counterSets": []Object{{"counterSet": Object{"name": "card", "counters": Object{"memory": Object{"value": "8Gi"}}}}}}},
	} {
		t.Run(field.name, func(t *testing.T) {
			t.Parallel()
			f := NewFixture(t)
			if field.inventory["counterSets"] != nil {
				f.needsCounters()
			}
			field.inventory["sliceFields"] = Object{"": Object{field.name: field.value}}
			d := f.StartDriver(DriverOptions{Backend: Object{"inventoryFile": InventoryFile(t, field.inventory)}})
			f.AwaitDevices(1)
			var want any
			if f.GateOn(t, field.gate) {
				want = field.value
			} else {
				d.AwaitFinding("", field.name, field.gate)
			}
			check := func() error {
				list, err := f.Dynamic.Resource(resourceapi.SchemeGroupVersion.WithResource("resourceslices")).List(context.Background(),
					metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + f.Driver})
				if err != nil {
					return err
				}
				for _, slice := range list.Items {
					spec := slice.Object["spec"].(Object)
					if spec["devices"] != nil && !reflect.DeepEqual(spec[field.name], want) {
						return fmt.Errorf("slice %s has %s: %v, want %v", slice.GetName(), field.name, spec[field.name], want)
					}
				}
				return nil
			}
			Never(t, 3*time.Second, "the slices are others", check)
			status, err := d.DriverStatus()
			if err != nil {
				t.Fatal(err)
			}
			if publication := status["publication"].(Object); publication["updates"] != 0.0 || publication["error"] != "" {
				t.Errorf("the slices were not stored at once: %v", publication)
			}
		})
	}
}
