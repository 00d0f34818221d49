package suite

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	nvidiaBackend   = flag.String("nvidia-backend", "", "path of the NVIDIA backend's library; empty: its tests are skipped")
	nvidiaSimulator = flag.String("nvidia-simulator", "", "path of dra-nvidia-simulator")
)

const (
	nvidiaDriver = "gpu.nvidia.com"
	nvidiaMajor  = 195
)

// NVIDIANode is the node with simulated GPUs, and the driver for them under the name and with the classes that claims for
// NVIDIA's own driver use. A node has one driver of a name, so there is one NVIDIANode at a time.
type NVIDIANode struct {
	*Fixture
	*Driver
	root string // of the simulated host, the same path on the node and here
}

// NewNVIDIANode makes the GPUs of a simulator's model. The driver is not started.
func NewNVIDIANode(t *testing.T, model string, create ...string) *NVIDIANode {
	t.Helper()
	if *nvidiaBackend == "" || *nvidiaSimulator == "" {
		t.Skip("needs -nvidia-backend and -nvidia-simulator")
	}
	if _, err := os.Stat("/proc/driver/nvidia"); err == nil {
		t.Skip("this machine has NVIDIA's driver: the nodes of simulated GPUs would open real ones")
	}
	loadGlibcImage(t)
	f := &Fixture{Cluster: cluster, T: t, Driver: nvidiaDriver,
		Namespace: "nvidia-" + strings.ToLower(filepath.Base(t.Name()))}
	t.Cleanup(f.remove)
	t.Cleanup(func() {
		_ = f.Client.ResourceV1().DeviceClasses().Delete(context.Background(), "mig.nvidia.com", metav1.DeleteOptions{})
	})
	// As the chart makes them of templates/chart/examples/nvidia.yaml; `nvidia.com/gpu` is set where a test is about it.
	f.Apply(`
apiVersion: v1
kind: Namespace
metadata: {name: $NAMESPACE, labels: {resource.kubernetes.io/admin-access: "true"}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec:
  selectors:
  - cel: {expression: "device.driver == 'gpu.nvidia.com'"}
  - cel: {expression: "device.attributes['gpu.nvidia.com'].type == 'gpu'"}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: mig.nvidia.com}
spec:
  selectors:
  - cel: {expression: "device.driver == 'gpu.nvidia.com'"}
  - cel: {expression: "device.attributes['gpu.nvidia.com'].type == 'mig'"}
`)
	folder := t.TempDir()
	n := &NVIDIANode{Fixture: f, root: filepath.Join(folder, "host")}
	file := filepath.Join(folder, "model.yaml")
	if err := os.WriteFile(file, []byte(model), 0o644); err != nil {
		t.Fatal(err)
	}
	n.simulator(append([]string{"create", file, n.root}, create...)...)
	n.Driver = NewDriver(t, f.Cluster, nvidiaDriver, DriverOptions{})
	entry := n.Config()["drivers"].([]Object)[0]
	entry["backend"] = *nvidiaBackend
	entry["config"] = Object{"driverRoot": n.root, "devRoot": n.root, "kernelRoot": n.root, "pollSeconds": 1}
	n.WriteConfig()
	t.Cleanup(f.release)
	return n
}

// StartNVIDIANode is one whose driver has published so many devices.
func StartNVIDIANode(t *testing.T, model string, devices int, create ...string) (*NVIDIANode, map[string]resourceapi.Device) {
	t.Helper()
	n := NewNVIDIANode(t, model, create...)
	n.Start()
	n.AwaitReady()
	return n, n.AwaitDevices(devices)
}

var glibcImage sync.Once

func loadGlibcImage(t *testing.T) {
	t.Helper()
	glibcImage.Do(func() {
		archive := filepath.Join(t.TempDir(), "glibc.tar")
		script := filepath.Join(filepath.Dir(*runScript), "lib", "glibc_image.sh")
		for _, command := range []*exec.Cmd{exec.Command(script, archive), cluster.script("load", archive)} {
			if output, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", command.Args, err, output)
			}
		}
	})
}

