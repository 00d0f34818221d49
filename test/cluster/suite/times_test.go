package suite

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
)

// How long things take, for the table in docs/operations.md. That they happen is checked here, how fast is not.
func TestTimes(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("DRA_TIMES"))
	if rounds < 1 {
		t.Skip("measures, on an idle machine: DRA_TIMES=7 test/cluster/run.sh test -- -run TestTimes")
	}
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 8, "deviceNodes": true}})
	f.AwaitDevices(8)
	pool := f.watchPool()
	whole := func(devices map[string]resourceapi.Device) bool { return len(devices) == 8 && tainted(devices) == 0 }
	gone := func(devices map[string]resourceapi.Device) bool { return len(devices) == 0 }
	var times measurements

	for range rounds {
		f.Component(t, "kill", "kubelet")
		registrations := strings.Count(d.Log(), "registered with the kubelet")
		f.Component(t, "start", "kubelet")
		began := modified(t, filepath.Join(f.state, "run", "kubelet.pid"))
		Await(t, 60*time.Second, "the kubelet deletes the slices", func() error { return pool.since(began, gone) })
		deleted := pool.at
		registered := soon(t, "the kubelet registers the driver", func() bool {
			return strings.Count(d.Log(), "registered with the kubelet") > registrations
		})
		Await(t, 60*time.Second, "the slices are back", func() error { return pool.since(deleted, whole) })
		times.add("kubelet started → it has registered the driver", registered.Sub(began))
		times.add("kubelet started → it has deleted the slices", deleted.Sub(began))
		times.add("slices deleted by the kubelet → all are back", pool.at.Sub(deleted))
		f.AwaitNodeReady(began)
		// A process takes its time when slices are deleted again and again (docs/publication.md): a new one for each round.
		d.Stop()
		d.Start()
		d.AwaitReady()
		f.AwaitDevices(8)
	}

	for range rounds {
		anyMoment()
		began := time.Now()
		d.signal("TERM")
		unregistered := soon(t, "the registration socket is gone", func() bool {
			sockets, err := filepath.Glob(f.Path("/var/lib/kubelet/plugins_registry/" + f.Driver + "-*"))
			return err == nil && len(sockets) == 0
		})
		d.AwaitEnd(60 * time.Second)
		times.add("SIGTERM → the process has ended", time.Since(began))
		started := time.Now()
		d.Start()
		ready := soon(t, "the driver is ready", d.isReady)
		times.add("process started → ready", ready.Sub(started))
		times.add("SIGTERM → the next process is ready", ready.Sub(began))
		times.add("registration socket gone → the next process is registered", ready.Sub(unregistered))
	}

	f.Apply(ClaimYAML("claim", "") + PodYAML("pod", "claim"))
	claim, _ := f.RunAndCheck("pod", "claim", 1)
	for range rounds {
		gap := f.gapOfPrepare(claim, func() {
			d.Stop()
			d.Start()
			soon(t, "the driver is ready", d.isReady)
		})
		times.add("last prepare answered → next one answered, over a restart", gap)
	}
	second := d
	for round := range rounds {
		first := second
		second = d.Instance(fmt.Sprintf("00000000-0000-4000-8000-%012d", round))
		gap := f.gapOfPrepare(claim, func() {
			second.Start()
			second.AwaitReady()
			first.Stop()
		})
		times.add("the same over an update, two instances side by side", gap)
	}
	second.Stop()
	d.Start()
	d.AwaitReady()
	f.EndPods()

	requests := f.Path("/var/lib/kubelet/plugins/" + f.Driver + "/requests")
	drain := func(row string, done func(map[string]resourceapi.Device) bool, arguments ...string) {
		anyMoment()
		if output, status := d.Command(append([]string{"drain", "--driver", f.Driver}, arguments...)...); status != 0 {
			t.Fatalf("drain %v: exit status %d:\n%s", arguments, status, output)
		}
		began := modified(t, requests)
		Await(t, 60*time.Second, row, func() error { return pool.since(began, done) })
		times.add(row, pool.at.Sub(began))
	}
	for range rounds {
		drain("drain → every device has the taint", func(devices map[string]resourceapi.Device) bool { return tainted(devices) == 8 })
		drain("drain --off → none has it", whole, "--off")
		drain("drain --mode withdraw → the slices are gone", gone, "--mode", "withdraw")
		drain("drain --off → they are back", whole, "--off")
	}

	for range rounds {
		d.Stop()
		began := time.Now()
		Await(t, 90*time.Second, "the kubelet deletes the slices of a driver that has ended", func() error { return pool.since(began, gone) })
		times.add("driver ended → the kubelet has deleted its slices", pool.at.Sub(began))
		d.Start()
		d.AwaitReady()
		f.AwaitDevices(8)
	}
	t.Logf("%d rounds on Kubernetes %s\n%s", rounds, f.Version.GitVersion, times.table())
}

func tainted(devices map[string]resourceapi.Device) int {
	count := 0
	for _, device := range devices {
		count += min(len(device.Taints), 1)
	}
	return count
}

