package suite

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// GPUs and NICs of two drivers, chosen together by the scheduler.
func rdmaAlignment(t *testing.T) {
	t.Run("OneProcess", func(t *testing.T) {
		h := NewRDMAHost(t, "h100-8gpu-8nic-4roots.yaml", "h100x8.yaml")
		h.Start(8, []string{h.Driver, h.gpus})
		checkRoots(h)
	})
	t.Run("TwoProcesses", func(t *testing.T) {
		h := NewRDMAHost(t, "h100-8gpu-8nic-4roots.yaml", "h100x8.yaml")
		drivers := h.Start(8, []string{h.Driver}, []string{h.gpus})
		checkRoots(h)
		checkOneDriverAway(h, drivers[1])
	})
	t.Run("RootsNeverMatch", rdmaRootsNeverMatch)
}

const pcieRoot, numaNode = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"

// Two GPUs and two NICs are at each of four roots.
func checkRoots(h *RDMAHost) {
	names := []string{"one", "two", "three", "four"}
	for _, name := range names {
		h.Apply(h.AlignedYAML(name, 1, pcieRoot))
	}
	for _, name := range names {
		h.CheckAligned(name, 1, pcieRoot)
	}
	h.EndAll()
	roots := map[string]string{}
	for _, name := range names {
		h.Apply(h.AlignedYAML(name, 2, pcieRoot))
	}
	for _, name := range names {
		root := h.CheckAligned(name, 2, pcieRoot)
		if other, taken := roots[root]; taken {
			h.T.Errorf("pods %s and %s both have all of root %s", name, other, root)
		}
		roots[root] = name
	}
	h.Apply(h.AlignedYAML("five", 1, pcieRoot))
	h.AwaitUnschedulable("five")
	h.EndAll()
}

// A claim that only one of its drivers can prepare: the other's part is cleaned up with the pod, or used by its next try.
func checkOneDriverAway(h *RDMAHost, away *Driver) {
	away.Kill()
	h.Apply(h.AlignedYAML("ends", 1, pcieRoot) + h.AlignedYAML("waits", 1, pcieRoot))
	h.AwaitEvent("ends", "FailedPrepareDynamicResources")
	h.AwaitEvent("waits", "FailedPrepareDynamicResources")
	h.DeletePod("ends")
	away.Start()
	away.AwaitReady()
	h.AwaitGone("ends")
	h.CheckAligned("waits", 1, pcieRoot)
	if err := h.onlyRecordsOf("waits"); err != nil {
		h.T.Error(err)
	}
	h.EndAll()
}

// As on Grace, where a GPU and its NIC are at roots of their own: what they have in common is the NUMA node.
func rdmaRootsNeverMatch(t *testing.T) {
	h := NewRDMAHost(t, "grace-4gpu-4nic.yaml", "gb200x4.yaml")
	h.Start(4, []string{h.Driver, h.gpus})
	h.Apply(h.AlignedYAML("root", 1, pcieRoot))
	t.Logf("the scheduler says: %s", h.AwaitUnschedulable("root"))
	nodes := map[string]int{}
	for _, name := range []string{"one", "two"} {
		h.Apply(h.AlignedYAML(name, 2, numaNode))
	}
	for _, name := range []string{"one", "two"} {
		nodes[h.CheckAligned(name, 2, numaNode)]++
	}
	if nodes["0"] != 1 || nodes["1"] != 1 {
		t.Errorf("pods by NUMA node: %v, want one at each", nodes)
	}
	h.EndAll()
}

// Exactly the verbs device of its NIC, and the connection manager, which is one for all. A container may make device nodes; what
// keeps it off another NIC's is the device cgroup.
func rdmaSiblingsNodesAreDenied(t *testing.T) {
	h := NewRDMAHost(t, "h100-8gpu-8nic-4roots.yaml", "")
	loadGlibcImage(t)
	h.Start(8, []string{h.Driver})
	second := Selector("device.attributes['dra.net'].rdmaDevice == 'mlx5_2'")
	h.Apply(ClassClaimYAML("claim", "$DRIVER", second, "") + GlibcPodYAML("claim") +
		ClassClaimYAML("seen", "$DRIVER", Selector("device.attributes['dra.net'].rdmaDevice == 'mlx5_3'"), "") + NICPodYAML("seen"))
	h.AwaitRunning("claim")
	h.AwaitRunning("seen")
	want := []string{"/dev/infiniband/rdma_cm", h.verbs("mlx5_3")}
	if have := h.See("seen", "main").infiniband(); !slices.Equal(have, slices.Sorted(slices.Values(want))) {
		t.Errorf("the container has the nodes %v, want %v", have, want)
	}
	number := func(path string) (uint32, uint32) {
		var stat unix.Stat_t
		if err := unix.Stat(h.root+path, &stat); err != nil {
			t.Fatal(err)
		}
		return unix.Major(stat.Rdev), unix.Minor(stat.Rdev)
	}
	own := map[string]bool{h.verbs("mlx5_2"): true, "/dev/infiniband/rdma_cm": true}
	for path := range own {
		// Nobody answers for this number here: the error of a device that may be opened.
		if answer := h.In("claim", "main", "probe", "open", path); answer != "ENXIO" && answer != "ENODEV" {
			t.Errorf("open %s: %s, want ENXIO", path, answer)
		}
	}
	nodes, err := filepath.Glob(h.root + "/dev/infiniband/*")
	if err != nil || len(nodes) != 17 {
		t.Fatalf("the host has the nodes %v (%v)", nodes, err)
	}
	for _, node := range nodes {
		path := strings.TrimPrefix(node, h.root)
		major, minor := number(path)
		made := "/tmp/" + filepath.Base(path)
		if answer := h.In("claim", "main", "probe", "mknod", made, fmt.Sprint(major), fmt.Sprint(minor)); answer != "made" {
			t.Fatalf("mknod %s: %s", made, answer)
		}
		denied := h.In("claim", "main", "probe", "open", made) == "EPERM"
		if denied == own[path] {
			t.Errorf("a node of %s made inside is denied: %v", path, denied)
		}
	}
	h.EndAll()
}
