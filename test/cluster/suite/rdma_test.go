package suite

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The RDMA backend with veth ends as NICs. Each test has interfaces, a wire and a driver of its own.
func TestRDMA(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"PodHasItsNIC":                  rdmaPodHasItsNIC,
		"NICIsHomeAfterForcedDeletion":  rdmaNICIsHomeAfterForcedDeletion,
		"NICIsHomeAfterDriverWasKilled": rdmaNICIsHomeAfterDriverWasKilled,
		"NICThatWentAwayIsReported":     rdmaNICThatWentAwayIsReported,
		"NameThatThePodHasIsRefused":    rdmaNameThatThePodHasIsRefused,
		"HostNetworkIsRefused":          rdmaHostNetworkIsRefused,
		"TwoPodsOnOneClaimAreRefused":   rdmaTwoPodsOnOneClaimAreRefused,
		"NewSandboxHasTheNIC":           rdmaNewSandboxHasTheNIC,
		"SharedNICByMacvlan":            rdmaSharedNICByMacvlan,
		"WithoutSharesNICIsExclusive":   rdmaWithoutSharesNICIsExclusive,
		"RuntimeMovesByNetDevices":      rdmaRuntimeMovesByNetDevices,
		"NICsComeAndGo":                 rdmaNICsComeAndGo,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
	// The interfaces of a simulated host have the same names in each.
	t.Run("Simulated", func(t *testing.T) {
		t.Parallel()
		t.Run("SiblingsNodesAreDenied", rdmaSiblingsNodesAreDenied)
		rdmaAlignment(t)
	})
}

const netConfig = `
      interface: {name: net1, addresses: [$WIRE2/24], mtu: 1300, hardwareAddr: "02:00:5e:00:53:01"},
      routes: [{destination: $BEYOND/32, gateway: $WIRE1}]`

// An init container, two containers of which one starts again, one without the claim: all are of one network.
func rdmaPodHasItsNIC(t *testing.T) {
	n := StartRDMANode(t, 2, nil)
	n.Apply(n.networkClaimYAML("claim", n.ByName(1), netConfig) + `
apiVersion: v1
kind: Pod
metadata: {name: pod, namespace: $NAMESPACE}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: nic, resourceClaimName: claim}]
  initContainers:
  - {name: first, ` + image + `, command: [sh, -c, "cat /sys/class/net/net1/mtu && ping -c 1 -W 5 ` + n.subnet + `1"], resources: {claims: [{name: nic}]}}
  containers:
  - {name: main, ` + workload + `, resources: {claims: [{name: nic}]}}
  - {name: second, ` + workload + `, resources: {claims: [{name: nic}]}}
  - {name: without, ` + workload + `}
`)
	n.AwaitRunning("pod")
	status := n.AwaitDeviceCondition("claim", "Ready", metav1.ConditionTrue, "NetworkDeviceReady")
	data := status.NetworkData
	if data == nil || data.InterfaceName != "net1" || data.HardwareAddress != "02:00:5e:00:53:01" ||
		!slices.Equal(data.IPs, []string{n.subnet + "2/24"}) {
		t.Errorf("networkData is %+v", data)
	}
	check := func() {
		t.Helper()
		for _, container := range []string{"main", "second", "without"} {
			if have := n.InterfacesOf("pod", container); !slices.Equal(have, []string{"eth0", "net1"}) {
				t.Errorf("container %s sees the interfaces %v", container, have)
			}
			link := n.InPod("pod", container, "net1")
			if link.MTU != 1300 || link.Address != "02:00:5e:00:53:01" || len(link.Flags) == 0 || len(link.AddrInfo) != 1 ||
				link.AddrInfo[0].Local != n.subnet+"2" || link.AddrInfo[0].PrefixLen != 24 {
				t.Errorf("container %s sees net1 as %+v", container, link)
			}
			n.CheckReaches("pod", container, n.subnet+"1")
			n.CheckReaches("pod", container, n.beyond()) // by the route
		}
	}
	check()
	n.CheckAway(1)
	n.CheckHome(0)

	main, err := n.containerOf("pod", "main")
	if err != nil {
		t.Fatal(err)
	}
	n.KillContainer(strings.TrimPrefix(main.ContainerID, "containerd://"))
	n.AwaitRestarts("pod", "main", 1)
	check()
	n.EndPods()
	n.CheckHome(1)
	// And it can be given again.
	n.Apply(n.networkClaimYAML("again", n.ByName(1), netConfig) + NICPodYAML("again"))
	n.AwaitRunning("again")
	n.CheckReaches("again", "main", n.subnet+"1")
	n.EndPods()
	n.CheckHome(1)
}

