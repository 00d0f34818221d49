package suite

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var sick = Object{"health": Object{"gpu-0": Object{"state": "unhealthy", "faultClass": "ecc", "message": "bits flip"}}}

// A sick device is given to nobody; who has it already keeps it.
func TestSickDeviceIsNotScheduled(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.NeedsGate("DRADeviceTaints")
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1, "deviceNodes": true}})
	f.AwaitDevices(1)
	f.Apply(ClaimYAML("early", "") + PodYAML("early", "early"))
	f.RunAndCheck("early", "early", 1)
	d.Control(sick)
	f.AwaitTaints("gpu-0", f.Driver+"/unhealthy=ecc:NoSchedule")
	f.checkStaysRunning("early", 3*time.Second)
	f.DeletePod("early")
	f.AwaitGone("early")
	f.Apply(ClaimYAML("late", "") + PodYAML("late", "late"))
	f.AwaitUnschedulable("late")
	d.Control(Object{})
	f.AwaitTaints("gpu-0")
	f.RunAndCheck("late", "late", 1)
	f.EndPods()
}

func TestTolerationGetsASickDevice(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.NeedsGate("DRADeviceTaints")
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1, "deviceNodes": true}})
	f.AwaitDevices(1)
	d.Control(sick)
	f.AwaitTaints("gpu-0", f.Driver+"/unhealthy=ecc:NoSchedule")
	f.Apply(ClaimYAML("other", "tolerations: [{key: $DRIVER/unhealthy, value: heat}]") + PodYAML("other", "other"))
	f.AwaitUnschedulable("other")
	f.Apply(ClaimYAML("brave", "tolerations: [{key: $DRIVER/unhealthy, value: ecc}]") + PodYAML("brave", "brave"))
	f.RunAndCheck("brave", "brave", 1)
	f.EndPods()
}

// A taint NoExecute of the backend's own ends the pods that do not tolerate it. For the scheduler a toleration without an
// effect is one of every effect; what evicts wants the effect named.
func TestNoExecuteTaintOfTheBackendEvicts(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.NeedsGate("DRADeviceTaints")
	devices := func(taints ...Object) Object {
		entries := []Object{}
		for _, name := range []string{"gpu-0", "gpu-1"} {
			entries = append(entries, Object{"device": Object{"name": name, "taints": taints}, "edits": Object{"env": []string{"DEVICE=" + name}}})
		}
		return Object{"devices": entries}
	}
	inventory := InventoryFile(t, devices())
	f.StartDriver(DriverOptions{Backend: Object{"inventoryFile": inventory}})
	f.AwaitDevices(2)
	f.Apply(ClaimYAML("plain", "") + PodYAML("plain", "plain") +
		ClaimYAML("tolerant", "tolerations: [{key: backend.test/on-fire, operator: Exists, effect: NoExecute}]") + PodYAML("tolerant", "tolerant"))
	f.AwaitRunning("plain")
	f.AwaitRunning("tolerant")
	writeJSON(t, inventory, devices(Object{"key": "backend.test/on-fire", "effect": "NoExecute"}))
	f.AwaitGone("plain")
	// The scheduler of 1.34 forgets the tolerations of a claim when it has allocated it.
	if f.AtLeast(35) {
		f.checkStaysRunning("tolerant", 3*time.Second)
	}
	f.EndPods()
}

// An administrator's DeviceTaintRule does the same to devices of any driver.
func TestDeviceTaintRuleEvicts(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.NeedsGate("DRADeviceTaints")
	if f.AtLeast(35) {
		f.NeedsGate("DRADeviceTaintRules")
	}
	version := "v1alpha3"
	if f.AtLeast(37) {
		version = "v1"
	} else if f.AtLeast(36) {
		version = "v1beta2"
	}
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 2, "deviceNodes": true}})
	f.AwaitDevices(2)
	f.Apply(ClaimYAML("plain", "") + PodYAML("plain", "plain"))
	claim, _ := f.RunAndCheck("plain", "plain", 1)
	f.Apply(ClaimYAML("neighbour", "") + PodYAML("neighbour", "neighbour"))
	f.RunAndCheck("neighbour", "neighbour", 1)
	t.Cleanup(func() { f.deleteTaintRule(version) })
	f.Apply(`
apiVersion: resource.k8s.io/` + version + `
kind: DeviceTaintRule
metadata: {name: $DRIVER}
spec:
  deviceSelector: {driver: $DRIVER, pool: ` + NodeName + `, device: ` + Devices(claim)[0] + `}
  taint: {key: admin.test/recalled, effect: NoExecute}
`)
	f.AwaitGone("plain")
	f.checkStaysRunning("neighbour", 3*time.Second)
	f.Apply(ClaimYAML("next", "") + PodYAML("next", "next"))
	f.AwaitUnschedulable("next")
	f.deleteTaintRule(version)
	f.RunAndCheck("next", "next", 1)
	f.EndPods()
}

// Where the API server drops taints a sick device would look well: it is not published, and that is said. While a claim
// holds it, it stays, whether or not a discovery has seen the claim since.
func TestWithoutTaintsASickDeviceIsWithheld(t *testing.T) {
	t.Parallel()
	for _, discoverInterval := range []string{"1s", "1h"} {
		t.Run(discoverInterval, func(t *testing.T) {
			t.Parallel()
			f := NewFixture(t)
			f.NeedsNoGate("DRADeviceTaints")
			d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 2, "deviceNodes": true},
				Driver: Object{"discoverInterval": discoverInterval}})
			f.AwaitDevices(2)
			f.Apply(ClaimYAML("early", `selectors: [{cel: {expression: 'device.attributes["$DRIVER"].index == 0'}}]`) + PodYAML("early", "early"))
			f.RunAndCheck("early", "early", 1)
			d.Control(sick)
			d.awaitFault("gpu-0", "ecc")
			Never(t, 3*time.Second, "a device that a claim holds is withdrawn", func() error {
				_, err := f.Device("gpu-0")
				return err
			})
			f.DeletePod("early")
			f.AwaitGone("early")
			if devices := f.AwaitDevices(1); devices["gpu-1"].Name == "" {
				t.Errorf("published is %v, want gpu-1", devices)
			}
			d.AwaitFinding("gpu-0", "taints", "")
			f.Apply(ClaimYAML("both", "count: 2") + PodYAML("both", "both"))
			f.AwaitUnschedulable("both")
			d.Control(Object{})
			f.RunAndCheck("both", "both", 2)
			f.EndPods()
		})
	}
}

func (d *Driver) awaitFault(device, class string) {
	d.t.Helper()
	Await(d.t, 30*time.Second, "the status socket shows the fault of "+device, func() error {
		status, err := d.DriverStatus()
		if err != nil {
			return err
		}
		for _, fault := range status["faults"].([]any) {
			if fault.(Object)["device"] == device && fault.(Object)["faultClass"] == class {
				return nil
			}
		}
		return fmt.Errorf("faults: %v", status["faults"])
	})
}

func (f *Fixture) checkStaysRunning(name string, period time.Duration) {
	f.T.Helper()
	Never(f.T, period, "pod "+name+" is ended", func() error {
		pod, err := f.Pod(name)
		if err == nil && (pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil) {
			err = fmt.Errorf("phase %s, deletion %v", pod.Status.Phase, pod.DeletionTimestamp)
		}
		return err
	})
}

func (f *Fixture) deleteTaintRule(version string) {
	rules := resourceapi.SchemeGroupVersion.WithResource("devicetaintrules")
	rules.Version = version
	_ = f.Dynamic.Resource(rules).Delete(context.Background(), f.Driver, metav1.DeleteOptions{})
}
