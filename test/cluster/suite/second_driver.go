package suite

import (
	"context"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SecondDriver is the name of another driver of the test, with a class of that name.
func (f *Fixture) SecondDriver() string {
	f.T.Helper()
	name := "second-" + f.Driver
	f.Apply(strings.ReplaceAll(`
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: SECOND}
spec: {selectors: [{cel: {expression: device.driver == "SECOND"}}]}
`, "SECOND", name))
	f.T.Cleanup(func() {
		_ = f.Client.ResourceV1().DeviceClasses().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	return name
}

// Of is the same fixture as seen by the tests' helpers for another driver of it.
func (f *Fixture) Of(driver string) *Fixture {
	other := *f
	other.Driver = driver
	return &other
}

// StateFolder is a folder for the simulated hardware of one more backend.
func StateFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}
