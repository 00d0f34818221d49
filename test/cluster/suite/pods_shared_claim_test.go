package suite

import (
	"fmt"
	"testing"
	"time"
)

func TestOneClaimForAllContainersOfAPod(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 2, "deviceNodes": true}})
	f.AwaitDevices(2)
	f.Apply(ClaimYAML("shared", "") + `
apiVersion: v1
kind: Pod
metadata: {name: many, namespace: $NAMESPACE}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: claim, resourceClaimName: shared}]
  initContainers:
  - {name: before, image: "docker.io/local/workload:1", imagePullPolicy: IfNotPresent, command: [show, once], resources: {claims: [{name: claim}]}}
  containers:
  - {name: first, ` + workload + `, resources: {claims: [{name: claim}]}}
  - {name: second, ` + workload + `, resources: {claims: [{name: claim}]}}
  - {name: without, ` + workload + `}
`)
	f.AwaitRunning("many")
	claim := f.Allocated("shared", 1)
	for _, container := range []string{"before", "first", "second"} {
		f.CheckSees("many", container, Sees(claim))
	}
	f.CheckSees("many", "without", nil)
	if calls := d.HookCalls("prepare"); len(calls) != 1 {
		t.Errorf("the claim was prepared %d times, want once", len(calls))
	}
	f.EndPods()
}

// The device is released after the last of a claim's pods, not after the first.
func TestOneClaimForTwoPods(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1, "deviceNodes": true}})
	f.AwaitDevices(1)
	f.Apply(ClaimYAML("shared", "") + PodYAML("first", "shared") + PodYAML("second", "shared"))
	claim, _ := f.RunAndCheck("first", "shared", 1)
	f.RunAndCheck("second", "shared", 1)
	f.Apply(ClaimYAML("waiting", "") + PodYAML("waiting", "waiting"))
	f.AwaitUnschedulable("waiting")

	f.DeletePod("first")
	f.AwaitGone("first")
	Never(t, 5*time.Second, "the claim is released while a pod uses it", func() error {
		if calls := d.HookCalls("unprepare"); len(calls) != 0 {
			return fmt.Errorf("unprepare was called: %v", calls)
		}
		now, err := f.Claim("shared")
		if err == nil && (len(Devices(now)) != 1 || len(now.Status.ReservedFor) != 1 || now.Status.ReservedFor[0].Name != "second") {
			err = fmt.Errorf("claim: %+v", now.Status)
		}
		return err
	})
	f.Apply(PodYAML("third", "shared"))
	again, _ := f.RunAndCheck("third", "shared", 1)
	if again.UID != claim.UID || Devices(again)[0] != Devices(claim)[0] {
		t.Errorf("the third pod has another claim or device: %+v", again.Status.Allocation)
	}

	f.DeletePod("second")
	f.DeletePod("third")
	f.RunAndCheck("waiting", "waiting", 1)
	if calls := d.HookCalls("unprepare"); len(calls) != 1 || calls[0]["claim"] != string(claim.UID) {
		t.Errorf("the shared claim was not unprepared once: %v", calls)
	}
	f.EndPods()
}

// A sidecar is an init container that goes on: it has the claim as long as the pod lives.
func TestOneClaimForASidecar(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	if !f.AtLeast(35) {
		f.NeedsNoGate("EventedPLEG") // with it the kubelet of 1.34 calls a pod with a sidecar pending for ever
	}
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1, "deviceNodes": true}})
	f.AwaitDevices(1)
	f.Apply(ClaimYAML("shared", "") + `
apiVersion: v1
kind: Pod
metadata: {name: pod, namespace: $NAMESPACE}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: claim, resourceClaimName: shared}]
  initContainers:
  - {name: sidecar, restartPolicy: Always, ` + workload + `, resources: {claims: [{name: claim}]}}
  containers:
  - {name: main, ` + workload + `, resources: {claims: [{name: claim}]}}
`)
	f.AwaitRunning("pod")
	claim := f.Allocated("shared", 1)
	f.CheckSees("pod", "sidecar", Sees(claim))
	f.CheckSees("pod", "main", Sees(claim))
	f.EndPods()
}
