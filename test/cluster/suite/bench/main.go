// bench asks DRA drivers on a real cluster as the kubelet does, over their sockets, and prints them side by side. Its
// claims are allocated by itself, so neither scheduler nor pods are in the figures. See ../../bench.sh.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"dra-sdk.invalid/cluster/suite"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
)

const namespace = "default"

// contender is a driver that runs on the node.
type contender struct {
	driver  string
	pid     string // in the node's process namespace
	client  drapb.DRAPluginClient
	devices []resourceapi.DeviceRequestAllocationResult
	next    int
	held    []*drapb.Claim
}

type call func(context.Context, *contender, *drapb.Claim) error

func prepare(ctx context.Context, c *contender, claim *drapb.Claim) error {
	answer, err := c.client.NodePrepareResources(ctx, &drapb.NodePrepareResourcesRequest{Claims: []*drapb.Claim{claim}})
	if err != nil {
		return err
	}
	if one := answer.Claims[claim.Uid]; one == nil || one.Error != "" || len(one.Devices) == 0 {
		return fmt.Errorf("prepare claim %s: %v", claim.Name, one)
	}
	return nil
}

func unprepare(ctx context.Context, c *contender, claim *drapb.Claim) error {
	answer, err := c.client.NodeUnprepareResources(ctx, &drapb.NodeUnprepareResourcesRequest{Claims: []*drapb.Claim{claim}})
	if err != nil {
		return err
	}
	if one := answer.Claims[claim.Uid]; one == nil || one.Error != "" {
		return fmt.Errorf("unprepare claim %s: %v", claim.Name, one)
	}
	return nil
}

var cluster *suite.Cluster

func main() {
	name := flag.String("cluster", "", "name of the cluster")
	runScript := flag.String("run-script", "../../run.sh", "path of test/cluster/run.sh")
	batch := flag.Int("batch", 100, "claims in a batch; the contenders take turns batch by batch")
	rounds := flag.Int("rounds", 3, "batches of each contender in a row")
	held := flag.Int("held", 1000, "claims held in the rows that hold claims")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "bench [FLAGS] DRIVER=PID...: the first is ours, the ratio is its figure by the other's")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*name, *runScript, flag.Args(), *batch, *rounds, *held); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(name, runScript string, arguments []string, batch, rounds, held int) (err error) {
	ctx := context.Background()
	if cluster, err = suite.Connect(name, runScript); err != nil {
		return err
	}
	var contenders []*contender
	for _, argument := range arguments {
		c, err := meet(ctx, argument)
		if err != nil {
			return err
		}
		contenders = append(contenders, c)
	}
	if len(contenders) == 0 {
		return fmt.Errorf("no driver given")
	}
	fmt.Printf("Kubernetes %s, %d claims a batch, %d batches, contenders in turn\n\n", cluster.Version.GitVersion, batch, rounds)
	header := []string{"row"}
	for _, c := range contenders {
		header = append(header, c.driver)
	}
	if len(contenders) == 2 {
		header = append(header, "ratio")
	}
	fmt.Printf("| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat("---|", len(header)))

	memory(contenders, "RSS idle, MB")
	for _, holding := range []int{0, held} {
		for _, c := range contenders {
			if err := c.hold(ctx, holding); err != nil {
				return err
			}
		}
		if holding > 0 {
			memory(contenders, fmt.Sprintf("RSS with %d claims, MB", holding))
		}
		for _, together := range []int{1, 10, 50} {
			if err := rows(ctx, contenders, together, holding, batch, rounds); err != nil {
				return err
			}
		}
	}
	for _, c := range contenders {
		if err := c.hold(ctx, 0); err != nil {
			return err
		}
	}
	return nil
}

// meet connects to a driver that is given as DRIVER=PID, and reads the devices it publishes.
func meet(ctx context.Context, argument string) (*contender, error) {
	driver, pid, _ := strings.Cut(argument, "=")
	c := &contender{driver: driver, pid: pid}
	list, err := cluster.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + driver})
	if err != nil {
		return nil, err
	}
	for _, slice := range list.Items {
		for _, device := range slice.Spec.Devices {
			c.devices = append(c.devices, resourceapi.DeviceRequestAllocationResult{
				Request: "r", Driver: driver, Pool: slice.Spec.Pool.Name, Device: device.Name})
		}
	}
	sockets, err := filepath.Glob(cluster.Path("/var/lib/kubelet/plugins/" + driver + "/dra*.sock"))
	if err != nil || len(sockets) == 0 || len(c.devices) == 0 {
		return nil, fmt.Errorf("driver %s has %d sockets and %d devices (%v)", driver, len(sockets), len(c.devices), err)
	}
	connection, err := grpc.NewClient("unix://"+sockets[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	c.client = drapb.NewDRAPluginClient(connection)
	return c, nil
}

// claims makes so many allocated claims: shares, so that they can be more than there are devices.
func (c *contender) claims(ctx context.Context, count int) ([]*drapb.Claim, error) {
	claims := make([]*drapb.Claim, count)
	return claims, each(8, count, func(i int) error {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-", Namespace: namespace},
			Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
				Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: c.driver}}}}}}
		api := cluster.Client.ResourceV1().ResourceClaims(namespace)
		claim, err := api.Create(ctx, claim, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		share := types.UID(uuid.NewString())
		result := c.devices[i%len(c.devices)]
		result.ShareID = &share
		claim.Status.Allocation = &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}}}
		if claim, err = api.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return err
		}
		claims[i] = &drapb.Claim{Namespace: namespace, Name: claim.Name, Uid: string(claim.UID)}
		return nil
	})
}

