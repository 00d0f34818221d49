package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// gatedDevice is a device that uses the fields of one feature gate.
type gatedDevice struct {
	gate, field string // "": every server keeps it
	since       int    // the minor from which on the field has this form
	device      Object
	without     Object // what is published where the field is dropped; nil: nothing
}

func gatedDevices(f *Fixture) []gatedDevice {
	taints := []Object{{"key": "a.test/slow", "value": "very", "effect": "NoSchedule"}, {"key": "hot", "effect": "NoExecute"}}
	if f.AtLeast(35) {
		taints = append(taints, Object{"key": "a.test/noted", "value": "x", "effect": "None"})
	}
	attributes := Object{
		"int": Object{"int": -5}, "big": Object{"int": 1 << 52}, "no": Object{"bool": false}, "yes": Object{"bool": true},
		"string": Object{"string": strings.Repeat("ü", 32)}, "empty": Object{"string": ""},
		"version": Object{"version": "1.2.3-rc.4+build.5"}, "other.test/family": Object{"string": "qualified"},
	}
	memory := Object{"memory": Object{"value": "8Gi"}, "other.test/rate": Object{"value": "1500m"}}
	return []gatedDevice{
		{device: Object{"name": "plain", "attributes": attributes, "capacity": memory}},
		{device: Object{"name": "bare"}},
		{gate: "DRADeviceTaints", field: "taints", device: Object{"name": "tainted", "taints": taints}},
		{gate: "DRAConsumableCapacity", field: "allowMultipleAllocations", device: Object{"name": "shared", "allowMultipleAllocations": true,
			"capacity": Object{
				"memory": Object{"value": "8Gi", "requestPolicy": Object{"default": "1Gi",
					"validRange": Object{"min": "1Gi", "max": "4Gi", "step": "1Gi"}}},
				"lanes": Object{"value": "16", "requestPolicy": Object{"default": "4", "validValues": []string{"1", "4", "16"}}},
				"free":  Object{"value": "3"},
			}}},
		{gate: "DRAPartitionableDevices", field: "consumesCounters", since: 35, device: Object{"name": "part",
			"attributes": Object{"f.test/profile": Object{"string": "half"}},
			"consumesCounters": []Object{
				{"counterSet": "card-0", "counters": Object{"memory": Object{"value": "4Gi"}, "engines": Object{"value": "1"}}},
				{"counterSet": "card-1", "counters": Object{"memory": Object{"value": "1Gi"}}},
			}}},
		{gate: "DRADeviceBindingConditions", field: "bindingConditions", device: Object{"name": "bound", "bindsToNode": true,
			"bindingConditions": []string{"a.test/attached"}, "bindingFailureConditions": []string{"a.test/broken", "a.test/gone"}}},
		{gate: "DRAListTypeAttributes", field: "attributes[list]", device: Object{"name": "ints",
			"attributes": Object{"list": Object{"ints": []int{3, 1, 2}}, "one": Object{"int": 1}}},
			without: Object{"name": "ints", "attributes": Object{"one": Object{"int": 1}}}},
		{gate: "DRAListTypeAttributes", field: "attributes[list]", device: Object{"name": "bools",
			"attributes": Object{"list": Object{"bools": []bool{true, false}}}},
			without: Object{"name": "bools"}},
		{gate: "DRAListTypeAttributes", field: "attributes[list]", device: Object{"name": "strings",
			"attributes": Object{"list": Object{"strings": []string{"b", "a"}}}},
			without: Object{"name": "strings"}},
		{gate: "DRAListTypeAttributes", field: "attributes[list]", device: Object{"name": "versions",
			"attributes": Object{"list": Object{"versions": []string{"1.0.0", "2.0.0"}}}},
			without: Object{"name": "versions"}},
		{gate: "DRANodeAllocatableResources", field: "nodeAllocatableResources", since: 37, device: Object{"name": "native",
			"capacity": Object{"cpu": Object{"value": "4"}}, "nodeAllocatableResources": Object{
				"cpu":    Object{"mapping": Object{"capacityKey": "cpu", "capacityMultiplier": "1"}},
				"memory": Object{"overhead": Object{"perPod": "1Mi", "perContainer": "512Ki"}},
			}},
			without: Object{"name": "native", "capacity": Object{"cpu": Object{"value": "4"}}}},
	}
}

