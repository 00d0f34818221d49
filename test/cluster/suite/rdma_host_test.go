package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RDMAHost is a simulated host with NICs, real interfaces on the node that stand for theirs, and GPUs where a test wants them:
// of the class of the fixture's driver and of the second driver's.
type RDMAHost struct {
	*Fixture
	root       string          // the same path on the node and here
	gpus       string          // name of the GPUs' driver, "" = there are none
	interfaces map[string]Link // as they were made
}

// NewRDMAHost makes a host of models of the simulators.
func NewRDMAHost(t *testing.T, nics, gpus string) *RDMAHost {
	t.Helper()
	if *rdmaBackend == "" || *rdmaSimulator == "" {
		t.Skip("needs -rdma-backend and -rdma-simulator")
	}
	for _, path := range []string{"/sys/class/infiniband", "/proc/driver/nvidia"} {
		if entries, _ := os.ReadDir(path); len(entries) > 0 {
			t.Skipf("this machine has %s: the nodes of simulated devices would open real ones", path)
		}
	}
	h := &RDMAHost{Fixture: NewFixture(t), root: filepath.Join(t.TempDir(), "host")}
	backends := filepath.Join(filepath.Dir(*runScript), "..", "..", "backends")
	h.run(*rdmaSimulator, "create", filepath.Join(backends, "rdma/simulator/models", nics), h.root, "--rdma-numbers", "--node", t.Name())
	if gpus != "" {
		if *nvidiaBackend == "" || *nvidiaSimulator == "" {
			t.Skip("needs -nvidia-backend and -nvidia-simulator")
		}
		h.gpus = h.SecondDriver()
		h.run(*nvidiaSimulator, "create", filepath.Join(backends, "nvidia/simulator/models", gpus), h.root)
	}
	t.Cleanup(func() { _, _ = h.Exec(*rdmaSimulator, "unlink", h.root) })
	if _, err := h.Exec(*rdmaSimulator, "links", h.root); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.interfaces, err = h.links(); err != nil || len(h.interfaces) == 0 {
		t.Fatalf("the simulated host has the interfaces %v (%v)", h.interfaces, err)
	}
	h.background(*rdmaSimulator, "links", "--follow", h.root)
	return h
}

func (h *RDMAHost) run(program string, arguments ...string) {
	h.T.Helper()
	if output, err := exec.Command(program, arguments...).CombinedOutput(); err != nil {
		h.T.Fatalf("%s %v: %v\n%s", program, arguments, err, output)
	}
}

// background runs a program on the node until the test ends.
func (h *RDMAHost) background(command ...string) {
	h.T.Helper()
	pid, err := h.firstProcess()
	if err != nil {
		h.T.Fatal(err)
	}
	enter := exec.Command("nsenter", append([]string{"--target", pid, "--mount", "--net", "--pid", "--"}, command...)...)
	if err := enter.Start(); err != nil {
		h.T.Fatal(err)
	}
	h.T.Cleanup(func() {
		_ = exec.Command("pkill", "-KILL", "--parent", fmt.Sprint(enter.Process.Pid)).Run()
		_ = enter.Wait()
	})
}

// Start starts one process for each list of drivers, and waits until each driver's pool has as many devices as is said.
func (h *RDMAHost) Start(devices int, processes ...[]string) []*Driver {
	h.T.Helper()
	entries := map[string]Object{
		h.Driver: {"name": h.Driver, "backend": *rdmaBackend, "deviceStatus": true, "config": Object{"kernelRoot": h.root, "devRoot": h.root}},
		h.gpus: {"name": h.gpus, "backend": *nvidiaBackend,
			"config": Object{"driverRoot": h.root, "devRoot": h.root, "kernelRoot": h.root, "pollSeconds": 1}},
	}
	var drivers []*Driver
	for _, names := range processes {
		d := NewDriver(h.T, h.Cluster, names[0], DriverOptions{})
		var configured []Object
		for _, name := range names {
			configured = append(configured, entries[name])
		}
		d.Config()["drivers"] = configured
		d.WriteConfig()
		for _, name := range names[1:] {
			other := *d
			other.Name = name
			h.T.Cleanup(other.forget)
		}
		h.T.Cleanup(h.Of(names[0]).release)
		d.Start()
		drivers = append(drivers, d)
	}
	for i, names := range processes {
		drivers[i].AwaitReady()
		for _, name := range names {
			h.Of(name).AwaitDevices(devices)
		}
	}
	return drivers
}

// AlignedYAML is a pod and its claim of the same name: so many GPUs and as many NICs that agree in an attribute.
func (h *RDMAHost) AlignedYAML(name string, count int, attribute string) string {
	return fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %s, namespace: $NAMESPACE}
spec:
  devices:
    requests:
    - {name: gpu, exactly: {deviceClassName: %s, count: %d}}
    - {name: nic, exactly: {deviceClassName: $DRIVER, count: %d}}
    constraints: [{requests: [gpu, nic], matchAttribute: %s}]