func rdmaNICIsHomeAfterForcedDeletion(t *testing.T) {
	n := StartRDMANode(t, 1, nil)
	n.Apply(n.NetworkClaimYAML("claim", netConfig) + NICPodYAML("claim"))
	n.AwaitRunning("claim")
	n.CheckAway(0)
	n.ForceDelete("claim")
	n.AwaitHome(0)
	n.AwaitNothingLeft()
}

// The driver dies while a pod has the NIC, and comes back before the pod ends, or after its containers have ended.
func rdmaNICIsHomeAfterDriverWasKilled(t *testing.T) {
	n := StartRDMANode(t, 1, nil)
	n.Apply(n.NetworkClaimYAML("claim", netConfig) + NICPodYAML("claim"))
	n.AwaitRunning("claim")
	n.Kill()
	n.Start()
	n.AwaitReady()
	n.AwaitDevices(1) // that the pod has it is no reason to take it back
	n.CheckReaches("claim", "main", n.subnet+"1")
	n.EndPods()
	n.CheckHome(0)

	n.Apply(n.NetworkClaimYAML("second", netConfig) + NICPodYAML("second"))
	n.AwaitRunning("second")
	sandbox, err := n.Sandbox("second")
	if err != nil {
		t.Fatal(err)
	}
	n.Kill()
	n.DeletePod("second")
	Await(t, 60*time.Second, "the pod's sandbox has ended", func() error {
		if running, err := n.Sandbox("second"); err == nil && running == sandbox {
			return fmt.Errorf("sandbox %s runs", running)
		}
		return nil
	})
	n.CheckAway(0) // the pin keeps it where it is
	n.Start()
	n.AwaitReady()
	n.AwaitGone("second")
	n.AwaitNothingLeft()
	n.AwaitHome(0)
}

func rdmaNICThatWentAwayIsReported(t *testing.T) {
	n := StartRDMANode(t, 2, nil)
	n.Apply(n.networkClaimYAML("claim", n.ByName(0), netConfig) + NICPodYAML("claim"))
	n.AwaitRunning("claim")
	n.Do("ip", "-n", n.wire, "link", "del", "w0") // a veth's ends go together
	n.EndPods()
	if log := n.Log(); !strings.Contains(log, "interface "+n.NIC(0)+" is gone") {
		t.Errorf("the driver does not tell that the interface %s is gone", n.NIC(0))
	}
	n.AwaitDevices(1)
	n.CheckHome(1)
}

func rdmaNameThatThePodHasIsRefused(t *testing.T) {
	n := StartRDMANode(t, 2, nil)
	n.Apply(n.NetworkClaimYAML("eth0", `interface: {name: eth0}`) + NICPodYAML("eth0"))
	n.AwaitEvent("eth0", "FailedPrepareDynamicResources", "interface.name", "eth0", "every pod has")
	n.CheckHome(0)
	n.CheckHome(1)
	n.EndPods()

	n.Apply(n.networkClaimYAML("one", n.ByName(0), netConfig) + n.networkClaimYAML("two", n.ByName(1), `interface: {name: net1}`) + `
apiVersion: v1
kind: Pod
metadata: {name: pod, namespace: $NAMESPACE}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: one, resourceClaimName: one}, {name: two, resourceClaimName: two}]
  containers:
  - {name: main, ` + workload + `, resources: {claims: [{name: one}]}}
  - {name: second, ` + workload + `, resources: {claims: [{name: two}]}}
`)
	n.AwaitEvent("pod", "Failed", "the pod has an interface net1 already", n.NIC(1))
	n.CheckHome(1)
	n.AwaitDeviceCondition("two", "Ready", metav1.ConditionFalse, "AttachFailed")
	n.AwaitDeviceCondition("one", "Ready", metav1.ConditionTrue, "NetworkDeviceReady")
	n.EndPods()
	n.CheckHome(0)
	n.CheckHome(1)
}

func rdmaHostNetworkIsRefused(t *testing.T) {
	n := StartRDMANode(t, 1, nil)
	n.Apply(n.NetworkClaimYAML("claim", netConfig) + strings.Replace(NICPodYAML("claim"), "spec:", "spec:\n  hostNetwork: true", 1))
	n.AwaitEvent("claim", "Failed", "hostNetwork: true")
	n.CheckHome(0)
	n.EndPods()
	n.CheckHome(0)
}

