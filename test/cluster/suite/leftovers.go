package suite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EndPods deletes all pods of the namespace, waits until they are gone, and checks that the node keeps nothing of them.
func (f *Fixture) EndPods() {
	f.T.Helper()
	pods, err := f.Client.CoreV1().Pods(f.Namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		f.T.Fatal(err)
	}
	for _, pod := range pods.Items {
		err := f.Client.CoreV1().Pods(f.Namespace).Delete(context.Background(), pod.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			f.T.Fatalf("delete pod %s: %v", pod.Name, err)
		}
	}
	for _, pod := range pods.Items {
		f.AwaitGone(pod.Name)
	}
	f.AwaitNothingLeft()
}

// AwaitNothingLeft waits until the node keeps nothing of the driver's claims: no record, no hold, no CDI file.
func (f *Fixture) AwaitNothingLeft() {
	f.T.Helper()
	Await(f.T, 60*time.Second, "nothing is left of the claims of "+f.Driver, func() error {
		left, err := f.Leftovers()
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("there is %v", left)
		}
		return err
	})
}

// Leftovers are the files that the node keeps for claims of the driver.
func (f *Fixture) Leftovers() ([]string, error) {
	left, err := filepath.Glob(f.Path("/var/run/cdi") + "/*" + f.Driver + "-claim_*")
	if err != nil {
		return nil, err
	}
	for _, folder := range []string{"claims", "held", "files", "shared-files"} {
		root := f.Path(filepath.Join("/var/lib/kubelet/plugins", f.Driver, folder))
		err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && !entry.IsDir() {
				left = append(left, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return left, nil
}
