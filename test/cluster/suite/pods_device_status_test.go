package suite

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// What a backend knows of a prepared device stands in the claim's status as long as the claim is prepared.
func TestDeviceStatusStandsInTheClaim(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 2, "deviceNodes": true, "deviceStatus": true}})
	devices := f.AwaitDevices(2)
	f.Apply(ClaimYAML("both", "count: 2") + PodYAML("pod", "both"))
	f.RunAndCheck("pod", "both", 2)
	Await(t, 30*time.Second, "the claim's status has both devices", func() error {
		claim, err := f.Claim("both")
		if err == nil && len(claim.Status.Devices) != 2 {
			err = fmt.Errorf("status.devices is %+v", claim.Status.Devices)
		}
		return err
	})
	for _, status := range f.Allocated("both", 2).Status.Devices {
		if status.Driver != f.Driver || status.Pool != NodeName || status.Data == nil {
			t.Fatalf("status.devices has %+v", status)
		}
		var data map[string]resourceapi.DeviceAttribute
		if err := json.Unmarshal(status.Data.Raw, &data); err != nil {
			t.Fatalf("data of %s: %v: %s", status.Device, err, status.Data.Raw)
		}
		for _, name := range []string{"uuid", "model", "driverVersion"} {
			want := devices[status.Device].Attributes[resourceapi.QualifiedName(name)]
			if got := data[name]; !reflect.DeepEqual(got, want) || reflect.ValueOf(got).IsZero() {
				t.Errorf("device %s: %s is %+v in its status, %+v in its slice", status.Device, name, got, want)
			}
		}
	}
	f.EndPods()
	Await(t, 30*time.Second, "the claim's status has no device", func() error {
		claim, err := f.Claim("both")
		if err == nil && len(claim.Status.Devices) != 0 {
			err = fmt.Errorf("status.devices is %+v", claim.Status.Devices)
		}
		return err
	})
}