// modified is when a file, or the list of a folder's files, was changed.
func modified(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// anyMoment waits up to a second: the kubelet looks at its plugins, and the driver for requests, once a second, and what
// always follows the last look would always wait as long.
func anyMoment() { time.Sleep(rand.N(time.Second)) }

// soon looks every few milliseconds until something is true, and tells when.
func soon(t *testing.T, what string, look func() bool) time.Time {
	t.Helper()
	for began := time.Now(); !look(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 60*time.Second {
			t.Fatalf("%s: not within a minute", what)
		}
	}
	return time.Now()
}

func (d *Driver) isReady() bool {
	status, err := d.Status()
	return err == nil && status["ready"] == true
}

// poolWatch follows the driver's slices.
type poolWatch struct {
	mutex  sync.Mutex
	states []poolState // after each event
	at     time.Time   // of the state that `since` has found
}

type poolState struct {
	at      time.Time
	devices map[string]resourceapi.Device
}

func (f *Fixture) watchPool() *poolWatch {
	f.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f.T.Cleanup(cancel)
	pool := &poolWatch{}
	options := metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + f.Driver}
	stored := map[string]resourceapi.ResourceSlice{}
	follow := func() error {
		watch, err := f.Client.ResourceV1().ResourceSlices().Watch(ctx, options)
		if err != nil {
			return err
		}
		for event := range watch.ResultChan() {
			slice, is := event.Object.(*resourceapi.ResourceSlice)
			if !is {
				return fmt.Errorf("watch of the slices: %v", event.Object)
			}
			options.ResourceVersion = slice.ResourceVersion
			if delete(stored, slice.Name); event.Type != "DELETED" {
				stored[slice.Name] = *slice
			}
			if devices, err := completePool(slices.Collect(maps.Values(stored))); err == nil {
				pool.mutex.Lock()
				pool.states = append(pool.states, poolState{time.Now(), devices})
				pool.mutex.Unlock()
			}
		}
		return nil
	}
	go func() { // the client ends each watch after its timeout: it goes on from the same place
		for ctx.Err() == nil {
			if err := follow(); err != nil && ctx.Err() == nil {
				f.T.Error(err)
				return
			}
		}
	}()
	return pool
}

// since looks for the first state after `began` that is as wanted, and keeps its time.
func (p *poolWatch) since(began time.Time, wanted func(map[string]resourceapi.Device) bool) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, state := range p.states {
		if !state.at.Before(began) && wanted(state.devices) {
			p.at = state.at
			return nil
		}
	}
	return fmt.Errorf("%d states of the pool were seen", len(p.states))
}

// gapOfPrepare asks for the prepare of a claim that is prepared again and again, at whatever service socket there is, while
// something is done, and returns the longest time between two answers.
func (f *Fixture) gapOfPrepare(claim *resourceapi.ResourceClaim, do func()) time.Duration {
	f.T.Helper()
	done := make(chan struct{})
	result := make(chan time.Duration)
	ask := func() bool {
		sockets, _ := filepath.Glob(f.Path("/var/lib/kubelet/plugins/"+f.Driver) + "/dra*.sock")
		return slices.ContainsFunc(sockets, func(socket string) bool { return prepared(socket, claim) })
	}
	go func() {
		last, gap, answered := time.Now(), time.Duration(0), false
		for ended := false; !ended || !answered; time.Sleep(10 * time.Millisecond) {
			select {
			case <-done:
				ended = true
			default:
			}
			if answered = ask(); answered {
				gap, last = max(gap, time.Since(last)), time.Now()
			} else if ended && time.Since(last) > time.Minute {
				f.T.Error("no prepare was answered within a minute")
				break
			}
		}
		result <- gap
	}()
	do()
	close(done)
	return <-result
}

func prepared(socket string, claim *resourceapi.ResourceClaim) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return false
	}
	defer connection.Close()
	uid := string(claim.UID)
	answer, err := drapb.NewDRAPluginClient(connection).NodePrepareResources(ctx, &drapb.NodePrepareResourcesRequest{
		Claims: []*drapb.Claim{{Namespace: claim.Namespace, Name: claim.Name, Uid: uid}}})
	return err == nil && answer.Claims[uid] != nil && answer.Claims[uid].Error == ""
}

// measurements by row, in the order they came.
type measurements struct {
	rows []string
	took map[string][]time.Duration
}

func (m *measurements) add(row string, took time.Duration) {
	if m.took == nil {
		m.took = map[string][]time.Duration{}
	}
	if m.took[row] == nil {
		m.rows = append(m.rows, row)
	}
	m.took[row] = append(m.took[row], took)
}

func (m *measurements) table() string {
	text := "| from → to | median, s | least | most |\n|---|---|---|---|\n"
	for _, row := range m.rows {
		sorted := slices.Sorted(slices.Values(m.took[row]))
		text += fmt.Sprintf("| %s | %.2f | %.2f | %.2f |\n", row, sorted[len(sorted)/2].Seconds(), sorted[0].Seconds(),
			sorted[len(sorted)-1].Seconds())
	}
	return text
}
