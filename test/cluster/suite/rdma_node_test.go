package suite

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	rdmaBackend   = flag.String("rdma-backend", "", "path of the RDMA backend's library; empty: its tests are skipped")
	rdmaSimulator = flag.String("rdma-simulator", "", "path of dra-rdma-simulator")
)

// RDMANode is the node with NICs of a test's own, veth ends, and a driver that offers those alone. The other ends are in a
// network namespace that stands for the wire: what a pod reaches there it reaches through its NIC, as there is no other way.
type RDMANode struct {
	*Fixture
	*Driver
	number int    // another one for each test
	wire   string // a name of `ip netns`
	prefix string // of the NICs' names on the host
	subnet string // of the wire, "10.90.7."
}

var rdmaNodes atomic.Int32

// NewRDMANode makes NICs 0 to nics-1, with MTU 1400, up. The driver is not started.
func NewRDMANode(t *testing.T, nics int, options Object) *RDMANode {
	t.Helper()
	if *rdmaBackend == "" {
		t.Skip("needs -rdma-backend")
	}
	number := int(rdmaNodes.Add(1))
	n := &RDMANode{Fixture: NewFixture(t), number: number, prefix: fmt.Sprintf("nic%d-", number), subnet: fmt.Sprintf("10.90.%d.", number)}
	n.wire = strings.TrimSuffix(n.prefix, "-")
	t.Cleanup(func() { _, _ = n.Exec("ip", "netns", "del", n.wire) }) // and with it both ends
	n.PlugAll(nics)
	// So what a test sees of changes comes from the kernel's events alone.
	n.Driver = NewDriver(t, n.Cluster, n.Fixture.Driver, DriverOptions{Driver: Object{"deviceStatus": true, "discoverInterval": "1h"}})
	entry := n.Config()["drivers"].([]Object)[0]
	entry["backend"] = *rdmaBackend
	config := Object{"include": []Object{{"names": []string{n.prefix + "*"}}}}
	for key, value := range options {
		config[key] = value
	}
	entry["config"] = config
	n.WriteConfig()
	t.Cleanup(n.release)
	return n
}

// StartRDMANode is one whose driver has published its NICs.
func StartRDMANode(t *testing.T, nics int, options Object) *RDMANode {
	t.Helper()
	n := NewRDMANode(t, nics, options)
	n.Start()
	n.AwaitReady()
	n.AwaitDevices(nics)
	return n
}

// Do runs a program on the node.
func (n *RDMANode) Do(command ...string) string {
	n.T.Helper()
	output, err := n.Exec(command...)
	if err != nil {
		n.T.Fatal(err)
	}
	return output
}

// NIC is the name of a NIC on the host.
func (n *RDMANode) NIC(number int) string { return fmt.Sprintf("%s%d", n.prefix, number) }

// beyond is an address that is reached through the wire's own.
func (n *RDMANode) beyond() string { return strings.Replace(n.subnet, "10.90.", "10.91.", 1) + "1" }

// PlugAll makes the wire and so many NICs.
func (n *RDMANode) PlugAll(nics int) {
	n.T.Helper()
	n.Do("ip", "netns", "add", n.wire)
	n.Do("ip", "-n", n.wire, "link", "add", "wire", "type", "bridge")
	n.Do("ip", "-n", n.wire, "address", "add", n.subnet+"1/24", "dev", "wire")
	n.Do("ip", "-n", n.wire, "link", "set", "wire", "up")
	n.Do("ip", "-n", n.wire, "link", "set", "lo", "up")
	n.Do("ip", "-n", n.wire, "address", "add", n.beyond()+"/32", "dev", "lo")
	for i := range nics {
		n.Plug(i)
	}
}

// Plug makes a NIC.
func (n *RDMANode) Plug(number int) {
	n.T.Helper()
	name := n.NIC(number)
	n.Do("ip", "link", "add", "name", name, "address", n.address(number), "mtu", "1400", "type", "veth", "peer", "name",
		fmt.Sprintf("w%d", number), "netns", n.wire)
	n.Do("ip", "link", "set", name, "up")
	n.Do("ip", "-n", n.wire, "link", "set", fmt.Sprintf("w%d", number), "mtu", "1400", "master", "wire", "up")
}

// address is the hardware address that a NIC is made with.
func (n *RDMANode) address(number int) string {
	return fmt.Sprintf("02:00:00:%02x:00:%02x", n.number, number)
}

// Link is a network interface as `ip -json address` shows it.
type Link struct {
	IfName, Address string
	MTU             int
	Flags           []string
	AddrInfo        []struct {
		Local, Scope string
		PrefixLen    int
	} `json:"addr_info"`
}

