package suite

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// A container that names one request of a claim gets that request's devices, not the claim's.
func TestContainerSeesOnlyTheRequestItNames(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 3, "deviceNodes": true}})
	f.AwaitDevices(3)
	f.Apply(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: both, namespace: $NAMESPACE}
spec:
  devices:
    requests:
    - {name: compute, exactly: {deviceClassName: $DRIVER, count: 2}}
    - {name: display, exactly: {deviceClassName: $DRIVER}}
---
apiVersion: v1
kind: Pod
metadata: {name: pod, namespace: $NAMESPACE}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: claim, resourceClaimName: both}]
  containers:
  - {name: compute, ` + workload + `, resources: {claims: [{name: claim, request: compute}]}}
  - {name: display, ` + workload + `, resources: {claims: [{name: claim, request: display}]}}
  - {name: everything, ` + workload + `, resources: {claims: [{name: claim}]}}
`)
	f.AwaitRunning("pod")
	claim := f.Allocated("both", 3)
	of := map[string]map[string]types.UID{"compute": {}, "display": {}}
	for _, result := range claim.Status.Allocation.Devices.Results {
		of[result.Request][result.Device] = claim.UID
	}
	if len(of["compute"]) != 2 || len(of["display"]) != 1 {
		t.Fatalf("the requests have the devices %v", of)
	}
	f.CheckSees("pod", "compute", of["compute"])
	f.CheckSees("pod", "display", of["display"])
	f.CheckSees("pod", "everything", Sees(claim))
	f.EndPods()
}