func (n *NVIDIANode) simulator(arguments ...string) []byte {
	n.T.Helper()
	output, err := exec.Command(*nvidiaSimulator, arguments...).CombinedOutput()
	if err != nil {
		n.T.Fatalf("dra-nvidia-simulator %v: %v\n%s", arguments, err, output)
	}
	return output
}

// CheckOnePod gives a pod a GPU, looks that it sees that one and no other, and ends it.
func (n *NVIDIANode) CheckOnePod() {
	n.T.Helper()
	n.Apply(ClassClaimYAML("claim", nvidiaDriver, "", "") + GlibcPodYAML("claim"))
	gpu := n.AwaitAllocatedPod("claim", 1)[0]
	n.CheckUUIDs("claim", "main", text(gpu, "uuid"))
	n.EndPods()
}

// Set changes the simulated node while all runs.
func (n *NVIDIANode) Set(arguments ...string) {
	n.T.Helper()
	n.simulator(append([]string{"set", n.root}, arguments...)...)
}

// SimulatedGPU is a card as the simulator has it.
type SimulatedGPU struct {
	UUID  string
	Minor int
	MIG   []struct {
		Profile, UUID string
		GI, CI, Start int
	}
}

// GPUs are the node's cards.
func (n *NVIDIANode) GPUs() []SimulatedGPU {
	n.T.Helper()
	var state struct{ GPUs []SimulatedGPU }
	if err := json.Unmarshal(n.simulator("show", n.root), &state); err != nil {
		n.T.Fatal(err)
	}
	return state.GPUs
}

// GPU is the card of that UUID.
func (n *NVIDIANode) GPU(uuid string) SimulatedGPU {
	n.T.Helper()
	for _, gpu := range n.GPUs() {
		if gpu.UUID == uuid {
			return gpu
		}
	}
	n.T.Fatalf("the node has no GPU %s", uuid)
	return SimulatedGPU{}
}

// CapabilityMinors are those of a MIG instance and of its compute instance, as the kernel's file gives them.
func (n *NVIDIANode) CapabilityMinors(minor, gi, ci int) []string {
	n.T.Helper()
	text, err := os.ReadFile(filepath.Join(n.root, "proc/driver/nvidia-caps/mig-minors"))
	if err != nil {
		n.T.Fatal(err)
	}
	var minors []string
	for _, name := range []string{fmt.Sprintf("gpu%d/gi%d/access", minor, gi), fmt.Sprintf("gpu%d/gi%d/ci%d/access", minor, gi, ci)} {
		line := regexp.MustCompile(`(?m)^` + name + ` (\d+)$`).FindSubmatch(text)
		if line == nil {
			n.T.Fatalf("mig-minors has no %s:\n%s", name, text)
		}
		minors = append(minors, string(line[1]))
	}
	return minors
}

// Major is the number that the simulated kernel gives a driver's character devices.
func (n *NVIDIANode) Major(name string) string {
	n.T.Helper()
	text, err := os.ReadFile(filepath.Join(n.root, "proc/devices"))
	if err != nil {
		n.T.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ *(\d+) ` + name + `$`).FindSubmatch(text)
	if line == nil {
		n.T.Fatalf("/proc/devices has no %s:\n%s", name, text)
	}
	return string(line[1])
}

// Listen takes a socket of the node, where nothing more answers. It ends with the test.
func (n *NVIDIANode) Listen(path string) net.Listener {
	n.T.Helper()
	// The path through /proc may be longer than a socket's address: it is reached by its folder.
	folder, err := os.Open(n.Path(filepath.Dir(path)))
	if err != nil {
		n.T.Fatal(err)
	}
	listener, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), filepath.Base(path)))
	if err != nil {
		n.T.Fatal(err)
	}
	n.T.Cleanup(func() {
		listener.Close()
		folder.Close()
	})
	return listener
}

// ClassClaimYAML is a claim with one request, "gpus", of a class; `exactly` is the rest of the request, `more` of the spec.
func ClassClaimYAML(name, class, exactly, more string) string {
	return `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: ` + name + `, namespace: $NAMESPACE}
spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: ` + class + after(", ", exactly) + `}}]` + after(", ", more) + `}}
---`
}

// Selector is a part of a request that wants a CEL expression to hold.
func Selector(expression string) string {
	return `selectors: [{cel: {expression: "` + expression + `"}}]`
}

// GlibcPodYAML is a pod whose container "main" has glibc and waits; its name is the claim's too.
func GlibcPodYAML(name string) string {
	return `
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `, namespace: $NAMESPACE}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: ` + name + `, resourceClaimName: ` + name + `}]
  containers: [{name: main, ` + glibc + `, resources: {claims: [{name: ` + name + `}]}}]
---`
}

