package suite

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The NVIDIA backend with simulated GPUs. Its tests run one after the other, beside all others: see NVIDIANode.
func TestNVIDIA(t *testing.T) {
	t.Parallel()
	t.Run("ContainersSeeTheirGPUAndNoOther", nvidiaContainersSeeTheirGPUAndNoOther)
	t.Run("SiblingsNodeIsDenied", nvidiaSiblingsNodeIsDenied)
	t.Run("TwoGPUsOfOnePCIeRoot", nvidiaTwoGPUsOfOnePCIeRoot)
	t.Run("MIGInstanceByProfile", nvidiaMIGInstanceByProfile)
	t.Run("GPUByDriverVersion", nvidiaGPUByDriverVersion)
	t.Run("OldDeploymentGetsAGPU", nvidiaOldDeploymentGetsAGPU)
	t.Run("ConfigOfThePublicDriver", nvidiaConfigOfThePublicDriver)
	t.Run("LoaderFindsTheDriver", nvidiaLoaderFindsTheDriver)
	t.Run("DriverInAContainersRoot", nvidiaDriverInAContainersRoot)
	t.Run("MonitorSeesGPUsThatOthersUse", nvidiaMonitorSeesGPUsThatOthersUse)
	t.Run("MinorsSlide", nvidiaMinorsSlide)
	t.Run("XIDKeepsNewPodsAway", nvidiaXIDKeepsNewPodsAway)
	t.Run("DriverUpgradedUnderneath", nvidiaDriverUpgradedUnderneath)
	t.Run("DriverInstalledLater", nvidiaDriverInstalledLater)
	t.Run("DevicePluginOnTheNodeKeepsNewClaimsAway", nvidiaDevicePluginOnTheNodeKeepsNewClaimsAway)
}

const fourGPUs = `
gpus:
- {model: H100-80GB, count: 4}
`

// Of a claim that two pods share and two containers of one, with glibc and without; and of a claim beside it.
func nvidiaContainersSeeTheirGPUAndNoOther(t *testing.T) {
	n, _ := StartNVIDIANode(t, fourGPUs, 4)
	n.Apply(ClassClaimYAML("other", nvidiaDriver, "", "") + GlibcPodYAML("other") + ClassClaimYAML("claim", nvidiaDriver, "", "") +
		strings.Replace(GlibcPodYAML("claim"), "metadata: {name: claim", "metadata: {name: second", 1) + `
apiVersion: v1
kind: Pod
metadata: {name: claim, namespace: $NAMESPACE}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: gpu, resourceClaimName: claim}]
  containers:
  - {name: main, ` + glibc + `, resources: {claims: [{name: gpu}]}}
  - {name: static, ` + workload + `, resources: {claims: [{name: gpu}]}}
  - {name: without, ` + workload + `}
`)
	gpu := n.AwaitAllocatedPod("claim", 1)[0]
	other := n.AwaitAllocatedPod("other", 1)[0]
	if text(gpu, "uuid") == text(other, "uuid") {
		t.Errorf("two claims have the GPU %s", text(gpu, "uuid"))
	}
	n.CheckUUIDs("claim", "main", text(gpu, "uuid"))
	n.CheckUUIDs("other", "main", text(other, "uuid"))
	n.AwaitRunning("second")
	n.CheckUUIDs("second", "main", text(gpu, "uuid"))

	view := n.See("claim", "static")
	minor := n.GPU(text(gpu, "uuid")).Minor
	want := []string{fmt.Sprintf("/dev/nvidia%d", minor), "/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidiactl"}
	if have := view.NVIDIANodes(); !slices.Equal(have, slices.Sorted(slices.Values(want))) {
		t.Errorf("the container has the nodes %v, want %v", have, want)
	}
	if have, want := view.Devices[want[0]], fmt.Sprintf("character special file %x:%x", nvidiaMajor, minor); have != want {
		t.Errorf("/dev/nvidia%d is %q, want %q", minor, have, want)
	}
	if view.Env["NVIDIA_VISIBLE_DEVICES"] != "void" || view.Env["LD_LIBRARY_PATH"] != "" {
		t.Errorf("the container has the environment %v", view.Env)
	}
	if view := n.See("claim", "without"); len(view.NVIDIANodes()) > 0 || view.Env["NVIDIA_VISIBLE_DEVICES"] != "" {
		t.Errorf("the container without the claim sees %v, environment %v", view.NVIDIANodes(), view.Env)
	}
	n.EndPods()
}

