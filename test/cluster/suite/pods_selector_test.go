package suite

import "testing"

func TestSelectorPicksByAttribute(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 4, "deviceNodes": true}})
	devices := f.AwaitDevices(4)
	f.Apply(ClaimYAML("third", `selectors: [{cel: {expression: 'device.attributes["$DRIVER"].uuid == "`+
		*devices["gpu-2"].Attributes["uuid"].StringValue+`"'}}]`) + PodYAML("third", "third"))
	claim, _ := f.RunAndCheck("third", "third", 1)
	if got := Devices(claim)[0]; got != "gpu-2" {
		t.Errorf("the claim has device %s, want gpu-2", got)
	}
	f.EndPods()
}

func TestSelectorPicksByVersionAndCapacity(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.StartDriver(DriverOptions{Backend: Object{"inventoryFile": InventoryFile(t, Object{"devices": []Object{
		sized("small-old", "1.9.0", "8Gi"), sized("small-new", "1.10.0", "8Gi"), sized("big-old", "1.9.0", "64Gi"),
		sized("big-new", "1.10.0", "64Gi"),
	}})}})
	f.AwaitDevices(4)
	f.Apply(ClaimYAML("big", `selectors: [{cel: {expression: 'device.attributes["$DRIVER"].firmware.isGreaterThan(semver("1.9.5"))
  && device.capacity["$DRIVER"].memory.compareTo(quantity("16Gi")) > 0'}}]`) + PodYAML("big", "big"))
	f.AwaitRunning("big")
	if got := Devices(f.Allocated("big", 1))[0]; got != "big-new" {
		t.Errorf("the claim has device %s, want big-new", got)
	}
	if got := f.See("big", "main").Env["DEVICE"]; got != "big-new" {
		t.Errorf("the container got the device %q, want big-new", got)
	}
	f.EndPods()
}

// sized is a device of an inventory file, which tells a container its name.
func sized(name, firmware, memory string) Object {
	return Object{"device": Object{"name": name, "attributes": Object{"firmware": Object{"version": firmware}},
		"capacity": Object{"memory": Object{"value": memory}}}, "edits": Object{"env": []string{"DEVICE=" + name}}}
}