const glibc = `image: "docker.io/local/glibc:1", imagePullPolicy: IfNotPresent`

// In runs a program in a container and returns its output without the last line's end.
func (f *Fixture) In(pod, container string, command ...string) string {
	f.T.Helper()
	output, err := f.Exec(append([]string{"kubectl", "exec", "--namespace", f.Namespace, pod, "--container", container, "--"}, command...)...)
	if err != nil {
		f.T.Fatalf("in %s/%s: %v", pod, container, err)
	}
	return strings.TrimSpace(output)
}

// SeenUUIDs are the GPUs and the MIG instances that nvidia-smi lists in a container, which asks NVML there.
func (f *Fixture) SeenUUIDs(pod, container string) []string {
	f.T.Helper()
	var uuids []string
	listed := f.In(pod, container, "/usr/bin/nvidia-smi", "-L")
	for _, line := range strings.Split(listed, "\n") {
		uuid := regexp.MustCompile(`\(UUID: (.+)\)$`).FindStringSubmatch(line)
		if uuid == nil {
			f.T.Fatalf("nvidia-smi -L in %s/%s: no UUID in %q", pod, container, listed)
		}
		uuids = append(uuids, uuid[1])
	}
	return uuids
}

// CheckUUIDs checks what SeenUUIDs gives.
func (f *Fixture) CheckUUIDs(pod, container string, want ...string) {
	f.T.Helper()
	if have := f.SeenUUIDs(pod, container); !slices.Equal(slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(want))) {
		f.T.Errorf("container %s/%s sees %v, want %v", pod, container, have, want)
	}
}

// NVIDIANodes are the device nodes of the driver in a container of the workload image, except the DRM ones.
func (v View) NVIDIANodes() []string {
	var paths []string
	for path := range v.Devices {
		if strings.HasPrefix(path, "/dev/nvidia") {
			paths = append(paths, path)
		}
	}
	return slices.Sorted(slices.Values(paths))
}

func text(device resourceapi.Device, attribute string) string {
	if value := device.Attributes[resourceapi.QualifiedName(attribute)].StringValue; value != nil {
		return *value
	}
	return ""
}

// AwaitAllocatedPod waits until a pod of GlibcPodYAML runs and returns the devices of its claim, so many.
func (n *NVIDIANode) AwaitAllocatedPod(pod string, count int) []resourceapi.Device {
	n.T.Helper()
	n.AwaitRunning(pod)
	var devices []resourceapi.Device
	for _, name := range Devices(n.Allocated(pod, count)) {
		device, err := n.Device(name)
		if err != nil {
			n.T.Fatal(err)
		}
		devices = append(devices, device)
	}
	return devices
}

// AwaitCondition waits until the driver says that it is not ready, and why.
func (d *Driver) AwaitCondition(says string) {
	d.t.Helper()
	Await(d.t, 60*time.Second, fmt.Sprintf("driver %s is not ready: %s", d.Name, says), func() error {
		status, err := d.Status()
		if err != nil {
			return err
		}
		if status["ready"] == true || !strings.Contains(fmt.Sprint(status["conditions"]), says) {
			return fmt.Errorf("ready %v, conditions %v", status["ready"], status["conditions"])
		}
		return nil
	})
}
