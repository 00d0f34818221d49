package suite

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Container is the status of a pod's only container.
func (f *Fixture) Container(name string) (corev1.ContainerStatus, error) {
	pod, err := f.Pod(name)
	if err != nil {
		return corev1.ContainerStatus{}, err
	}
	if len(pod.Status.ContainerStatuses) != 1 {
		return corev1.ContainerStatus{}, fmt.Errorf("pod %s has %d containers", name, len(pod.Status.ContainerStatuses))
	}
	return pod.Status.ContainerStatuses[0], nil
}

// ContainerID names the container that runs now.
func (f *Fixture) ContainerID(name string) string {
	f.T.Helper()
	container, err := f.Container(name)
	if err != nil {
		f.T.Fatal(err)
	}
	_, id, _ := strings.Cut(container.ContainerID, "://")
	return id
}

// SameContainer is an error unless the container that runs is the one of that ID, never started again.
func (f *Fixture) SameContainer(name, id string) error {
	container, err := f.Container(name)
	if err != nil {
		return err
	}
	if container.State.Running == nil || container.RestartCount != 0 || !strings.HasSuffix(container.ContainerID, id) {
		return fmt.Errorf("container %s of pod %s, started again %d times, state %+v; want %s running",
			container.ContainerID, name, container.RestartCount, container.State, id)
	}
	return nil
}

// AwaitRestarted waits until another container than that of the ID runs in a pod.
func (f *Fixture) AwaitRestarted(name, id string, limit time.Duration) {
	f.T.Helper()
	Await(f.T, limit, "the container of pod "+name+" runs again", func() error {
		container, err := f.Container(name)
		if err == nil && (container.State.Running == nil || strings.HasSuffix(container.ContainerID, id)) {
			err = fmt.Errorf("container %s, state %+v", container.ContainerID, container.State)
		}
		return err
	})
}

// KillContainer ends a container as a crash of its program does.
func (f *Fixture) KillContainer(id string) {
	f.T.Helper()
	if _, err := f.Exec("ctr", "task", "kill", "--signal", "SIGKILL", id); err != nil {
		f.T.Fatal(err)
	}
}