// A container may make device nodes; what keeps it off another GPU is the device cgroup.
func nvidiaSiblingsNodeIsDenied(t *testing.T) {
	n, _ := StartNVIDIANode(t, fourGPUs, 4)
	n.Apply(ClassClaimYAML("claim", nvidiaDriver, "", "") + GlibcPodYAML("claim"))
	own := n.GPU(text(n.AwaitAllocatedPod("claim", 1)[0], "uuid"))
	for _, path := range []string{fmt.Sprintf("/dev/nvidia%d", own.Minor), "/dev/nvidiactl"} {
		// Nobody answers for this number here: the error of a device that may be opened.
		if answer := n.In("claim", "main", "probe", "open", path); answer != "ENXIO" {
			t.Errorf("open %s: %s, want ENXIO", path, answer)
		}
	}
	for _, gpu := range n.GPUs() {
		want := "EPERM"
		if gpu.UUID == own.UUID {
			want = "ENXIO"
		}
		path := fmt.Sprintf("/dev/made%d", gpu.Minor)
		if answer := n.In("claim", "main", "probe", "mknod", path, fmt.Sprint(nvidiaMajor), fmt.Sprint(gpu.Minor)); answer != "made" {
			t.Fatalf("mknod %s: %s", path, answer)
		}
		if answer := n.In("claim", "main", "probe", "open", path); answer != want {
			t.Errorf("open a node of GPU minor %d made inside: %s, want %s; its own is %d", gpu.Minor, answer, want, own.Minor)
		}
	}
	n.EndPods()
}

func nvidiaTwoGPUsOfOnePCIeRoot(t *testing.T) {
	n, devices := StartNVIDIANode(t, `
gpus:
- {model: H100-80GB, pcieRoot: "pci0000:10", pci: {bus_id: "00000000:18:00.0"}}
- {model: H100-80GB, pcieRoot: "pci0000:60", pci: {bus_id: "00000000:64:00.0"}}
- {model: H100-80GB, pcieRoot: "pci0000:60", pci: {bus_id: "00000000:65:00.0"}}
- {model: H100-80GB, pcieRoot: "pci0000:90", pci: {bus_id: "00000000:9a:00.0"}}
`, 4)
	root := func(name string) string { return text(devices[name], "resource.kubernetes.io/pcieRoot") }
	sameRoot := "constraints: [{matchAttribute: resource.kubernetes.io/pcieRoot}]"
	n.Apply(ClassClaimYAML("pair", nvidiaDriver, "count: 2", sameRoot) + GlibcPodYAML("pair"))
	pair := n.AwaitAllocatedPod("pair", 2)
	for _, gpu := range pair {
		if root(gpu.Name) != "pci0000:60" {
			t.Errorf("GPU %s is at PCIe root %q, want pci0000:60, which has two", gpu.Name, root(gpu.Name))
		}
	}
	n.CheckUUIDs("pair", "main", text(pair[0], "uuid"), text(pair[1], "uuid"))
	n.Apply(ClassClaimYAML("again", nvidiaDriver, "count: 2", sameRoot) + GlibcPodYAML("again"))
	n.AwaitUnschedulable("again")
	n.EndPods()
}

