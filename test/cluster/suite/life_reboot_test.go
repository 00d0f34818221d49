package suite

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"
)

// A reboot: every process dies at once, memory file systems and the cards' settings are gone, the boot id is another.
// Pods of before run again with their devices, which are prepared anew; what was deleted while the node was down gives
// its devices back, to whoever waits for them.
func TestPodsRunAgainAfterAReboot(t *testing.T) {
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 3, "deviceNodes": true},
		Driver: Object{"orphanCheckInterval": "1s", "orphanGrace": "1s"}})
	f.AwaitDevices(3)
	for _, name := range []string{"stays", "ends", "lost"} {
		f.Apply(TunedClaimYAML(name) + PodYAML(name, name))
		f.RunAndCheck(name, name, 1)
	}
	stays := f.Allocated("stays", 1)
	device := Devices(stays)[0]
	id := f.ContainerID("stays")
	f.Apply(ClaimYAML("waits", "") + PodYAML("waits", "waits"))
	f.AwaitUnschedulable("waits")

	// The node is down: to the API server it is one whose kubelet says nothing.
	f.Component(t, "kill", "kubelet")
	f.DeletePod("ends")
	f.ForceDelete("lost")
	f.DeleteClaim("lost")
	f.Reboot(t)
	d.AwaitEnd(30 * time.Second)
	if err := os.Remove(d.StatePath("hardware.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if left, err := f.cdiFiles(); err != nil || len(left) > 0 {
		t.Fatalf("CDI files after the reboot: %v (%v), want none", left, err)
	}
	calls := CountEvents(d.HookEvents(), Object{"event": "begin", "hook": "prepare", "claim": string(stays.UID)})
	d.Start()
	d.AwaitReady()

	f.AwaitRestarted("stays", id, afterRetry)
	again := f.Allocated("stays", 1)
	if Devices(again)[0] != device || again.UID != stays.UID {
		t.Errorf("claim %s has %s, before the reboot %s had %s", again.UID, Devices(again)[0], stays.UID, device)
	}
	if view := f.CheckSees("stays", "main", Sees(again)); view.Env["GPU_DEVICE_"+device[len("gpu-"):]+"_TIMESLICE_INTERVAL"] != "Long" {
		t.Errorf("the container sees %v, want the interval Long of %s", view.Env, device)
	}
	d.CheckInterval(device, "Long")
	if now := CountEvents(d.HookEvents(), Object{"event": "begin", "hook": "prepare", "claim": string(stays.UID)}); now != calls+1 {
		t.Errorf("claim stays: %d calls of prepare, %d before the reboot, want one more", now, calls)
	}
	f.AwaitGone("ends")
	f.AwaitRunningWithin("waits", afterRetry)
	f.RunAndCheck("waits", "waits", 1)
	Await(t, 60*time.Second, "only the claims of pods have records", func() error {
		return f.onlyRecordsOf("stays", "waits")
	})
	if _, err := f.Pod("lost"); err == nil {
		t.Error("pod lost is back")
	}
	f.EndPods()
	for _, card := range []string{"gpu-0", "gpu-1", "gpu-2"} {
		d.CheckInterval(card, "Default")
	}
}
