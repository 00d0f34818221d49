package suite

import "testing"

// The first of the alternatives that fits is taken; for the container it is the request's device, whichever it was.
func TestFirstAvailableTakesWhatFits(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.NeedsGate("DRAPrioritizedList")
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 3, "deviceNodes": true}})
	f.AwaitDevices(3)
	f.Apply(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: best, namespace: $NAMESPACE}
spec:
  spec:
    devices:
      requests:
      - name: gpus
        firstAvailable:
        - name: other-model
          deviceClassName: $DRIVER
          selectors: [{cel: {expression: 'device.attributes["$DRIVER"].model == "no-such-model"'}}]
        - {name: two, deviceClassName: $DRIVER, count: 2}
        - {name: one, deviceClassName: $DRIVER}
---
apiVersion: v1
kind: Pod
metadata: {name: first, namespace: $NAMESPACE}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: claim, resourceClaimTemplateName: best}]
  containers: [{name: main, ` + workload + `, resources: {claims: [{name: claim, request: gpus}]}}]
`)
	f.checkAlternative("first", "gpus/two", 2)
	f.Apply(TemplatePodYAML("second", "best"))
	f.checkAlternative("second", "gpus/one", 1)
	f.EndPods()
}

func (f *Fixture) checkAlternative(pod, request string, count int) {
	f.T.Helper()
	f.AwaitRunning(pod)
	made, err := f.GeneratedClaim(pod, "claim")
	if err != nil {
		f.T.Fatal(err)
	}
	claim := f.Allocated(made.Name, count)
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Request != request {
			f.T.Errorf("pod %s: device %s is for %q, want %q", pod, result.Device, result.Request, request)
		}
	}
	f.CheckSees(pod, "main", Sees(claim))
}