// Each field is stored exactly as sent where the server keeps it. Where it drops one, what leans on it is withheld from
// the first write on, the rest is published, and the status socket names the field.
func TestEveryFieldIsStoredOrNamed(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	devices := gatedDevices(f)
	entries := []Object{}
	for _, device := range devices {
		entries = append(entries, Object{"device": device.device})
	}
	counterSets := []Object{
		{"name": "card-0", "counters": Object{"memory": Object{"value": "8Gi"}, "engines": Object{"value": "2"}}},
		{"name": "card-1", "counters": Object{"memory": Object{"value": "2Gi"}}},
	}
	stored := f.watchSlices()
	d := f.StartDriver(DriverOptions{Backend: Object{"inventoryFile": InventoryFile(t, Object{"devices": entries,
		"counterSets": []Object{{"counterSet": counterSets[0]}, {"counterSet": counterSets[1]}}})}})

	want, withheld := map[string]Object{}, map[string]bool{}
	counters := false
	for _, device := range devices {
		name := device.device["name"].(string)
		switch {
		case device.kept(f):
			want[name] = device.device
			counters = counters || device.field == "consumesCounters"
		case device.without != nil:
			want[name] = device.without
		default:
			withheld[name] = true
		}
	}
	// Ready means that all that is wanted is stored.
	have, sets := f.rawSlices()
	for name, device := range want {
		if sent := roundTrip(t, device); !reflect.DeepEqual(have[name], sent) {
			t.Errorf("device %s is stored as\n%v, want\n%v", name, have[name], sent)
		}
	}
	for name := range have {
		if want[name] == nil {
			t.Errorf("device %s is stored, which leans on a field that the server drops", name)
		}
	}
	wantSets := []any{}
	if counters {
		wantSets = roundTrip(t, Object{"sets": counterSets})["sets"].([]any)
	}
	if !reflect.DeepEqual(sets, wantSets) {
		t.Errorf("the counter sets %v are stored, want %v", sets, wantSets)
	}
	// What a server adds and spells in its own way is no difference that would be written again and again.
	before, err := f.Slices()
	if err != nil {
		t.Fatal(err)
	}
	Never(t, 3*time.Second, "the slices are written again", func() error {
		now, err := f.Slices()
		if err == nil && !reflect.DeepEqual(now, before) {
			err = fmt.Errorf("there were %v, now there are %v", before, now)
		}
		return err
	})
	for _, slice := range stored() {
		for _, device := range slice.Spec.Devices {
			if withheld[device.Name] {
				t.Errorf("slice %s once had device %s, which leans on a field that the server drops: %+v", slice.Name, device.Name, device)
			}
		}
	}
	Await(t, 30*time.Second, "the status socket names what is dropped, and nothing else", func() error {
		var wrong []string
		for _, device := range devices {
			findings, err := d.Findings(device.device["name"].(string))
			if err != nil {
				return err
			}
			named := false
			for _, finding := range findings {
				named = named || finding["field"] == device.field && strings.Contains(finding["problem"].(string), device.gate)
			}
			if kept := device.kept(f); kept && len(findings) > 0 || !kept && !named {
				wrong = append(wrong, fmt.Sprintf("of device %s, field %s of gate %s, kept %v, it says %v", device.device["name"],
					device.field, device.gate, kept, findings))
			}
		}
		if len(wrong) > 0 {
			return fmt.Errorf("%s", strings.Join(wrong, "\n"))
		}
		return nil
	})
}

func (d gatedDevice) kept(f *Fixture) bool {
	return d.gate == "" || f.AtLeast(d.since) && f.GateOn(f.T, d.gate)
}

// rawSlices are the stored devices by name, without the times of their taints, and the counter sets, both as the server
// has them: typed clients would hide what they do not know.
func (f *Fixture) rawSlices() (map[string]Object, []any) {
	f.T.Helper()
	list, err := f.Dynamic.Resource(resourceapi.SchemeGroupVersion.WithResource("resourceslices")).List(context.Background(),
		metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + f.Driver})
	if err != nil {
		f.T.Fatal(err)
	}
	devices, sets := map[string]Object{}, []any{}
	for _, slice := range list.Items {
		spec := roundTrip(f.T, slice.Object)["spec"].(Object)
		some, _ := spec["devices"].([]any)
		for _, entry := range some {
			device := entry.(Object)
			taints, _ := device["taints"].([]any)
			for _, taint := range taints {
				if taint.(Object)["timeAdded"] == nil {
					f.T.Errorf("device %s has a taint without time: %v", device["name"], taint)
				}
				delete(taint.(Object), "timeAdded")
			}
			devices[device["name"].(string)] = device
		}
		some, _ = spec["sharedCounters"].([]any)
		sets = append(sets, some...)
	}
	return devices, sets
}

func roundTrip(t *testing.T, value Object) Object {
	t.Helper()
	text, err := json.Marshal(value)
	var result Object
	if err == nil {
		err = json.Unmarshal(text, &result)
	}
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// watchSlices remembers every state that a slice of the driver is stored in from now on; what it returns ends that.
func (f *Fixture) watchSlices() func() []resourceapi.ResourceSlice {
	f.T.Helper()
	watching, err := f.Client.ResourceV1().ResourceSlices().Watch(context.Background(),
		metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + f.Driver})
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(watching.Stop)
	states := make(chan []resourceapi.ResourceSlice, 1)
	go func() {
		var all []resourceapi.ResourceSlice
		for event := range watching.ResultChan() {
			if slice, known := event.Object.(*resourceapi.ResourceSlice); known && event.Type != watch.Deleted {
				all = append(all, *slice)
			}
		}
		states <- all
	}()
	return func() []resourceapi.ResourceSlice {
		f.T.Helper()
		watching.Stop()
		all := <-states
		if len(all) == 0 {
			f.T.Error("the watch saw no slice at all")
		}
		return all
	}
}
