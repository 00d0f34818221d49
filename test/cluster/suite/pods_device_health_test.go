package suite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The health that a backend reports reaches the status of the pod that uses the device, also the way back.
func TestDeviceHealthStandsInThePod(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.NeedsGate("ResourceHealthStatus")
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 2, "deviceNodes": true}})
	f.AwaitDevices(2)
	// The kubelet of 1.34 finds the claim only if its name is that which it has in the pod.
	f.Apply(ClaimYAML("claim", "count: 2") + PodYAML("pod", "claim"))
	claim, _ := f.RunAndCheck("pod", "claim", 2)
	id := func(device string) string { return "k8s." + f.Driver + "/claim=" + string(claim.UID) + "-" + device }
	f.awaitHealthInPod("pod", id("gpu-0"), corev1.ResourceHealthStatusHealthy, "")
	f.awaitHealthInPod("pod", id("gpu-1"), corev1.ResourceHealthStatusHealthy, "")
	d.Control(sick)
	f.awaitHealthInPod("pod", id("gpu-0"), corev1.ResourceHealthStatusUnhealthy, "bits flip")
	f.awaitHealthInPod("pod", id("gpu-1"), corev1.ResourceHealthStatusHealthy, "")
	d.Control(Object{})
	f.awaitHealthInPod("pod", id("gpu-0"), corev1.ResourceHealthStatusHealthy, "")
	f.EndPods()
}

func (f *Fixture) awaitHealthInPod(podName, id string, health corev1.ResourceHealthStatus, message string) {
	f.T.Helper()
	Await(f.T, 60*time.Second, fmt.Sprintf("pod %s has %s %s", podName, id, health), func() error {
		pod, err := f.Pod(podName)
		if err != nil {
			return err
		}
		if len(pod.Status.ContainerStatuses) != 1 {
			return fmt.Errorf("containers: %+v", pod.Status.ContainerStatuses)
		}
		statuses := pod.Status.ContainerStatuses[0].AllocatedResourcesStatus
		for _, status := range statuses {
			for _, resource := range status.Resources {
				if string(resource.ResourceID) != id || resource.Health != health {
					continue
				}
				said := ""
				if resource.Message != nil {
					said = *resource.Message
				}
				// The message came with Kubernetes 1.36.
				if f.AtLeast(36) && !strings.Contains(said, message) {
					return fmt.Errorf("its message is %q", said)
				}
				return nil
			}
		}
		return fmt.Errorf("allocatedResourcesStatus is %+v", statuses)
	})
}