// Of a claim that the kubelet has prepared already it asks nobody for a second pod: the hook sees it. Else the driver does.
func rdmaTwoPodsOnOneClaimAreRefused(t *testing.T) {
	n := StartRDMANode(t, 1, nil)
	other := strings.Replace(NICPodYAML("claim"), "metadata: {name: claim", "metadata: {name: other", 1)
	n.Apply(n.NetworkClaimYAML("claim", netConfig) + NICPodYAML("claim"))
	n.AwaitRunning("claim")
	n.Apply(other)
	n.AwaitEvent("other", "Failed", "is prepared for pod", "give each pod a claim of its own")
	n.CheckReaches("claim", "main", n.subnet+"1")
	n.EndPods()
	n.CheckHome(0)

	n.DeleteClaim("claim")
	n.Kill()
	n.Apply(n.NetworkClaimYAML("claim", netConfig) + NICPodYAML("claim") + other)
	Await(t, 60*time.Second, "the claim is reserved for both pods", func() error {
		claim, err := n.Claim("claim")
		if err == nil && len(claim.Status.ReservedFor) != 2 {
			err = fmt.Errorf("reserved for %v", claim.Status.ReservedFor)
		}
		return err
	})
	n.Start()
	Await(t, afterRetry, "the driver refuses the claim of two pods", func() error {
		failed := n.FailedPrepares()
		for _, text := range failed {
			if strings.Contains(text, "one pod") {
				return nil
			}
		}
		return fmt.Errorf("failed prepares: %q", failed)
	})
	n.EndPods()
	n.CheckHome(0)
}

func rdmaNewSandboxHasTheNIC(t *testing.T) {
	n := StartRDMANode(t, 1, nil)
	n.Apply(n.NetworkClaimYAML("claim", netConfig) + NICPodYAML("claim"))
	n.AwaitRunning("claim")
	old, err := n.Sandbox("claim")
	if err != nil {
		t.Fatal(err)
	}
	n.KillContainer(old)
	Await(t, 120*time.Second, "the pod has another sandbox", func() error {
		sandbox, err := n.Sandbox("claim")
		if err == nil && sandbox == old {
			err = fmt.Errorf("it has %s still", old)
		}
		return err
	})
	Await(t, 120*time.Second, "the pod reaches the wire again", func() error { return n.reaches("claim", "main", n.subnet+"1") })
	if link := n.InPod("claim", "main", "net1"); link.MTU != 1300 || link.Address != "02:00:5e:00:53:01" {
		t.Errorf("in the new sandbox net1 is %+v", link)
	}
	n.CheckAway(0)
	n.EndPods()
	n.CheckHome(0)
}

func rdmaSharedNICByMacvlan(t *testing.T) {
	n := NewRDMANode(t, 1, Object{"shared": []Object{{"shares": 4}}})
	n.NeedsGate("DRAConsumableCapacity")
	n.Start()
	n.AwaitReady()
	n.AwaitDevices(1)
	macvlan := `interface: {name: net1, addresses: [$WIREX/24], macvlan: bridge}`
	for number, name := range map[string]string{"2": "one", "3": "two"} {
		n.Apply(n.NetworkClaimYAML(name, strings.Replace(macvlan, "X", number, 1)) + NICPodYAML(name))
	}
	n.AwaitRunning("one")
	n.AwaitRunning("two")
	n.CheckReaches("one", "main", n.subnet+"1")
	n.CheckReaches("two", "main", n.subnet+"1")
	n.CheckReaches("one", "main", n.subnet+"3")
	n.CheckReaches("two", "main", n.subnet+"2")
	n.CheckHome(0)

	// Its interface stays where several need it.
	n.Apply(n.NetworkClaimYAML("moves", `interface: {name: net1}`) + NICPodYAML("moves"))
	n.AwaitEvent("moves", "FailedPrepareDynamicResources", "is shared", "interface.macvlan")
	n.EndPods()
	n.CheckHome(0)
}