// Home is an interface of the host by its name.
func (n *RDMANode) Home(name string) (Link, error) {
	output, err := n.Exec("ip", "-json", "address")
	if err != nil {
		return Link{}, err
	}
	var links []Link
	if err := json.Unmarshal([]byte(output), &links); err != nil {
		return Link{}, fmt.Errorf("%w: %s", err, output)
	}
	for _, link := range links {
		if link.IfName == name {
			return link, nil
		}
	}
	return Link{}, fmt.Errorf("the host has no interface %s", name)
}

// CheckHome checks that a NIC is on the host as Plug has made it.
func (n *RDMANode) CheckHome(number int) {
	n.T.Helper()
	if err := n.isHome(number); err != nil {
		n.T.Error(err)
	}
}

// AwaitHome waits for that.
func (n *RDMANode) AwaitHome(number int) {
	n.T.Helper()
	Await(n.T, 60*time.Second, "NIC "+n.NIC(number)+" is on the host as it was", func() error { return n.isHome(number) })
}

func (n *RDMANode) isHome(number int) error {
	link, err := n.Home(n.NIC(number))
	if err != nil {
		return err
	}
	if link.MTU != 1400 || link.Address != n.address(number) || !slices.Contains(link.Flags, "UP") {
		return fmt.Errorf("interface %s is back with MTU %d, address %s, flags %v; it had 1400, %s, UP", link.IfName, link.MTU,
			link.Address, link.Flags, n.address(number))
	}
	for _, address := range link.AddrInfo {
		if address.Scope == "global" {
			return fmt.Errorf("interface %s is back with address %s", link.IfName, address.Local)
		}
	}
	return nil
}

// CheckAway checks that the host has no interface of that name.
func (n *RDMANode) CheckAway(number int) {
	n.T.Helper()
	if link, err := n.Home(n.NIC(number)); err == nil {
		n.T.Errorf("the host has the interface %+v", link)
	}
}

// NetworkClaimYAML is a claim of one NIC, "nic", with the members of a NetworkConfig, in which $WIRE stands for what the wire's
// addresses begin with, and $BEYOND for the address beyond it.
func (n *RDMANode) NetworkClaimYAML(name, config string) string {
	return n.networkClaimYAML(name, "", config)
}

func (n *RDMANode) networkClaimYAML(name, exactly, config string) string {
	config = strings.NewReplacer("$WIRE", n.subnet, "$BEYOND", n.beyond()).Replace(config)
	return `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: ` + name + `, namespace: $NAMESPACE}
spec:
  devices:
    requests: [{name: nic, exactly: {deviceClassName: $DRIVER` + after(", ", exactly) + `}}]
    config: [{requests: [nic], opaque: {driver: $DRIVER, parameters: {apiVersion: rdma.resource.dra-sdk.dev/v1alpha1, kind: NetworkConfig` +
		after(", ", config) + `}}}]
---`
}

// ByName selects the NIC of a number.
func (n *RDMANode) ByName(number int) string {
	return Selector("device.attributes['dra.net'].ifName == '" + n.NIC(number) + "'")
}

// NICPodYAML is a pod whose container "main" uses a claim of the pod's name.
func NICPodYAML(name string) string { return PodYAML(name, name) }

// InPod is an interface of a pod, with its addresses.
func (n *RDMANode) InPod(pod, container, name string) Link {
	n.T.Helper()
	link, err := n.inPod(pod, container, name)
	if err != nil {
		n.T.Fatal(err)
	}
	return link
}

// What the pod itself sees: busybox's `ip` reads its own namespace, and sysfs is that of its own too.
func (n *RDMANode) inPod(pod, container, name string) (Link, error) {
	output, err := n.Exec("kubectl", "exec", "--namespace", n.Namespace, pod, "--container", container, "--", "sh", "-c",
		fmt.Sprintf("cd /sys/class/net/%s && cat address mtu flags && ip -o address show dev %s", name, name))
	if err != nil {
		return Link{}, err
	}
	lines := strings.Split(strings.TrimSpace(output), "\n")
	link := Link{IfName: name, Address: lines[0]}
	var flags int
	if _, err := fmt.Sscan(lines[1]+" "+lines[2], &link.MTU, &flags); err != nil {
		return link, fmt.Errorf("%w: %s", err, output)
	}
	if flags&1 != 0 {
		link.Flags = []string{"UP"}
	}
	for _, line := range lines[3:] {
		if fields := strings.Fields(line); len(fields) > 3 && fields[2] == "inet" {
			address, length, _ := strings.Cut(fields[3], "/")
			var prefix int
			_, _ = fmt.Sscan(length, &prefix)
			link.AddrInfo = append(link.AddrInfo, struct {
				Local, Scope string
				PrefixLen    int
			}{address, "global", prefix})
		}
	}
	return link, nil
}

