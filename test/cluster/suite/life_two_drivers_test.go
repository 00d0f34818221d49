package suite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// twoDrivers starts two drivers, with GPUs and with NICs, in one process or in two. The second's control file is
// returned as what writes it.
func twoDrivers(f *Fixture, oneProcess bool) (second *Fixture, controlSecond func(Object)) {
	f.T.Helper()
	second = f.Of(f.SecondDriver())
	gpus := DriverOptions{Backend: Object{"numDevices": 1, "deviceNodes": true}}
	nics := Object{"profile": "net", "numDevices": 1, "nodeName": NodeName, "stateDirectory": StateFolder(f.T)}
	controlSecond = func(control Object) {
		writeJSON(f.T, nics["stateDirectory"].(string)+"/control.json", control)
	}
	if !oneProcess {
		f.StartDriver(gpus)
		second.StartDriver(DriverOptions{Backend: nics})
	} else {
		f.T.Cleanup((&Driver{Name: second.Driver, c: f.Cluster}).forget)
		d := NewDriver(f.T, f.Cluster, f.Driver, gpus)
		d.Config()["drivers"] = append(d.Config()["drivers"].([]Object),
			Object{"name": second.Driver, "backend": *backendPath, "config": nics})
		d.WriteConfig()
		d.Start()
		d.AwaitReady()
	}
	f.AwaitDevices(1)
	second.AwaitDevices(1)
	return second, controlSecond
}

// seesBoth checks the container of a pod that has a device of either driver.
func seesBoth(f *Fixture, pod string, gpuClaim, nicClaim types.UID) {
	f.T.Helper()
	env := f.See(pod, "main").Env
	for name, want := range map[string]string{"GPU_DEVICE_0": "gpu-0", "GPU_DEVICE_GPU_0_RESOURCE_CLAIM": string(gpuClaim),
		"NET_DEVICE_NIC_0_RESOURCE_CLAIM": string(nicClaim)} {
		if env[name] != want {
			f.T.Errorf("container of pod %s: %s is %q, want %q", pod, name, env[name], want)
		}
	}
}

// endBoth ends all pods and checks that neither driver keeps anything.
func endBoth(f, second *Fixture) {
	f.T.Helper()
	f.EndPods()
	second.AwaitNothingLeft()
}

var processes = []struct {
	name string
	one  bool
}{{"one-process", true}, {"two-processes", false}}

// One claim with a device of each of two drivers.
func TestOneClaimOfTwoDrivers(t *testing.T) {
	t.Parallel()
	for _, daemons := range processes {
		t.Run(daemons.name, func(t *testing.T) {
			t.Parallel()
			f := NewFixture(t)
			second, _ := twoDrivers(f, daemons.one)
			f.Apply(strings.ReplaceAll(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: both, namespace: $NAMESPACE}
spec:
  devices:
    requests:
    - {name: gpu, exactly: {deviceClassName: $DRIVER}}
    - {name: nic, exactly: {deviceClassName: SECOND}}
---`, "SECOND", second.Driver) + PodYAML("pod", "both"))
			f.AwaitRunning("pod")
			claim, err := f.Claim("both")
			if err != nil {
				t.Fatal(err)
			}
			seesBoth(f, "pod", claim.UID, claim.UID)
			endBoth(f, second)
		})
	}
}

// One driver's backend fails: the pod waits, the kubelet tells of that claim alone, and the other driver's work stands.
func TestOneOfTwoDriversFails(t *testing.T) {
	t.Parallel()
	for _, daemons := range processes {
		t.Run(daemons.name, func(t *testing.T) {
			t.Parallel()
			f := NewFixture(t)
			second, controlSecond := twoDrivers(f, daemons.one)
			controlSecond(Object{"hooks": Object{"prepare": Object{"fail": Object{"code": "INVALID_ARGUMENT", "message": "no such lane"}}}})
			f.Apply(ClaimYAML("gpu", "") + strings.ReplaceAll(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: nic, namespace: $NAMESPACE}
spec: {devices: {requests: [{name: nics, exactly: {deviceClassName: SECOND}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: pod, namespace: $NAMESPACE}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: gpu, resourceClaimName: gpu}, {name: nic, resourceClaimName: nic}]
  containers: [{name: main, `+workload+`, resources: {claims: [{name: gpu}, {name: nic}]}}]
`, "SECOND", second.Driver))
			Await(t, 60*time.Second, "the kubelet tells of the failed prepare", func() error {
				failed := f.FailedPrepares()
				if len(failed) == 0 {
					return fmt.Errorf("events: none")
				}
				nic, err := f.Claim("nic")
				if err != nil {
					return err
				}
				for _, message := range failed {
					if !strings.Contains(message, "no such lane") || !strings.Contains(message, string(nic.UID)) ||
						strings.Contains(message, string(f.Allocated("gpu", 1).UID)) {
						t.Fatalf("the kubelet says %q, want claim %s alone and the backend's words", message, nic.UID)
					}
				}
				return nil
			})
			controlSecond(Object{})
			f.AwaitRunningWithin("pod", afterRetry)
			nic, err := f.Claim("nic")
			if err != nil {
				t.Fatal(err)
			}
			seesBoth(f, "pod", f.Allocated("gpu", 1).UID, nic.UID)
			endBoth(f, second)
		})
	}
}