---`, name, h.gpus, count, count, attribute) + NICPodYAML(name)
}

// CheckAligned waits until a pod of AlignedYAML runs, and returns the value in which its GPUs and NICs agree.
func (h *RDMAHost) CheckAligned(pod string, count int, attribute string) string {
	h.T.Helper()
	h.AwaitRunningWithin(pod, afterRetry)
	claim, err := h.Claim(pod)
	if err != nil {
		h.T.Fatal(err)
	}
	value := ""
	var interfaces, nodes []string
	given := map[string]int{}
	for _, result := range claim.Status.Allocation.Devices.Results {
		device, err := h.Of(result.Driver).Device(result.Device)
		if err != nil {
			h.T.Fatal(err)
		}
		given[result.Driver]++
		have := describe(device, attribute)
		if have == "" || value != "" && have != value {
			h.T.Errorf("pod %s: device %s of %s has %s %q, another one %q", pod, result.Device, result.Driver, attribute, have, value)
		}
		value = have
		if result.Driver == h.Driver {
			interfaces = append(interfaces, text(device, "dra.net/ifName"))
			nodes = append(nodes, h.verbs(text(device, "dra.net/rdmaDevice")))
		}
	}
	if given[h.Driver] != count || given[h.gpus] != count {
		h.T.Errorf("pod %s was given %v, want %d of each", pod, given, count)
	}
	// What the pod itself sees of them.
	view := h.See(pod, "main")
	gpus := slices.DeleteFunc(view.NVIDIANodes(), func(path string) bool { return !gpuNode.MatchString(path) })
	if len(gpus) != count {
		h.T.Errorf("pod %s has the GPUs' nodes %v, want %d", pod, gpus, count)
	}
	nodes = append(nodes, "/dev/infiniband/rdma_cm")
	if have := view.infiniband(); !slices.Equal(have, slices.Sorted(slices.Values(nodes))) {
		h.T.Errorf("pod %s has the nodes %v, want %v", pod, have, nodes)
	}
	interfaces = append(interfaces, "eth0", "lo")
	have := strings.Fields(h.In(pod, "main", "ls", "/sys/class/net"))
	if !slices.Equal(have, slices.Sorted(slices.Values(interfaces))) {
		h.T.Errorf("pod %s has the interfaces %v, want %v", pod, have, interfaces)
	}
	return value
}

var gpuNode = regexp.MustCompile(`^/dev/nvidia\d+$`)

func describe(device resourceapi.Device, attribute string) string {
	value := device.Attributes[resourceapi.QualifiedName(attribute)]
	switch {
	case value.StringValue != nil:
		return *value.StringValue
	case value.IntValue != nil:
		return fmt.Sprint(*value.IntValue)
	}
	return ""
}

// verbs is the node of an RDMA device as its host has it.
func (h *RDMAHost) verbs(device string) string {
	h.T.Helper()
	found, _ := filepath.Glob(h.root + "/sys/class/infiniband_verbs/uverbs*/ibdev")
	for _, path := range found {
		if name, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(name)) == device {
			return "/dev/infiniband/" + filepath.Base(filepath.Dir(path))
		}
	}
	h.T.Fatalf("the host has no verbs device of %q", device)
	return ""
}

func (v View) infiniband() []string {
	var paths []string
	for path := range v.Devices {
		if strings.HasPrefix(path, "/dev/infiniband/") {
			paths = append(paths, path)
		}
	}
	return slices.Sorted(slices.Values(paths))
}

// EndAll ends all pods and claims, and checks that the node keeps nothing of them and the host has its interfaces again.
func (h *RDMAHost) EndAll() {
	h.T.Helper()
	h.EndPods()
	if h.gpus != "" {
		h.Of(h.gpus).AwaitNothingLeft()
	}
	claims, err := h.Client.ResourceV1().ResourceClaims(h.Namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		h.T.Fatal(err)
	}
	for _, claim := range claims.Items {
		h.DeleteClaim(claim.Name)
	}
	h.AwaitInterfacesHome()
}

// AwaitInterfacesHome waits until the node has the host's interfaces as they were made.
func (h *RDMAHost) AwaitInterfacesHome() {
	h.T.Helper()
	Await(h.T, 30*time.Second, "the host has its interfaces as they were", func() error {
		now, err := h.links()
		if err != nil {
			return err
		}
		for name, want := range h.interfaces {
			have, found := now[name]
			if !found || have.MTU != want.MTU || have.Address != want.Address || slices.Contains(have.Flags, "UP") != slices.Contains(want.Flags, "UP") {
				return fmt.Errorf("%s was %+v, is %+v (%v)", name, want, have, found)
			}
		}
		return nil
	})
}

// links are the node's interfaces that stand for the simulated host's.
func (h *RDMAHost) links() (map[string]Link, error) {
	output, err := h.Exec("ip", "-json", "link")
	if err != nil {
		return nil, err
	}
	var all []Link
	if err := json.Unmarshal([]byte(output), &all); err != nil {
		return nil, err
	}
	links := map[string]Link{}
	for _, link := range all {
		if _, err := os.Lstat(filepath.Join(h.root, "sys/class/net", link.IfName)); err == nil && link.IfName != "lo" {
			links[link.IfName] = link
		}
	}
	return links, nil
}