func (c *contender) remove(ctx context.Context, claims []*drapb.Claim) error {
	return each(8, len(claims), func(i int) error {
		return cluster.Client.ResourceV1().ResourceClaims(namespace).Delete(ctx, claims[i].Name, metav1.DeleteOptions{})
	})
}

// hold makes the driver hold so many claims.
func (c *contender) hold(ctx context.Context, count int) error {
	if count > len(c.held) {
		claims, err := c.claims(ctx, count-len(c.held))
		if err != nil {
			return err
		}
		c.held = append(c.held, claims...)
		return each(8, len(claims), func(i int) error { return prepare(ctx, c, claims[i]) })
	}
	gone := c.held[count:]
	c.held = c.held[:count]
	if err := each(8, len(gone), func(i int) error { return unprepare(ctx, c, gone[i]) }); err != nil {
		return err
	}
	return c.remove(ctx, gone)
}

// each runs 0..count-1, so many at a time, and returns the first error.
func each(together, count int, do func(int) error) error {
	next := make(chan int)
	var group sync.WaitGroup
	var first error
	var once sync.Once
	for range together {
		group.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					once.Do(func() { first = err })
				}
			}
		})
	}
	for i := range count {
		next <- i
	}
	close(next)
	group.Wait()
	return first
}

// settle waits until the machine has next to nothing to do. New claims keep the control plane at work for a while, and
// that would be in the figures of whoever is asked then.
func settle() error {
	const step, limit, quiet = 200 * time.Millisecond, time.Minute, 0.15
	idle, total, err := processorTicks()
	for began := time.Now(); err == nil; {
		time.Sleep(step)
		wasIdle, wasTotal := idle, total
		if idle, total, err = processorTicks(); err != nil {
			break
		}
		busy := 1 - (idle-wasIdle)/max(total-wasTotal, 1)
		if busy < quiet {
			return nil
		}
		if time.Since(began) > limit {
			return fmt.Errorf("the machine was still %.0f %% busy after %v: stop what else runs on it", busy*100, limit)
		}
	}
	return err
}

// processorTicks reads how long all processors together were idle, and for how long they are counted.
func processorTicks() (idle, total float64, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(first)[1:] {
		var ticks float64
		if _, err := fmt.Sscan(field, &ticks); err != nil {
			return 0, 0, fmt.Errorf("/proc/stat: %q: %w", first, err)
		}
		total += ticks
		if i == 3 || i == 4 { // idle, iowait: proc_stat(5)
			idle += ticks
		}
	}
	return idle, total, nil
}

// figure of a row and one contender.
type figure struct {
	took []time.Duration // all calls
	rate float64         // calls a second, of the best batch
}

func (f *figure) percentile(p float64) float64 {
	slices.Sort(f.took)
	return float64(f.took[min(int(p*float64(len(f.took))), len(f.took)-1)].Microseconds()) / 1000
}

func rows(ctx context.Context, contenders []*contender, together, holding, batch, rounds int) error {
	steps := []struct {
		name string
		call call
	}{{"prepare", prepare}, {"prepare again", prepare}, {"unprepare", unprepare}}
	figures := make([][]figure, len(steps))
	for i := range figures {
		figures[i] = make([]figure, len(contenders))
	}
	for range rounds {
		for which, c := range contenders {
			claims, err := c.claims(ctx, batch)
			if err != nil {
				return err
			}
			if err := settle(); err != nil {
				return err
			}
			for step, s := range steps {
				took := make([]time.Duration, batch)
				began := time.Now()
				if err := each(together, batch, func(i int) error {
					start := time.Now()
					err := s.call(ctx, c, claims[i])
					took[i] = time.Since(start)
					return err
				}); err != nil {
					return fmt.Errorf("%s: %w", c.driver, err)
				}
				f := &figures[step][which]
				f.rate = max(f.rate, float64(batch)/time.Since(began).Seconds())
				f.took = append(f.took, took...)
			}
			if err := c.remove(ctx, claims); err != nil {
				return err
			}
		}
	}
	for step, s := range steps {
		row := fmt.Sprintf("%s, %d at once, %d held", s.name, together, holding)
		print(row+": p50, ms", figures[step], func(f *figure) float64 { return f.percentile(0.5) })
		print(row+": p99, ms", figures[step], func(f *figure) float64 { return f.percentile(0.99) })
		print(row+": rate, 1/s", figures[step], func(f *figure) float64 { return f.rate })
	}
	return nil
}

func print[T any](row string, figures []T, value func(*T) float64) {
	cells := []string{row}
	for i := range figures {
		cells = append(cells, fmt.Sprintf("%.2f", value(&figures[i])))
	}
	if len(figures) == 2 {
		cells = append(cells, fmt.Sprintf("%.2f", value(&figures[0])/value(&figures[1])))
	}
	fmt.Printf("| %s |\n", strings.Join(cells, " | "))
}

func memory(contenders []*contender, row string) {
	print(row, contenders, func(c **contender) float64 {
		text, err := os.ReadFile(cluster.Path("/proc/" + (*c).pid + "/status"))
		if err != nil {
			return 0
		}
		var kilobytes float64
		for line := range strings.Lines(string(text)) {
			if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
				fmt.Sscan(rest, &kilobytes)
			}
		}
		return kilobytes / 1024
	})
}
