package suite

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Fixture is what one test owns: a namespace, a driver name and a device class of that name.
type Fixture struct {
	*Cluster
	T         *testing.T
	Namespace string
	Driver    string // the driver's name, and that of the class
	explained bool
}

// NewFixture makes a namespace, and the class that selects the devices of the test's driver. Both go with the test.
func NewFixture(t *testing.T) *Fixture {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(strings.TrimPrefix(t.Name(), "Test")))
	if len(name) > 40 {
		name = name[:40]
	}
	f := &Fixture{Cluster: cluster, T: t, Namespace: name, Driver: name + ".dra.test"}
	t.Cleanup(f.remove)
	f.Apply(`
apiVersion: v1
kind: Namespace
metadata: {name: $NAMESPACE}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: $DRIVER}
spec: {selectors: [{cel: {expression: device.driver == "$DRIVER"}}]}
`)
	return f
}

// remove deletes what NewFixture has made, and all in it.
func (f *Fixture) remove() {
	ctx := context.Background()
	if f.T.Failed() {
		f.explain()
	}
	now := int64(0)
	_ = f.Client.CoreV1().Pods(f.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	_ = f.Client.CoreV1().Namespaces().Delete(ctx, f.Namespace, metav1.DeleteOptions{})
	_ = f.Client.ResourceV1().DeviceClasses().Delete(ctx, f.Driver, metav1.DeleteOptions{})
}

// explain logs what a reader of a failed test wants to see first.
func (f *Fixture) explain() {
	if f.explained {
		return
	}
	f.explained = true
	ctx := context.Background()
	if pods, err := f.Client.CoreV1().Pods(f.Namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for _, pod := range pods.Items {
			f.T.Logf("pod %s: %s %s %s", pod.Name, pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
		}
	}
	if events, err := f.Client.CoreV1().Events(f.Namespace).List(ctx, metav1.ListOptions{}); err == nil {
		for _, event := range events.Items {
			f.T.Logf("event %s/%s: %s %s", event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, event.Message)
		}
	}
}

// StartDriver starts this test's driver.
func (f *Fixture) StartDriver(options DriverOptions) *Driver {
	f.T.Helper()
	d := StartDriver(f.T, f.Cluster, f.Driver, options)
	f.T.Cleanup(f.release)
	return d
}

// release ends what a failed test leaves running, while its driver can still unprepare the claims: without one the pods
// would be there for ever.
func (f *Fixture) release() {
	if !f.T.Failed() {
		return
	}
	f.explain()
	now := int64(0)
	_ = f.Client.CoreV1().Pods(f.Namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(100 * time.Millisecond) {
		if left, err := f.Leftovers(); err != nil || len(left) == 0 {
			return
		}
	}
}

// Apply creates the objects of a YAML text, in which $DRIVER and $NAMESPACE stand for this test's.
func (f *Fixture) Apply(text string) {
	f.T.Helper()
	for _, object := range f.parse(text) {
		// A namespace's default service account, without which no pod is taken, appears a moment after the namespace.
		Await(f.T, 20*time.Second, "create "+object.GetKind()+" "+object.GetName(), func() error {
			return f.create(object)
		})
	}
}

// Refused applies one object that the API server must refuse, and returns its reason.
func (f *Fixture) Refused(text string) error {
	f.T.Helper()
	err := f.create(f.parse(text)[0])
	if err == nil {
		f.T.Fatalf("the API server took what it should refuse:\n%s", text)
	}
	return err
}

func (f *Fixture) parse(text string) []*unstructured.Unstructured {
	f.T.Helper()
	text = strings.NewReplacer("$DRIVER", f.Driver, "$NAMESPACE", f.Namespace).Replace(text)
	decoder := yaml.NewYAMLToJSONDecoder(strings.NewReader(text))
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			f.T.Fatalf("manifest: %v\n%s", err, text)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// The resources of the kinds that tests use; those in no namespace have false.
var resources = map[string]struct {
	name       string
	namespaced bool
}{
	"Namespace": {"namespaces", false}, "Pod": {"pods", true}, "DeviceClass": {"deviceclasses", false},
	"ResourceClaim": {"resourceclaims", true}, "ResourceClaimTemplate": {"resourceclaimtemplates", true},
	"DeviceTaintRule": {"devicetaintrules", false}, "Deployment": {"deployments", true}, "Job": {"jobs", true},
	"ResourceSlice": {"resourceslices", false}, "Node": {"nodes", false},
}

func (f *Fixture) create(object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	resource, known := resources[kind.Kind]
	if !known {
		f.T.Fatalf("objects.go does not know the resource of kind %q", kind.Kind)
	}
	client := f.Dynamic.Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: resource.name})
	var err error
	if resource.namespaced {
		_, err = client.Namespace(f.Namespace).Create(context.Background(), object, metav1.CreateOptions{})
	} else {
		_, err = client.Create(context.Background(), object, metav1.CreateOptions{})
	}
	// A namespace of an earlier run of the test may still be going.
	if apierrors.IsAlreadyExists(err) && kind.Kind == "DeviceClass" {
		return nil
	}
	return err
}

// Pod reads a pod.
func (f *Fixture) Pod(name string) (*corev1.Pod, error) {
	return f.Client.CoreV1().Pods(f.Namespace).Get(context.Background(), name, metav1.GetOptions{})
}

// Claim reads a claim.
func (f *Fixture) Claim(name string) (*resourceapi.ResourceClaim, error) {
	return f.Client.ResourceV1().ResourceClaims(f.Namespace).Get(context.Background(), name, metav1.GetOptions{})
}

// GeneratedClaim reads the claim that was made for a pod's claim of that name from a template.
func (f *Fixture) GeneratedClaim(podName, claimName string) (*resourceapi.ResourceClaim, error) {
	pod, err := f.Pod(podName)
	if err != nil {
		return nil, err
	}
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.Name == claimName && status.ResourceClaimName != nil {
			return f.Claim(*status.ResourceClaimName)
		}
	}
	return nil, fmt.Errorf("pod %s has no claim made for %q yet", podName, claimName)
}

// AwaitRunning waits until all containers of a pod run.
func (f *Fixture) AwaitRunning(name string) {
	f.T.Helper()
	f.AwaitRunningWithin(name, 120*time.Second)
}

// AwaitRunningWithin is for what takes longer, such as a prepare that fails: its next try comes 60 to 90 s later.
func (f *Fixture) AwaitRunningWithin(name string, limit time.Duration) {
	f.T.Helper()
	Await(f.T, limit, "pod "+name+" is running", func() error {
		pod, err := f.Pod(name)
		if err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("phase %s, conditions %v", pod.Status.Phase, pod.Status.Conditions)
		}
		for _, container := range pod.Status.ContainerStatuses {
			if container.State.Running == nil {
				return fmt.Errorf("container %s: %+v", container.Name, container.State)
			}
		}
		return nil
	})
}

