package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// afterRetry is how long a pod may take that failed a prepare once: the kubelet tries again 60 to 90 s later.
const afterRetry = 240 * time.Second

// TunedClaimYAML is a claim of one device whose card is set: its interval is Long in place of Default.
func TunedClaimYAML(name string) string {
	return `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: ` + name + `, namespace: $NAMESPACE}
spec:
  devices:
    requests: [{name: gpus, exactly: {deviceClassName: $DRIVER}}]
    config:
    - opaque:
        driver: $DRIVER
        parameters:
          apiVersion: gpu.resource.example.com/v1alpha1
          kind: GpuConfig
          sharing: {strategy: TimeSlicing, timeSlicingConfig: {interval: Long}}
---`
}

// FailedPrepares are the kubelet's complaints about prepares of the namespace's pods.
func (f *Fixture) FailedPrepares() []string {
	f.T.Helper()
	events, err := f.Client.CoreV1().Events(f.Namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		f.T.Fatal(err)
	}
	var failed []string
	for _, event := range events.Items {
		if event.Reason == "FailedPrepareDynamicResources" {
			failed = append(failed, event.InvolvedObject.Name+": "+event.Message)
		}
	}
	return failed
}

// ForceDelete removes a pod from the API at once; the kubelet ends its containers and unprepares its claims afterwards.
func (f *Fixture) ForceDelete(name string) {
	f.T.Helper()
	now := int64(0)
	err := f.Client.CoreV1().Pods(f.Namespace).Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil {
		f.T.Fatalf("force the deletion of pod %s: %v", name, err)
	}
}

// DeleteClaim asks for the end of a claim and waits for it: no pod may have it reserved.
func (f *Fixture) DeleteClaim(name string) {
	f.T.Helper()
	claims := f.Client.ResourceV1().ResourceClaims(f.Namespace)
	if err := claims.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		f.T.Fatalf("delete claim %s: %v", name, err)
	}
	Await(f.T, 60*time.Second, "claim "+name+" is gone", func() error {
		claim, err := f.Claim(name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("reserved for %v", claim.Status.ReservedFor)
		}
		return err
	})
}

// AwaitNodeReady waits until the node is Ready by a heartbeat after `since`: an older one says nothing.
func (f *Fixture) AwaitNodeReady(since time.Time) {
	f.T.Helper()
	Await(f.T, 90*time.Second, "the node is ready", func() error {
		node, err := f.Client.CoreV1().Nodes().Get(context.Background(), NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type != corev1.NodeReady {
				continue
			}
			if condition.Status != corev1.ConditionTrue || condition.LastHeartbeatTime.Time.Before(since) {
				return fmt.Errorf("%s at %v: %s", condition.Status, condition.LastHeartbeatTime, condition.Message)
			}
			return nil
		}
		return errors.New("no condition Ready")
	})
}

// cdiFiles are the driver's files in the CDI directory.
func (f *Fixture) cdiFiles() ([]string, error) {
	return filepath.Glob(f.Path("/var/run/cdi") + "/*" + f.Driver + "*")
}

// onlyRecordsOf is an error unless the driver has a record of each of these claims and of no other.
func (f *Fixture) onlyRecordsOf(claims ...string) error {
	want := map[string]string{}
	for _, name := range claims {
		claim, err := f.Claim(name)
		if err != nil {
			return err
		}
		want[string(claim.UID)+".json"] = name
	}
	entries, err := os.ReadDir(f.Path("/var/lib/kubelet/plugins/" + f.Driver + "/claims"))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		if _, wanted := want[entry.Name()]; !wanted {
			return fmt.Errorf("record %s is none of %v", entry.Name(), want)
		}
		delete(want, entry.Name())
	}
	if len(want) > 0 {
		return fmt.Errorf("no records of %v", want)
	}
	return nil
}
