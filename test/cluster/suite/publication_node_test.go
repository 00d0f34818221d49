package suite

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Node that is made anew has another UID. The slices of the old one go with it; those of the new one are all there.
func TestSlicesFollowARecreatedNode(t *testing.T) {
	f := NewFixture(t)
	d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 65}})
	f.AwaitDevices(65)
	nodes := f.Client.CoreV1().Nodes()
	old, err := nodes.Get(context.Background(), NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.checkOwner(old.UID)
	f.Component(t, "stop", "kubelet")
	if err := nodes.Delete(context.Background(), NodeName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.Component(t, "start", "kubelet")
	var uid types.UID
	Await(t, 60*time.Second, "the node is back and ready", func() error {
		node, err := nodes.Get(context.Background(), NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		uid = node.UID
		for _, condition := range node.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" && uid != old.UID {
				return nil
			}
		}
		return fmt.Errorf("node %s: %+v", uid, node.Status.Conditions)
	})
	// The garbage collector takes the old node's slices when it gets to it.
	Await(t, 60*time.Second, "the slices are the new node's", func() error { return f.owner(uid) })
	f.AwaitDevices(65)
	d.AwaitReady()
	Never(t, 5*time.Second, "the slices are another's", func() error { return f.owner(uid) })
	f.Apply(ClaimYAML("one", "") + PodYAML("pod", "one"))
	f.AwaitRunning("pod")
	f.EndPods()
}

func (f *Fixture) checkOwner(uid types.UID) {
	f.T.Helper()
	if err := f.owner(uid); err != nil {
		f.T.Error(err)
	}
}

// owner checks that the slices belong to the Node of that UID, and only to it.
func (f *Fixture) owner(uid types.UID) error {
	slices, err := f.Slices()
	if err != nil {
		return err
	}
	if len(slices) == 0 {
		return fmt.Errorf("there are no slices")
	}
	for _, slice := range slices {
		if len(slice.OwnerReferences) != 1 || slice.OwnerReferences[0].UID != uid || slice.OwnerReferences[0].Kind != "Node" {
			return fmt.Errorf("slice %s is owned by %+v, want Node %s", slice.Name, slice.OwnerReferences, uid)
		}
	}
	return nil
}
