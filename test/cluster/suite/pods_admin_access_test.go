package suite

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Whoever looks after devices sees them while others use them, and takes none away.
func TestAdminAccessGivesHeldDevices(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	if _, err := f.Client.CoreV1().Namespaces().Patch(context.Background(), f.Namespace, types.MergePatchType,
		[]byte(`{"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	f.StartDriver(DriverOptions{Backend: Object{"numDevices": 2, "deviceNodes": true}})
	f.AwaitDevices(2)
	f.Apply(ClaimYAML("user", "") + PodYAML("user", "user"))
	user, view := f.RunAndCheck("user", "user", 1)
	if got := view.Env["DRA_ADMIN_ACCESS"]; got != "false" {
		t.Errorf("the user's container has DRA_ADMIN_ACCESS=%s", got)
	}
	f.Apply(ClaimYAML("admin", "allocationMode: All, adminAccess: true") + PodYAML("admin", "admin"))
	admin, view := f.RunAndCheck("admin", "admin", 2)
	if got := view.Env["DRA_ADMIN_ACCESS"]; got != "true" {
		t.Errorf("the administrator's container has DRA_ADMIN_ACCESS=%s", got)
	}
	for _, result := range admin.Status.Allocation.Devices.Results {
		if result.AdminAccess == nil || !*result.AdminAccess {
			t.Errorf("device %s was given without admin access", result.Device)
		}
	}
	// The other device is still free, and the administrator's end leaves the user's alone.
	f.Apply(ClaimYAML("late", "") + PodYAML("late", "late"))
	late, _ := f.RunAndCheck("late", "late", 1)
	if Devices(late)[0] == Devices(user)[0] {
		t.Errorf("device %s is given to two claims", Devices(user)[0])
	}
	f.DeletePod("admin")
	f.AwaitGone("admin")
	left, err := f.Leftovers()
	if err != nil {
		t.Fatal(err)
	}
	for _, claim := range []types.UID{user.UID, late.UID} {
		if !strings.Contains(strings.Join(left, " "), "-claim_"+string(claim)) {
			t.Errorf("after the administrator's end the CDI file of claim %s is gone; there is %v", claim, left)
		}
	}
	f.EndPods()
}

func TestAdminAccessNeedsALabelledNamespace(t *testing.T) {
	t.Parallel()
	f := NewFixture(t)
	err := f.Refused(ClaimYAML("admin", "adminAccess: true"))
	if !strings.Contains(err.Error(), "resource.kubernetes.io/admin-access") {
		t.Errorf("refused for another reason: %v", err)
	}
}
