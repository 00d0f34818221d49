// Package suite tests dra-driver on a real cluster: see ../run.sh. The tests run outside of the cluster's namespaces, so
// that they outlive a reboot of it, and reach in: over the network namespace to the API server, through /proc to files,
// by nsenter for programs.
package suite

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// NodeName is the name of the one node.
const NodeName = "node1"

// Cluster is one that `run.sh up` has started.
type Cluster struct {
	name      string
	runScript string
	state     string // the folder that run.sh keeps of it
	Client    kubernetes.Interface
	Dynamic   dynamic.Interface
	Version   *version.Info
}

// Connect reaches the cluster of that name; runScript is test/cluster/run.sh.
func Connect(name, runScript string) (*Cluster, error) {
	clusters := cmp.Or(os.Getenv("DRA_CLUSTERS"), filepath.Join(os.TempDir(), "dra-clusters"))
	c := &Cluster{name: name, runScript: runScript, state: filepath.Join(clusters, name)}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("cluster %q is not up: %w", name, err)
	}
	// Tests poll; the client must not be what they wait for.
	config.QPS, config.Burst = 1000, 1000
	config.Timeout = 20 * time.Second
	config.Dial = c.dial
	if c.Client, c.Dynamic, err = clients(config); err != nil {
		return nil, err
	}
	c.Version, err = c.Client.Discovery().ServerVersion()
	return c, err
}

func clients(config *rest.Config) (kubernetes.Interface, dynamic.Interface, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	untyped, err := dynamic.NewForConfig(config)
	return client, untyped, err
}

// Kubeconfig is the path of the administrator's credentials.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.state, "certs", "admin.kubeconfig") }

// firstProcess is the pid of the process that all of the cluster depends on; a reboot gives another one.
func (c *Cluster) firstProcess() (string, error) {
	text, err := os.ReadFile(filepath.Join(c.state, "first-process"))
	if err != nil {
		return "", err
	}
	return strings.Fields(string(text))[0], nil
}

// dial connects from inside of the cluster's network namespace. A socket stays in the namespace it was made in.
func (c *Cluster) dial(ctx context.Context, network, address string) (net.Conn, error) {
	pid, err := c.firstProcess()
	if err != nil {
		return nil, err
	}
	namespace, err := os.Open("/proc/" + pid + "/ns/net")
	if err != nil {
		return nil, err
	}
	defer namespace.Close()
	type result struct {
		connection net.Conn
		err        error
	}
	results := make(chan result)
	go func() {
		// Never unlocked: the thread, which is now of another namespace, ends with the goroutine.
		runtime.LockOSThread()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			results <- result{nil, fmt.Errorf("enter the network namespace of process %s: %w", pid, err)}
			return
		}
		connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
		results <- result{connection, err}
	}()
	r := <-results
	return r.connection, r.err
}

// Path is where this process finds what the node has at `path`.
func (c *Cluster) Path(path string) string {
	pid, err := c.firstProcess()
	if err != nil {
		panic(err)
	}
	// An absolute link of the node would be followed here from this process's own root.
	if rest, found := strings.CutPrefix(path, "/var/run/"); found {
		path = "/run/" + rest
	}
	return filepath.Join("/proc", pid, "root", path)
}

func (c *Cluster) script(arguments ...string) *exec.Cmd {
	command := append([]string{arguments[0], "--name", c.name}, arguments[1:]...)
	return exec.Command(c.runScript, command...)
}

// Exec runs a command on the node and returns its standard output.
func (c *Cluster) Exec(arguments ...string) (string, error) {
	command := c.script(append([]string{"exec"}, arguments...)...)
	var stderr strings.Builder
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(output), err
}

// Component starts, stops, kills or restarts one of the node's programs: see run.sh.
func (c *Cluster) Component(t *testing.T, verb, component string) {
	t.Helper()
	if output, err := c.script("component", verb, component).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", verb, component, err, output)
	}
}

// Reboot ends all that runs on the node at once and starts it again: what lay in memory is gone, the boot id is another.
func (c *Cluster) Reboot(t *testing.T) {
	t.Helper()
	if output, err := c.script("reboot").CombinedOutput(); err != nil {
		t.Fatalf("reboot: %v\n%s", err, output)
	}
}

// AtLeast tells whether the cluster is of Kubernetes 1.<minor> or newer.
func (c *Cluster) AtLeast(minor int) bool {
	var have int
	if _, err := fmt.Sscanf(c.Version.Minor, "%d", &have); err != nil {
		panic(fmt.Sprintf("minor version %q of the API server: %v", c.Version.Minor, err))
	}
	return have >= minor
}
