package suite

import (
	"strings"
	"testing"
)

// Two claims share a device by capacity; a third waits until enough of it is free again.
func TestSharesOfOneDevice(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.NeedsGate("DRAConsumableCapacity")
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1, "shared": true, "deviceNodes": true}})
	f.AwaitDevices(1)
	// Memory is given in steps of 1Gi.
	f.Apply(ClaimYAML("first", `capacity: {requests: {memory: 30208Mi, compute: "40"}}`) + PodYAML("first", "first") +
		ClaimYAML("second", `capacity: {requests: {memory: 50Gi, compute: "10"}}`) + PodYAML("second", "second"))
	first := f.checkShare("first", "30Gi", "40")
	second := f.checkShare("second", "50Gi", "10")
	if first == second {
		t.Errorf("both claims have the share %s", first)
	}
	// There is compute left, but no memory.
	f.Apply(ClaimYAML("third", `capacity: {requests: {memory: 1Gi, compute: "1"}}`) + PodYAML("third", "third"))
	f.AwaitUnschedulable("third")
	f.DeletePod("first")
	f.checkShare("third", "1Gi", "1")
	// Who asks for no amount wants the whole.
	f.Apply(ClaimYAML("whole", "") + PodYAML("whole", "whole"))
	f.AwaitUnschedulable("whole")
	f.DeletePod("second")
	f.DeletePod("third")
	f.checkShare("whole", "80Gi", "100")
	f.EndPods()
}

// checkShare waits for a pod with a claim of its name on gpu-0, and checks what the share is given and the container told.
func (f *Fixture) checkShare(name, memory, compute string) string {
	f.T.Helper()
	claim, view := f.RunAndCheck(name, name, 1)
	result := claim.Status.Allocation.Devices.Results[0]
	if result.ShareID == nil {
		f.T.Fatalf("claim %s has no share: %+v", name, result)
	}
	share := strings.ToUpper(strings.ReplaceAll(string(*result.ShareID), "-", "_"))
	for capacity, want := range map[string]string{"memory": memory, "compute": compute} {
		consumed := result.ConsumedCapacity["memory"]
		if capacity == "compute" {
			consumed = result.ConsumedCapacity["compute"]
		}
		if consumed.String() != want {
			f.T.Errorf("claim %s consumes %s of %s, want %s", name, consumed.String(), capacity, want)
		}
		for _, variable := range []string{"GPU_DEVICE_0_", "GPU_DEVICE_0_SHARE_" + share + "_"} {
			if got := view.Env[variable+strings.ToUpper(capacity)]; got != want {
				f.T.Errorf("the container of %s has %s%s=%q, want %s", name, variable, strings.ToUpper(capacity), got, want)
			}
		}
	}
	return string(*result.ShareID)
}

// Two requests of one claim may land on one device; a container that names one of them sees that share alone.
func TestTwoSharesInOneClaim(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.NeedsGate("DRAConsumableCapacity")
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1, "shared": true, "deviceNodes": true}})
	f.AwaitDevices(1)
	f.Apply(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: pair, namespace: $NAMESPACE}
spec:
  devices:
    requests:
    - {name: small, exactly: {deviceClassName: $DRIVER, capacity: {requests: {memory: 10Gi, compute: "10"}}}}
    - {name: large, exactly: {deviceClassName: $DRIVER, capacity: {requests: {memory: 60Gi, compute: "60"}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: pod, namespace: $NAMESPACE}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: claim, resourceClaimName: pair}]
  containers:
  - {name: small, ` + workload + `, resources: {claims: [{name: claim, request: small}]}}
  - {name: large, ` + workload + `, resources: {claims: [{name: claim, request: large}]}}
  - {name: both, ` + workload + `, resources: {claims: [{name: claim}]}}
`)
	f.AwaitRunning("pod")
	claim, err := f.Claim("pair")
	if err != nil {
		t.Fatal(err)
	}
	memory := map[string]string{"small": "10Gi", "large": "60Gi"}
	variables := map[string]string{}
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Device != "gpu-0" || result.ShareID == nil {
			t.Fatalf("request %s has %+v, want a share of gpu-0", result.Request, result)
		}
		variables[result.Request] = "GPU_DEVICE_0_SHARE_" + strings.ToUpper(strings.ReplaceAll(string(*result.ShareID), "-", "_")) + "_MEMORY"
	}
	for container, requests := range map[string][]string{"small": {"small"}, "large": {"large"}, "both": {"small", "large"}} {
		view := f.CheckSees("pod", container, Sees(claim))
		sees := map[string]bool{}
		for _, request := range requests {
			sees[request] = true
		}
		for request, variable := range variables {
			want := ""
			if sees[request] {
				want = memory[request]
			}
			if got := view.Env[variable]; got != want {
				t.Errorf("container %s has %s=%q of request %s, want %q", container, variable, got, request, want)
			}
		}
	}
	f.EndPods()
}

// Where the API server drops shares the backend is told, and its devices are given to one claim only.
func TestWithoutSharesDevicesAreExclusive(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.NeedsNoGate("DRAConsumableCapacity")
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1, "shared": true, "deviceNodes": true}})
	f.AwaitDevices(1)
	f.Apply(ClaimYAML("first", "") + PodYAML("first", "first"))
	f.RunAndCheck("first", "first", 1)
	f.Apply(ClaimYAML("second", "") + PodYAML("second", "second"))
	f.AwaitUnschedulable("second")
	f.DeletePod("first")
	f.RunAndCheck("second", "second", 1)
	f.EndPods()
}
