package suite

import (
	"fmt"
	"testing"
)

// Counter sets lie in slices of their own, eight in each, and count as slices of the pool.
func TestCounterSetsHaveTheirOwnSlices(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.needsCounters()
	const cards, parts = 9, 2
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": cards, "partitions": parts}})
	devices := f.AwaitDevices(cards * (parts + 1))
	slices, err := f.Slices()
	if err != nil {
		t.Fatal(err)
	}
	sets := map[string]bool{}
	counterSlices := 0
	for _, slice := range slices {
		if len(slice.Spec.SharedCounters) > 0 {
			counterSlices++
		}
		if len(slice.Spec.SharedCounters) > 8 || (len(slice.Spec.SharedCounters) > 0 && len(slice.Spec.Devices) > 0) {
			t.Errorf("slice %s has %d counter sets and %d devices", slice.Name, len(slice.Spec.SharedCounters), len(slice.Spec.Devices))
		}
		for _, set := range slice.Spec.SharedCounters {
			sets[set.Name] = true
			if memory := set.Counters["memory"]; memory.Value.String() != "80Gi" {
				t.Errorf("counter set %s has %s memory, want 80Gi", set.Name, memory.Value.String())
			}
		}
	}
	if len(sets) != cards || counterSlices != 2 {
		t.Errorf("%d counter sets in %d slices, want %d in 2", len(sets), counterSlices, cards)
	}
	for name, device := range devices {
		if len(device.ConsumesCounters) != 1 || !sets[device.ConsumesCounters[0].CounterSet] {
			t.Errorf("device %s consumes of %+v", name, device.ConsumesCounters)
			continue
		}
		want := "80Gi"
		if device.Attributes["full"].BoolValue == nil {
			want = fmt.Sprintf("%dGi", 80/parts)
		}
		if memory := device.ConsumesCounters[0].Counters["memory"]; memory.Value.String() != want {
			t.Errorf("device %s consumes %s memory, want %s", name, memory.Value.String(), want)
		}
	}
}
