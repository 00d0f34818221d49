package suite

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func gpuConfig(sharing string) string {
	return `{"opaque": {"driver": "$DRIVER", "parameters": {"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "GpuConfig", "sharing": ` + sharing + `}}}`
}

func configuredClaim(name, sharing string) string {
	return `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: ` + name + `, namespace: $NAMESPACE}
spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: $DRIVER}}], config: [` + gpuConfig(sharing) + `]}}
---`
}

const (
	longSlices   = `{"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}`
	fourParts    = `{"strategy": "SpacePartitioning", "spacePartitioningConfig": {"partitionCount": 4}}`
	unknownField = `{"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long", "color": "red"}}`
)

// The configuration of a claim reaches its container, that of the class those of claims without; the claim's outranks it.
func TestConfigurationReachesTheContainer(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.PatchClass(strings.ReplaceAll(`{"spec": {"config": [`+gpuConfig(fourParts)+`]}}`, "$DRIVER", f.Driver))
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 2, "deviceNodes": true}})
	f.AwaitDevices(2)
	f.Apply(configuredClaim("own", longSlices) + PodYAML("own", "own") + ClaimYAML("inherited", "") + PodYAML("inherited", "inherited"))
	for name, want := range map[string]map[string]string{
		"own":       {"SHARING_STRATEGY": "TimeSlicing", "TIMESLICE_INTERVAL": "Long", "PARTITION_COUNT": ""},
		"inherited": {"SHARING_STRATEGY": "SpacePartitioning", "PARTITION_COUNT": "4", "TIMESLICE_INTERVAL": ""},
	} {
		claim, view := f.RunAndCheck(name, name, 1)
		stem := "GPU_DEVICE_" + strings.TrimPrefix(Devices(claim)[0], "gpu-") + "_"
		for variable, value := range want {
			if got := view.Env[stem+variable]; got != value {
				t.Errorf("the container of %s has %s%s=%q, want %q", name, stem, variable, got, value)
			}
		}
	}
	f.EndPods()
	// The cards are as they were before the claims.
	var hardware struct {
		Cards map[string]struct{ Sharing Object }
	}
	readJSON(t, d.StatePath("hardware.json"), &hardware)
	if len(hardware.Cards) != 2 {
		t.Errorf("%d cards were set, want 2: %v", len(hardware.Cards), hardware)
	}
	for card, state := range hardware.Cards {
		if state.Sharing["strategy"] != "TimeSlicing" || state.Sharing["interval"] != "Default" {
			t.Errorf("card %s is left with %v", card, state.Sharing)
		}
	}
}

// A mistake in one claim's configuration is told to its pod, by its path, and costs nobody else anything.
func TestInvalidConfigurationFailsOnlyItsClaim(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 2, "deviceNodes": true}})
	f.AwaitDevices(2)
	f.Apply(configuredClaim("bad", unknownField) + PodYAML("bad", "bad"))
	f.AwaitEvent("bad", "FailedPrepareDynamicResources", "sharing.timeSlicingConfig.color")
	f.Apply(configuredClaim("good", longSlices) + PodYAML("good", "good"))
	f.RunAndCheck("good", "good", 1)
	if pod, err := f.Pod("bad"); err != nil || len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].State.Waiting == nil {
		t.Errorf("the pod of the bad claim: %v %+v", err, pod.Status)
	}
	f.EndPods()
}

// AwaitEvent waits until an event on a pod has that reason and says all of that.
func (f *Fixture) AwaitEvent(pod, reason string, says ...string) {
	f.T.Helper()
	Await(f.T, 60*time.Second, fmt.Sprintf("pod %s has an event %s that says %q", pod, reason, says), func() error {
		events, err := f.Client.CoreV1().Events(f.Namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var seen []string
		for _, event := range events.Items {
			if event.InvolvedObject.Name != pod || event.Reason != reason {
				continue
			}
			seen = append(seen, event.Message)
			all := true
			for _, text := range says {
				all = all && strings.Contains(event.Message, text)
			}
			if all {
				return nil
			}
		}
		return fmt.Errorf("its events of that reason: %q", seen)
	})
}