// Where the API server drops shares a NIC is given to one claim at a time, which has it as the others would.
func rdmaWithoutSharesNICIsExclusive(t *testing.T) {
	n := NewRDMANode(t, 1, Object{"shared": []Object{{"shares": 4}}})
	n.NeedsNoGate("DRAConsumableCapacity")
	n.Start()
	n.AwaitReady()
	n.AwaitDevices(1)
	n.Apply(n.NetworkClaimYAML("one", `interface: {name: net1, addresses: [$WIRE2/24], macvlan: bridge}`) + NICPodYAML("one"))
	n.AwaitRunning("one")
	n.CheckReaches("one", "main", n.subnet+"1")
	n.CheckHome(0)
	n.Apply(n.NetworkClaimYAML("two", `interface: {name: net1, macvlan: bridge}`) + NICPodYAML("two"))
	n.AwaitUnschedulable("two")
	n.EndPods()
	n.CheckHome(0)
}

func rdmaRuntimeMovesByNetDevices(t *testing.T) {
	n := StartRDMANode(t, 2, Object{"attach": "netDevices"})
	n.Apply(n.networkClaimYAML("claim", n.ByName(0), `interface: {name: net1}`) + NICPodYAML("claim"))
	n.AwaitRunning("claim")
	if have := n.InterfacesOf("claim", "main"); !slices.Equal(have, []string{"eth0", "net1"}) {
		t.Errorf("the pod has the interfaces %v", have)
	}
	n.CheckAway(0)
	// The runtime looks on the host for what is in the pod already.
	n.KillContainer(n.ContainerID("claim"))
	n.AwaitEvent("claim", "Failed", "link not found for interface "+n.NIC(0))
	n.Apply(n.networkClaimYAML("address", n.ByName(1), netConfig) + NICPodYAML("address"))
	n.AwaitEvent("address", "FailedPrepareDynamicResources", "attach: netDevices", "can only rename")
	n.EndPods()
	n.CheckHome(1)
}

func rdmaNICsComeAndGo(t *testing.T) {
	n := StartRDMANode(t, 1, nil)
	n.Plug(1)
	n.AwaitDevices(2)
	n.Apply(n.networkClaimYAML("claim", n.ByName(1), netConfig) + NICPodYAML("claim"))
	n.AwaitRunning("claim")
	n.Do("ip", "-n", n.wire, "link", "del", "w0")
	devices := n.AwaitDevices(1)
	held := Devices(n.Allocated("claim", 1))[0]
	if _, published := devices[held]; !published {
		t.Errorf("device %s, which a pod holds, is not published; there are %v", held, devices)
	}
	n.Plug(2)
	n.AwaitDevices(2)
	if device, err := n.Device(held); err != nil || text(device, "dra.net/ifName") != n.NIC(1) {
		t.Errorf("the held device is %+v (%v), want its ifName %s", device, err, n.NIC(1))
	}
	n.EndPods()
	n.CheckHome(1)
}

// The pod goes on, a container that starts afterwards finds the NIC in place, and it comes home.
func TestRDMANICOutlivesContainerdRestart(t *testing.T) {
	n := StartRDMANode(t, 1, nil)
	n.Apply(n.NetworkClaimYAML("claim", netConfig) + NICPodYAML("claim"))
	n.AwaitRunning("claim")
	id := n.ContainerID("claim")
	n.Component(t, "restart", "containerd")
	n.CheckAway(0)
	Await(t, afterRetry, "the pod reaches the wire", func() error { return n.reaches("claim", "main", n.subnet+"1") })
	if err := n.SameContainer("claim", id); err != nil {
		t.Error(err)
	}
	n.KillContainer(id)
	n.AwaitRestarted("claim", id, 120*time.Second)
	n.CheckReaches("claim", "main", n.subnet+"1")
	n.EndPods()
	n.CheckHome(0)
}

// What was pinned before is gone; the NIC is on the host again, as hardware is, and goes to the pod's new sandbox.
func TestRDMAPodHasItsNICAfterAReboot(t *testing.T) {
	n := StartRDMANode(t, 1, nil)
	n.Apply(n.NetworkClaimYAML("claim", netConfig) + NICPodYAML("claim"))
	n.AwaitRunning("claim")
	id := n.ContainerID("claim")
	n.Reboot(t)
	n.AwaitEnd(30 * time.Second)
	n.PlugAll(1)
	n.Start()
	n.AwaitReady()
	n.AwaitRestarted("claim", id, afterRetry)
	if link := n.InPod("claim", "main", "net1"); link.MTU != 1300 || link.Address != "02:00:5e:00:53:01" {
		t.Errorf("after the reboot net1 is %+v", link)
	}
	n.CheckReaches("claim", "main", n.subnet+"1")
	n.AwaitDeviceCondition("claim", "Ready", metav1.ConditionTrue, "NetworkDeviceReady")
	n.EndPods()
	n.CheckHome(0)
}
