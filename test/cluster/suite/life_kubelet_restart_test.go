package suite

import (
	"fmt"
	"testing"
	"time"
)

// A kubelet that is started again asks for no prepare of running pods, and opens the health stream again.
func TestKubeletRestartLeavesRunningPodsAlone(t *testing.T) {
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 2, "deviceNodes": true},
		Driver: Object{"healthInterval": "1s"}})
	f.AwaitDevices(2)
	f.Apply(ClaimYAML("claim", "") + PodYAML("pod", "claim"))
	claim, _ := f.RunAndCheck("pod", "claim", 1)
	id := f.ContainerID("pod")
	device := Devices(claim)[0]
	shown := f.GateOn(t, "ResourceHealthStatus")
	sick := Object{"health": Object{device: Object{"state": "unhealthy", "faultClass": "ecc", "message": "bits flip"}}}
	d.Control(sick)
	if shown {
		f.awaitHealth("pod", "Unhealthy")
	}

	began := time.Now()
	f.Component(t, "restart", "kubelet")
	f.AwaitNodeReady(began)
	d.AwaitReady()
	f.AwaitDevices(2)
	// The kubelet that was started has looked at the pod when it has ended another one.
	f.Apply(ClaimYAML("next", "") + PodYAML("next", "next"))
	f.RunAndCheck("next", "next", 1)
	f.DeletePod("next")
	f.AwaitGone("next")
	if err := f.SameContainer("pod", id); err != nil {
		t.Error(err)
	}
	if shown {
		f.awaitHealth("pod", "Unhealthy")
		d.Control(Object{})
		f.awaitHealth("pod", "Healthy")
	}
	// A container that starts again still finds its devices: in the kubelet's checkpoint and in the CDI file.
	f.KillContainer(id)
	f.AwaitRestarted("pod", id, 120*time.Second)
	f.CheckSees("pod", "main", Sees(claim))
	d.CheckMetric(2, "dra_kubelet_calls_total", `method="NodePrepareResources"`) // one for each pod
	// For a pod that joins the claim there is a call: that the claim is prepared the kubelet no longer knows.
	f.Apply(PodYAML("joins", "claim"))
	f.RunAndCheck("joins", "claim", 1)
	d.CheckMetric(3, "dra_kubelet_calls_total", `method="NodePrepareResources"`)
	if calls := len(d.HookCalls("prepare")); calls != 2 {
		t.Errorf("%d calls of the backend's prepare, want one for each claim: %d", calls, 2)
	}
	f.EndPods()
}

// awaitHealth waits until a pod's status shows a health for its one device.
func (f *Fixture) awaitHealth(pod, want string) {
	f.T.Helper()
	Await(f.T, 90*time.Second, "pod "+pod+" shows that its device is "+want, func() error {
		container, err := f.Container(pod)
		if err != nil {
			return err
		}
		for _, status := range container.AllocatedResourcesStatus {
			if len(status.Resources) == 1 && string(status.Resources[0].Health) == want {
				return nil
			}
		}
		return fmt.Errorf("it shows %+v", container.AllocatedResourcesStatus)
	})
}