// InterfacesOf are the names of a pod's interfaces, without the loopback.
func (n *RDMANode) InterfacesOf(pod, container string) []string {
	n.T.Helper()
	names := strings.Fields(n.In(pod, container, "ls", "/sys/class/net"))
	return slices.DeleteFunc(names, func(name string) bool { return name == "lo" })
}

// CheckReaches checks that a pod gets an answer from an address of the wire.
func (n *RDMANode) CheckReaches(pod, container, address string) {
	n.T.Helper()
	if err := n.reaches(pod, container, address); err != nil {
		n.T.Error(err)
	}
}

func (n *RDMANode) reaches(pod, container, address string) error {
	_, err := n.Exec("kubectl", "exec", "--namespace", n.Namespace, pod, "--container", container, "--", "ping", "-c", "1", "-W", "5", address)
	return err
}

// DeviceStatus is what a claim's status says of its one device.
func (n *RDMANode) DeviceStatus(claim string) (resourceapi.AllocatedDeviceStatus, error) {
	read, err := n.Claim(claim)
	if err != nil {
		return resourceapi.AllocatedDeviceStatus{}, err
	}
	if len(read.Status.Devices) != 1 {
		return resourceapi.AllocatedDeviceStatus{}, fmt.Errorf("status.devices of claim %s is %+v", claim, read.Status.Devices)
	}
	return read.Status.Devices[0], nil
}

// AwaitDeviceCondition waits until the claim's one device has a condition with that status and reason.
func (n *RDMANode) AwaitDeviceCondition(claim, kind string, want metav1.ConditionStatus, reason string) resourceapi.AllocatedDeviceStatus {
	n.T.Helper()
	var status resourceapi.AllocatedDeviceStatus
	Await(n.T, 60*time.Second, fmt.Sprintf("the device of claim %s is %s=%s, %s", claim, kind, want, reason), func() error {
		var err error
		if status, err = n.DeviceStatus(claim); err != nil {
			return err
		}
		for _, condition := range status.Conditions {
			if condition.Type == kind && condition.Status == want && condition.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", status.Conditions)
	})
	return status
}

// Sandbox is the ID of a pod's sandbox that runs now.
func (n *RDMANode) Sandbox(pod string) (string, error) {
	read, err := n.Pod(pod)
	if err != nil {
		return "", err
	}
	list, err := n.Exec("ctr", "containers", "list", "--quiet",
		`labels."io.kubernetes.pod.uid"==`+string(read.UID)+`,labels."io.cri-containerd.kind"==sandbox`)
	if err != nil {
		return "", err
	}
	tasks, err := n.Exec("ctr", "tasks", "list")
	if err != nil {
		return "", err
	}
	for _, id := range strings.Fields(list) {
		for _, task := range strings.Split(tasks, "\n") {
			if fields := strings.Fields(task); len(fields) == 3 && fields[0] == id && fields[2] == "RUNNING" {
				return id, nil
			}
		}
	}
	return "", fmt.Errorf("pod %s has no sandbox that runs: %q", pod, list)
}

// AwaitRestarts waits until a container of a pod runs that was started again.
func (n *RDMANode) AwaitRestarts(pod, container string, atLeast int32) {
	n.T.Helper()
	Await(n.T, 120*time.Second, "container "+pod+"/"+container+" runs again", func() error {
		status, err := n.containerOf(pod, container)
		if err == nil && (status.RestartCount < atLeast || status.State.Running == nil) {
			err = fmt.Errorf("restarted %d times, state %+v", status.RestartCount, status.State)
		}
		return err
	})
}

func (n *RDMANode) containerOf(pod, container string) (corev1.ContainerStatus, error) {
	read, err := n.Pod(pod)
	if err != nil {
		return corev1.ContainerStatus{}, err
	}
	for _, status := range read.Status.ContainerStatuses {
		if status.Name == container {
			return status, nil
		}
	}
	return corev1.ContainerStatus{}, fmt.Errorf("pod %s has no status of container %s", pod, container)
}

// Pinned tells whether the node keeps a mount of the driver's claims: a pod's network namespace.
func (n *RDMANode) Pinned() (bool, error) {
	mounts, err := n.Exec("cat", "/proc/1/mountinfo")
	return strings.Contains(mounts, "/plugins/"+n.Fixture.Driver+"/"), err
}

// EndPods is the fixture's, and no network namespace stays pinned.
func (n *RDMANode) EndPods() {
	n.T.Helper()
	n.Fixture.EndPods()
	if pinned, err := n.Pinned(); err != nil || pinned {
		n.T.Errorf("a mount below the driver's directory is left: %v (%v)", pinned, err)
	}
}
