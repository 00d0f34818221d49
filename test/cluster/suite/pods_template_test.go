package suite

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A template makes a claim for each pod, so each has a device of its own, and the claims go with the pods.
func TestTemplateGivesEachPodItsOwnDevice(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 3, "deviceNodes": true}})
	f.AwaitDevices(3)
	f.Apply(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: $NAMESPACE}
spec: {spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: $DRIVER}}]}}}
`)
	pods := []string{"a", "b", "c"}
	for _, pod := range pods {
		f.Apply(TemplatePodYAML(pod, "one"))
	}
	owner := map[string]string{}
	for _, pod := range pods {
		f.AwaitRunning(pod)
		made, err := f.GeneratedClaim(pod, "claim")
		if err != nil {
			t.Fatal(err)
		}
		claim := f.Allocated(made.Name, 1)
		device := Devices(claim)[0]
		if other, taken := owner[device]; taken {
			t.Errorf("device %s is given to pod %s and to pod %s", device, other, pod)
		}
		owner[device] = pod
		f.CheckSees(pod, "main", Sees(claim))
	}
	f.EndPods()
	Await(t, 60*time.Second, "the claims are gone", func() error {
		claims, err := f.Client.ResourceV1().ResourceClaims(f.Namespace).List(context.Background(), metav1.ListOptions{})
		if err == nil && len(claims.Items) > 0 {
			err = fmt.Errorf("there are %d", len(claims.Items))
		}
		return err
	})
}