func nvidiaMIGInstanceByProfile(t *testing.T) {
	n, _ := StartNVIDIANode(t, `
gpus:
- {model: H100-80GB}
- model: H100-80GB
  migMode: true
  mig: [{profile: 3g.40gb, start: 4}, {profile: 1g.10gb, start: 0}, {profile: 1g.10gb, start: 1}]
`, 4)
	byProfile := Selector("device.attributes['gpu.nvidia.com'].profile == '1g.10gb'")
	n.Apply(ClassClaimYAML("one", "mig.nvidia.com", byProfile, "") + GlibcPodYAML("one"))
	device := n.AwaitAllocatedPod("one", 1)[0]
	if text(device, "profile") != "1g.10gb" || text(device, "type") != "mig" {
		t.Fatalf("the claim has %s, attributes %v", device.Name, device.Attributes)
	}
	card := n.GPU(text(device, "parentUUID"))
	n.CheckUUIDs("one", "main", card.UUID, text(device, "uuid"))

	major := n.Major("nvidia-caps")
	for _, instance := range card.MIG {
		want := "EPERM"
		if instance.UUID == text(device, "uuid") {
			want = "ENXIO"
		}
		for _, minor := range n.CapabilityMinors(card.Minor, instance.GI, instance.CI) {
			path := "/dev/made" + minor
			if answer := n.In("one", "main", "probe", "mknod", path, major, minor); answer != "made" {
				t.Fatalf("mknod %s: %s", path, answer)
			}
			if answer := n.In("one", "main", "probe", "open", path); answer != want {
				t.Errorf("open a node of capability %s of instance %+v made inside: %s, want %s", minor, instance, answer, want)
			}
		}
	}

	// The other small one, and then no more: the large one and the whole card do not fit.
	n.Apply(ClassClaimYAML("two", "mig.nvidia.com", byProfile, "") + GlibcPodYAML("two"))
	if second := n.AwaitAllocatedPod("two", 1)[0]; second.Name == device.Name || text(second, "profile") != "1g.10gb" {
		t.Errorf("the second claim has %s, the first %s", second.Name, device.Name)
	}
	n.Apply(ClassClaimYAML("three", "mig.nvidia.com", byProfile, "") + GlibcPodYAML("three"))
	n.AwaitUnschedulable("three")
	n.EndPods()
}

// NVIDIA's versions may have parts that begin with 0, which SemVer has not: the attribute has none, the files' names do.
func nvidiaGPUByDriverVersion(t *testing.T) {
	n, _ := StartNVIDIANode(t, `
driver: {version: 570.86.05, cuda: 12.8}
gpus: [{model: L4, count: 2}]
`, 2)
	newer := func(version string) string {
		return Selector("device.attributes['gpu.nvidia.com'].driverVersion.isGreaterThan(semver('" + version + "'))")
	}
	n.Apply(ClassClaimYAML("new-enough", nvidiaDriver, newer("570.86.4"), "") + GlibcPodYAML("new-enough") +
		ClassClaimYAML("too-old", nvidiaDriver, newer("570.86.5"), "") + GlibcPodYAML("too-old"))
	gpu := n.AwaitAllocatedPod("new-enough", 1)[0]
	n.CheckUUIDs("new-enough", "main", text(gpu, "uuid"))
	n.AwaitUnschedulable("too-old")
	n.EndPods()
}

// A Deployment that was written for NVIDIA's device plugin.
func nvidiaOldDeploymentGetsAGPU(t *testing.T) {
	n := NewNVIDIANode(t, fourGPUs)
	n.NeedsGate("DRAExtendedResource")
	n.PatchClass(`{"spec": {"extendedResourceName": "nvidia.com/gpu"}}`)
	n.Start()
	n.AwaitReady()
	devices := n.AwaitDevices(4)
	n.Apply(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: old, namespace: $NAMESPACE}
spec:
  replicas: 2
  selector: {matchLabels: {app: old}}
  template:
    metadata: {labels: {app: old}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, ` + glibc + `, resources: {limits: {nvidia.com/gpu: 1}}}]