// AwaitUnschedulable waits until the scheduler has said that no node fits a pod, and returns its words.
func (f *Fixture) AwaitUnschedulable(name string) string {
	f.T.Helper()
	message := ""
	Await(f.T, 60*time.Second, "pod "+name+" is unschedulable", func() error {
		pod, err := f.Pod(name)
		if err != nil {
			return err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
				message = condition.Message
				return nil
			}
		}
		return fmt.Errorf("phase %s, conditions %v", pod.Status.Phase, pod.Status.Conditions)
	})
	return message
}

// DeletePod asks for the end of a pod; `AwaitGone` waits for it.
func (f *Fixture) DeletePod(name string) {
	f.T.Helper()
	if err := f.Client.CoreV1().Pods(f.Namespace).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		f.T.Fatalf("delete pod %s: %v", name, err)
	}
}

// AwaitGone waits until a pod is gone from the API.
func (f *Fixture) AwaitGone(name string) {
	f.T.Helper()
	Await(f.T, 120*time.Second, "pod "+name+" is gone", func() error {
		pod, err := f.Pod(name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("phase %s", pod.Status.Phase)
		}
		return err
	})
}

// Slices are the driver's stored slices.
func (f *Fixture) Slices() ([]resourceapi.ResourceSlice, error) {
	list, err := f.Client.ResourceV1().ResourceSlices().List(context.Background(),
		metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + f.Driver})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// AwaitDevices waits until the stored slices are a complete pool of so many devices, and returns them by name.
func (f *Fixture) AwaitDevices(count int) map[string]resourceapi.Device {
	f.T.Helper()
	var devices map[string]resourceapi.Device
	Await(f.T, 60*time.Second, fmt.Sprintf("%d devices are published", count), func() error {
		slices, err := f.Slices()
		if err != nil {
			return err
		}
		devices, err = completePool(slices)
		if err == nil && len(devices) != count {
			err = fmt.Errorf("%d devices in %d slices", len(devices), len(slices))
		}
		return err
	})
	return devices
}

// completePool checks that slices are one pool as the scheduler wants it: one generation, the count that each names.
func completePool(slices []resourceapi.ResourceSlice) (map[string]resourceapi.Device, error) {
	devices := map[string]resourceapi.Device{}
	for _, slice := range slices {
		pool := slice.Spec.Pool
		if pool.ResourceSliceCount != int64(len(slices)) {
			return nil, fmt.Errorf("slice %s says %d slices, there are %d", slice.Name, pool.ResourceSliceCount, len(slices))
		}
		if first := slices[0].Spec.Pool; pool.Generation != first.Generation || pool.Name != first.Name {
			return nil, fmt.Errorf("slice %s is of pool %s generation %d, %s of %s %d", slice.Name, pool.Name, pool.Generation,
				slices[0].Name, first.Name, first.Generation)
		}
		for _, device := range slice.Spec.Devices {
			if _, twice := devices[device.Name]; twice {
				return nil, fmt.Errorf("device %s is in two slices", device.Name)
			}
			devices[device.Name] = device
		}
	}
	return devices, nil
}

func (d *Driver) removeSlices() {
	_ = d.c.Client.ResourceV1().ResourceSlices().DeleteCollection(context.Background(), metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + d.Name})
}

// View is what a container has seen of itself: the output of the workload image's program `show`.
type View struct {
	Env     map[string]string
	Devices map[string]string // path -> "character special file 1:3"
	Mounts  map[string]string // path -> options
}

// See waits until a container has shown what it sees.
func (f *Fixture) See(pod, container string) View {
	f.T.Helper()
	var view View
	Await(f.T, 60*time.Second, "container "+pod+"/"+container+" shows what it sees", func() error {
		log, err := f.Client.CoreV1().Pods(f.Namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container}).DoRaw(context.Background())
		if err != nil {
			return err
		}
		view = View{map[string]string{}, map[string]string{}, map[string]string{}}
		complete := false
		for scanner := bufio.NewScanner(bytes.NewReader(log)); scanner.Scan(); {
			kind, rest, _ := strings.Cut(scanner.Text(), " ")
			switch kind {
			case "env":
				name, value, _ := strings.Cut(rest, "=")
				view.Env[name] = value
			case "device":
				path, description, _ := strings.Cut(rest, " ")
				view.Devices[path] = description
			case "mount":
				path, options, _ := strings.Cut(rest, " ")
				view.Mounts[path] = options
			case "end":
				complete = true
			}
		}
		if !complete {
			return fmt.Errorf("its log is %q", log)
		}
		return nil
	})
	return view
}
