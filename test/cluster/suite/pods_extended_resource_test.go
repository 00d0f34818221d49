package suite

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// A pod that knows nothing of claims asks for a number, as with device plugins.
func TestExtendedResourceGivesDevices(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.NeedsGate("DRAExtendedResource")
	f.PatchClass(`{"spec": {"extendedResourceName": "` + f.Driver + `/gpu"}}`)
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 3, "deviceNodes": true}})
	f.AwaitDevices(3)
	f.Apply(`
apiVersion: v1
kind: Pod
metadata: {name: old-style, namespace: $NAMESPACE}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: two, ` + workload + `, resources: {limits: {$DRIVER/gpu: 2}}}
  - {name: one, ` + workload + `, resources: {limits: {$DRIVER/gpu: 1}}}
`)
	f.AwaitRunning("old-style")
	pod, err := f.Pod("old-style")
	if err != nil {
		t.Fatal(err)
	}
	status := pod.Status.ExtendedResourceClaimStatus
	if status == nil || len(status.RequestMappings) != 2 {
		t.Fatalf("the pod's extended resource claim: %+v", status)
	}
	claim := f.Allocated(status.ResourceClaimName, 3)
	for _, mapping := range status.RequestMappings {
		want := map[string]types.UID{}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.Request == mapping.RequestName {
				want[result.Device] = claim.UID
			}
		}
		if count := map[string]int{"two": 2, "one": 1}[mapping.ContainerName]; len(want) != count {
			t.Errorf("container %s has the devices %v, want %d", mapping.ContainerName, want, count)
		}
		f.CheckSees("old-style", mapping.ContainerName, want)
	}
	f.EndPods()
	Await(t, 60*time.Second, "the claim is gone", func() error {
		_, err := f.Claim(claim.Name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("claim %s is still there (%v)", claim.Name, err)
	})
}