`)
	var pods []corev1.Pod
	Await(t, 60*time.Second, "the Deployment has two pods", func() error {
		list, err := n.Client.CoreV1().Pods(n.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: "app=old"})
		if err == nil && len(list.Items) != 2 {
			err = fmt.Errorf("it has %d", len(list.Items))
		}
		if err == nil {
			pods = list.Items
		}
		return err
	})
	var given []string
	for _, pod := range pods {
		n.AwaitRunning(pod.Name)
		running, err := n.Pod(pod.Name)
		if err != nil {
			t.Fatal(err)
		}
		status := running.Status.ExtendedResourceClaimStatus
		if status == nil {
			t.Fatalf("pod %s has no claim for its extended resource", pod.Name)
		}
		device := devices[Devices(n.Allocated(status.ResourceClaimName, 1))[0]]
		n.CheckUUIDs(pod.Name, "main", text(device, "uuid"))
		given = append(given, device.Name)
	}
	if given[0] == given[1] {
		t.Errorf("both pods have the GPU %s", given[0])
	}
	if err := n.Client.AppsV1().Deployments(n.Namespace).Delete(context.Background(), "old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		n.AwaitGone(pod.Name)
	}
	n.AwaitNothingLeft()
}

func nvidiaConfigOfThePublicDriver(t *testing.T) {
	n, _ := StartNVIDIANode(t, "gpus: [{model: H100-80GB, count: 5}]", 5)
	config := func(kind, sharing string) string {
		return `config: [{requests: [gpus], opaque: {driver: gpu.nvidia.com, parameters: {apiVersion: resource.nvidia.com/v1beta1, kind: ` +
			kind + after(", sharing: ", sharing) + `}}}]`
	}
	n.Apply(ClassClaimYAML("plain", nvidiaDriver, "", config("GpuConfig", "")) + GlibcPodYAML("plain"))
	gpu := n.AwaitAllocatedPod("plain", 1)[0]
	n.CheckUUIDs("plain", "main", text(gpu, "uuid"))

	// What this driver does not do yet is refused, not ignored.
	slicing := "{strategy: TimeSlicing, timeSlicingConfig: {interval: Long}}"
	n.Apply(ClassClaimYAML("slices", nvidiaDriver, "", config("GpuConfig", slicing)) + GlibcPodYAML("slices") +
		ClassClaimYAML("mps", nvidiaDriver, "", config("GpuConfig", "{strategy: MPS}")) + GlibcPodYAML("mps") +
		// From 1.37 on the scheduler does not tell which request is meant where it is all of them: this claim has another.
		strings.Replace(ClassClaimYAML("mig", nvidiaDriver, "", config("MigDeviceConfig", "")), "requests: [",
			"requests: [{name: other, exactly: {deviceClassName: gpu.nvidia.com}}, ", 1) + GlibcPodYAML("mig"))
	n.AwaitEvent("slices", "FailedPrepareDynamicResources", "sharing.strategy", "TimeSlicing", "not supported by this version")
	n.AwaitEvent("mps", "FailedPrepareDynamicResources", "sharing.strategy", "MPS", "not supported by this version")
	n.AwaitEvent("mig", "FailedPrepareDynamicResources", "MigDeviceConfig", "use GpuConfig")
	n.EndPods()
}

// The driver's libraries lie where the host's distribution has them, which the image's loader searches by its cache only.
func nvidiaLoaderFindsTheDriver(t *testing.T) {
	n, _ := StartNVIDIANode(t, "driver: {version: 580.105.08}\ngpus: [{model: T4}]", 1, "--library-directory", "usr/lib64")
	n.Apply(ClassClaimYAML("claim", nvidiaDriver, "", "") + `
apiVersion: v1
kind: Pod
metadata: {name: claim, namespace: $NAMESPACE}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: gpu, resourceClaimName: claim}]
  containers:
  - {name: main, ` + glibc + `, resources: {claims: [{name: gpu}]}}
  - {name: confined, ` + glibc + `, resources: {claims: [{name: gpu}]},
     securityContext: {readOnlyRootFilesystem: true, runAsUser: 1000, capabilities: {drop: [ALL]}}}
