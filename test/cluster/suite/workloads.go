package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClaimYAML is a claim with one request, "gpus"; `exactly` is the request without its class.
func ClaimYAML(name, exactly string) string {
	return `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: ` + name + `, namespace: $NAMESPACE}
spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: $DRIVER` + after(", ", exactly) + `}}]}}
---`
}

// PodYAML is a pod whose one container, "main", shows what it sees of a claim.
func PodYAML(name, claim string) string {
	return podYAML(name, "resourceClaimName: "+claim)
}

// TemplatePodYAML is the same with a claim made from a template.
func TemplatePodYAML(name, template string) string {
	return podYAML(name, "resourceClaimTemplateName: "+template)
}

func podYAML(name, source string) string {
	return `
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: $NAMESPACE}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: claim, ` + source + `}]
  containers: [{name: main, ` + workload + `, resources: {claims: [{name: claim}]}}]
---`
}

// What each container runs.
const workload = image + `, command: [show]`

const image = `image: "docker.io/local/workload:1", imagePullPolicy: IfNotPresent`

func after(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

// Devices are the names of the devices that a claim was given, in the order of its allocation.
func Devices(claim *resourceapi.ResourceClaim) []string {
	var names []string
	if claim.Status.Allocation != nil {
		for _, result := range claim.Status.Allocation.Devices.Results {
			names = append(names, result.Device)
		}
	}
	return names
}

// Allocated reads a claim that must have been given so many devices, each another one.
func (f *Fixture) Allocated(name string, count int) *resourceapi.ResourceClaim {
	f.T.Helper()
	claim, err := f.Claim(name)
	if err != nil {
		f.T.Fatal(err)
	}
	devices := Devices(claim)
	if len(devices) != count || len(slices.Compact(slices.Sorted(slices.Values(devices)))) != count {
		f.T.Fatalf("claim %s has the devices %v, want %d different ones", name, devices, count)
	}
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != f.Driver || result.Pool != NodeName {
			f.T.Fatalf("claim %s has device %s of driver %s, pool %s", name, result.Device, result.Driver, result.Pool)
		}
	}
	return claim
}

// GPUs are the devices of the fake backend's profile `gpu` that a container sees in its environment.
func (v View) GPUs() []string {
	var names []string
	for name, value := range v.Env {
		if strings.HasPrefix(name, "GPU_DEVICE_") && strings.HasPrefix(value, "gpu-") {
			names = append(names, value)
		}
	}
	return slices.Sorted(slices.Values(names))
}

// CheckSees looks into a container: it must see exactly these devices of these claims (device name to claim UID), in its
// environment, and as device nodes and mounts, for which the backend needs the option `deviceNodes`.
func (f *Fixture) CheckSees(pod, container string, want map[string]types.UID) View {
	f.T.Helper()
	view := f.See(pod, container)
	if got := view.GPUs(); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		f.T.Errorf("container %s/%s sees the devices %v, want %v", pod, container, got, slices.Sorted(maps.Keys(want)))
	}
	nodes, mounts := map[string]bool{}, map[string]bool{}
	for device, uid := range want {
		variable := "GPU_DEVICE_" + strings.ToUpper(strings.ReplaceAll(device, "-", "_")) + "_RESOURCE_CLAIM"
		if view.Env[variable] != string(uid) {
			f.T.Errorf("container %s/%s: %s is %q, want %q", pod, container, variable, view.Env[variable], uid)
		}
		nodes["/dev/fake"+strings.Split(device, "-")[1]] = true
		mounts["/run/fake-gpu/"+string(uid)] = true
	}
	for path := range view.Devices {
		if strings.HasPrefix(path, "/dev/fake") && !nodes[path] {
			f.T.Errorf("container %s/%s has the device node %s, wants only %v", pod, container, path, nodes)
		}
	}
	for path := range nodes {
		if kind := view.Devices[path]; kind != "character special file 1:3" {
			f.T.Errorf("container %s/%s: %s is %q, want the null device", pod, container, path, kind)
		}
	}
	for path := range view.Mounts {
		if strings.HasPrefix(path, "/run/fake-gpu/") && !mounts[path] {
			f.T.Errorf("container %s/%s has the mount %s, wants only %v", pod, container, path, mounts)
		}
	}
	for path := range mounts {
		if !strings.HasPrefix(view.Mounts[path]+",", "ro,") {
			f.T.Errorf("container %s/%s: mount %s has the options %q, want it read-only", pod, container, path, view.Mounts[path])
		}
	}
	return view
}

// Sees is what CheckSees wants for a claim whose every device the container gets.
func Sees(claims ...*resourceapi.ResourceClaim) map[string]types.UID {
	want := map[string]types.UID{}
	for _, claim := range claims {
		for _, device := range Devices(claim) {
			want[device] = claim.UID
		}
	}
	return want
}

// RunAndCheck waits until a pod of PodYAML runs and checks that it sees the devices of its claim, so many of them.
func (f *Fixture) RunAndCheck(pod, claim string, count int) (*resourceapi.ResourceClaim, View) {
	f.T.Helper()
	f.AwaitRunning(pod)
	allocated := f.Allocated(claim, count)
	return allocated, f.CheckSees(pod, "main", Sees(allocated))
}

// AwaitTaints waits until a device has exactly these taints, written as key=value:effect.
func (f *Fixture) AwaitTaints(device string, want ...string) {
	f.T.Helper()
	Await(f.T, 30*time.Second, fmt.Sprintf("device %s has the taints %v", device, want), func() error {
		published, err := f.Device(device)
		if err != nil {
			return err
		}
		var have []string
		for _, taint := range published.Taints {
			have = append(have, fmt.Sprintf("%s=%s:%s", taint.Key, taint.Value, taint.Effect))
		}
		if !slices.Equal(have, want) {
			return fmt.Errorf("it has %v", have)
		}
		return nil
	})
}

// Device is a device as it is published.
func (f *Fixture) Device(name string) (resourceapi.Device, error) {
	published, err := f.Slices()
	if err != nil {
		return resourceapi.Device{}, err
	}
	devices, err := completePool(published)
	if err != nil {
		return resourceapi.Device{}, err
	}
	device, found := devices[name]
	if !found {
		return device, fmt.Errorf("device %s is not published", name)
	}
	return device, nil
}

// PatchClass changes the test's device class by a JSON merge patch.
func (f *Fixture) PatchClass(patch string) {
	f.T.Helper()
	if _, err := f.Client.ResourceV1().DeviceClasses().Patch(context.Background(), f.Driver, types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{}); err != nil {
		f.T.Fatalf("patch class %s: %v", f.Driver, err)
	}
}

// InventoryFile is where a test puts the devices that the backend's option `inventoryFile` names.
func InventoryFile(t *testing.T, inventory Object) string {
	t.Helper()
	path := t.TempDir() + "/inventory.json"
	writeJSON(t, path, inventory)
	return path
}

func readJSON(t *testing.T, path string, value any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, value)
	}
	if err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
}