`)
	gpu := n.AwaitAllocatedPod("claim", 1)[0]
	for _, container := range []string{"main", "confined"} {
		for name, want := range map[string]string{
			"libcuda.so.1": "libcuda", "libcuda.so": "libcuda", "libnvidia-ml.so.1": "libnvidia-ml",
			"libnvidia-ptxjitcompiler.so.1": "libnvidia-ptxjitcompiler",
		} {
			want = "/usr/lib64/" + want + ".so.580.105.08"
			if have := n.In("claim", container, "probe", "load", name); have != want {
				t.Errorf("container %s loads %s from %s, want %s", container, name, have, want)
			}
		}
		n.CheckUUIDs("claim", container, text(gpu, "uuid"))
	}
	n.EndPods()
}

// As GPU Operator has it: a container installs the driver, and its root is a directory of the host. Our driver is in a
// container too, where the host's root has another name.
func nvidiaDriverInAContainersRoot(t *testing.T) {
	n := NewNVIDIANode(t, fourGPUs, "--driver-root", "run/nvidia/driver")
	config := n.Config()["drivers"].([]Object)[0]["config"].(Object)
	config["driverRoot"] = filepath.Join(n.root, "run/nvidia/driver")
	config["hostRoot"] = "/proc/1/root"
	delete(config, "devRoot") // the driver's root has a dev directory
	n.WriteConfig()
	n.Start()
	n.AwaitReady()
	n.AwaitDevices(4)
	n.CheckOnePod()
}

func nvidiaMonitorSeesGPUsThatOthersUse(t *testing.T) {
	n, devices := StartNVIDIANode(t, fourGPUs, 4)
	n.Apply(ClassClaimYAML("claim", nvidiaDriver, "count: 2", "") + GlibcPodYAML("claim"))
	held := n.AwaitAllocatedPod("claim", 2)
	n.Apply(ClassClaimYAML("monitor", nvidiaDriver, "allocationMode: All, adminAccess: true", "") + GlibcPodYAML("monitor"))
	n.AwaitAllocatedPod("monitor", 4)
	var all []string
	for _, device := range devices {
		all = append(all, text(device, "uuid"))
	}
	n.CheckUUIDs("monitor", "main", all...)
	n.CheckUUIDs("claim", "main", text(held[0], "uuid"), text(held[1], "uuid"))
	n.EndPods()
}

// A minor is no name: after a reload of NVIDIA's driver it may be another card's.
func nvidiaMinorsSlide(t *testing.T) {
	n, devices := StartNVIDIANode(t, fourGPUs, 4)
	first, last := n.GPUs()[0], n.GPUs()[3]
	n.Set("--minors", "reversed")
	if now := n.GPU(first.UUID).Minor; now != last.Minor {
		t.Fatalf("GPU %s has the minor %d, want %d", first.UUID, now, last.Minor)
	}
	byUUID := Selector("device.attributes['gpu.nvidia.com'].uuid == '" + first.UUID + "'")
	n.Apply(ClassClaimYAML("claim", nvidiaDriver, byUUID, "") + GlibcPodYAML("claim"))
	if gpu := n.AwaitAllocatedPod("claim", 1)[0]; text(devices[gpu.Name], "uuid") != first.UUID {
		t.Errorf("the claim has %s, which was GPU %s before; want %s", gpu.Name, text(devices[gpu.Name], "uuid"), first.UUID)
	}
	n.CheckUUIDs("claim", "main", first.UUID)
	if answer := n.In("claim", "main", "probe", "open", fmt.Sprintf("/dev/nvidia%d", last.Minor)); answer != "ENXIO" {
		t.Errorf("open the GPU's node by its new minor: %s, want ENXIO", answer)
	}
	n.EndPods()
}

// XID 79: the GPU has fallen off the bus.
func nvidiaXIDKeepsNewPodsAway(t *testing.T) {
	n, _ := StartNVIDIANode(t, "gpus: [{model: H100-80GB, count: 2}]", 2)
	n.Apply(ClassClaimYAML("early", nvidiaDriver, "", "") + GlibcPodYAML("early"))
	sick := n.AwaitAllocatedPod("early", 1)[0]
	claim, err := n.Claim("early")
	if err != nil {
		t.Fatal(err)
	}
	container := n.ContainerID("early")
	health := n.GateOn(t, "ResourceHealthStatus")
	id := "k8s.gpu.nvidia.com/claim=" + string(claim.UID) + "-" + sick.Name
	if health {
		n.awaitHealthInPod("early", id, corev1.ResourceHealthStatusHealthy, "")
	}

	n.Set("--gpu", text(sick, "uuid"), "--xid", "79")
	n.awaitFault(sick.Name, "fallen-off-the-bus")
	if health {
		n.awaitHealthInPod("early", id, corev1.ResourceHealthStatusUnhealthy, "XID 79")
	}
	n.Apply(ClassClaimYAML("elsewhere", nvidiaDriver, "", "") + GlibcPodYAML("elsewhere"))
	if device := n.AwaitAllocatedPod("elsewhere", 1)[0]; device.Name == sick.Name {
		t.Errorf("a new pod has the sick GPU %s", sick.Name)
	}
	if err := n.SameContainer("early", container); err != nil {
		t.Error(err)
	}
	n.DeletePod("early")
	n.AwaitGone("early")
	taints := n.GateOn(t, "DRADeviceTaints")
	if !taints {
		n.AwaitDevices(1) // without taints it is not published, once no claim holds it
	}
	n.Apply(ClassClaimYAML("late", nvidiaDriver, "", "") + GlibcPodYAML("late"))
	n.AwaitUnschedulable("late")

	// A new process has not seen the event, and asks for evidence all the same.
	n.Kill()
	n.Start()
	n.AwaitReady()
	n.awaitFault(sick.Name, "fallen-off-the-bus")
	if taints {
		n.AwaitTaints(sick.Name, "gpu.nvidia.com/unhealthy=fallen-off-the-bus:NoSchedule")
	}
	n.AwaitUnschedulable("late")
	if output, status := n.Command("clear-fault", "--driver", nvidiaDriver, "--device", sick.Name, "--evidence", "reseated"); status != 0 {
		t.Fatalf("clear-fault: exit status %d:\n%s", status, output)
	}
	if device := n.AwaitAllocatedPod("late", 1)[0]; device.Name != sick.Name {
		t.Errorf("pod late has %s, want %s", device.Name, sick.Name)
	}
	if taints {
		n.AwaitTaints(sick.Name)
	}
	n.EndPods()
}

func nvidiaDriverUpgradedUnderneath(t *testing.T) {
	n, devices := StartNVIDIANode(t, "driver: {version: 580.105.08}\ngpus: [{model: L4, count: 2}]", 2)
	n.Apply(ClassClaimYAML("early", nvidiaDriver, "", "") + GlibcPodYAML("early"))
	n.AwaitRunning("early")
	container := n.ContainerID("early")
	load := func(pod string) string {
		return filepath.Base(n.In(pod, "main", "probe", "load", "libcuda.so.1"))
	}
	if have := load("early"); have != "libcuda.so.580.105.08" {
		t.Errorf("the first container loads %s", have)
	}
	n.Set("--driver-upgrade", "590.44.01", "--cuda", "13.1")
	Await(t, 60*time.Second, "the devices have the new driver's version", func() error {
		for name := range devices {
			device, err := n.Device(name)
			if err != nil {
				return err
			}
			for attribute, want := range map[string]string{"driverVersion": "590.44.1", "cudaDriverVersion": "13.1.0"} {
				version := device.Attributes[resourceapi.QualifiedName(attribute)].VersionValue
				if version == nil || *version != want {
					return fmt.Errorf("device %s: its attributes are %v", name, device.Attributes)
				}
			}
		}
		return nil
	})
	n.Apply(ClassClaimYAML("late", nvidiaDriver, "", "") + GlibcPodYAML("late"))
	gpu := n.AwaitAllocatedPod("late", 1)[0]
	n.CheckUUIDs("late", "main", text(gpu, "uuid"))
	if have := load("late"); have != "libcuda.so.590.44.01" {
		t.Errorf("the container after the upgrade loads %s", have)
	}
	if have := load("early"); have != "libcuda.so.580.105.08" {
		t.Errorf("the container from before the upgrade loads %s now", have)
	}
	if err := n.SameContainer("early", container); err != nil {
		t.Error(err)
	}
	n.EndPods()
}

// On a node without NVIDIA's driver ours runs, says why it is not ready, and goes on when the driver has come.
func nvidiaDriverInstalledLater(t *testing.T) {
	n := NewNVIDIANode(t, fourGPUs, "--not-installed")
	n.Start()
	n.AwaitCondition("libnvidia-ml.so.1")
	if slices, err := n.Slices(); err != nil || len(slices) > 0 {
		t.Errorf("a node without driver has %d slices (%v)", len(slices), err)
	}
	n.Set("--install")
	n.AwaitReady()
	n.AwaitDevices(4)
	n.CheckOnePod()
}

// Both would give away the same GPUs.
func nvidiaDevicePluginOnTheNodeKeepsNewClaimsAway(t *testing.T) {
	n := NewNVIDIANode(t, fourGPUs)
	plugin := n.Listen("/var/lib/kubelet/device-plugins/nvidia-gpu.sock")
	n.Start()
	tainted := func(want bool) {
		t.Helper()
		Await(t, 90*time.Second, fmt.Sprintf("four GPUs, tainted: %v", want), func() error {
			slices, err := n.Slices()
			if err != nil {
				return err
			}
			devices, taints := 0, 0
			for _, slice := range slices {
				for _, device := range slice.Spec.Devices {
					devices++
					taints += len(device.Taints)
				}
			}
			// Where the server drops taints they are not published.
			withheld := want && devices == 0 && !n.AtLeast(36)
			if withheld || devices == 4 && (taints == 4) == want {
				return nil
			}
			return fmt.Errorf("%d devices with %d taints", devices, taints)
		})
	}
	tainted(true)
	plugin.Close()
	tainted(false)
}

// The pod of before has its GPU again: found by its UUID at another minor, with the files of the driver that is there now.
func TestNVIDIAPodHasItsGPUAfterAReboot(t *testing.T) {
	n, _ := StartNVIDIANode(t, fourGPUs, 4)
	n.Apply(ClassClaimYAML("claim", nvidiaDriver, "", "") + GlibcPodYAML("claim"))
	uuid := text(n.AwaitAllocatedPod("claim", 1)[0], "uuid")
	minor, id := n.GPU(uuid).Minor, n.ContainerID("claim")
	n.Reboot(t)
	n.AwaitEnd(30 * time.Second)
	n.Set("--reboot")
	n.Set("--minors", "reversed", "--driver-upgrade", "590.44.01")
	n.Start()
	n.AwaitReady()
	n.AwaitRestarted("claim", id, afterRetry)
	n.CheckUUIDs("claim", "main", uuid)
	now := n.GPU(uuid).Minor
	if now == minor {
		t.Fatalf("the GPU has the minor %d as before", minor)
	}
	for path, want := range map[string]string{fmt.Sprintf("/dev/nvidia%d", now): "ENXIO", fmt.Sprintf("/dev/nvidia%d", minor): "ENOENT"} {
		if answer := n.In("claim", "main", "probe", "open", path); answer != want {
			t.Errorf("open %s: %s, want %s", path, answer, want)
		}
	}
	if file := n.In("claim", "main", "probe", "load", "libcuda.so.1"); filepath.Base(file) != "libcuda.so.590.44.01" {
		t.Errorf("the container loads %s", file)
	}
	n.EndPods()
}
