package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Object is any JSON object.
type Object = map[string]any

// Driver is a dra-driver process on the node, with the fake backend.
type Driver struct {
	Name   string
	t      *testing.T
	c      *Cluster
	folder string // configuration, the backend's state, log; on the node's disk
	podUID string
	config Object
	enter  *exec.Cmd // nsenter, whose one child is the driver
	ended  chan struct{}
}

// DriverOptions of a process. What is not set has its default.
type DriverOptions struct {
	Backend Object // configuration of the fake backend
	Driver  Object // members of the driver's entry in the configuration
	PodUID  string
}

// StartDriver starts a driver and waits until it is ready. It ends with the test.
func StartDriver(t *testing.T, c *Cluster, name string, options DriverOptions) *Driver {
	t.Helper()
	d := NewDriver(t, c, name, options)
	d.Start()
	d.AwaitReady()
	return d
}

// NewDriver prepares a driver without starting it.
func NewDriver(t *testing.T, c *Cluster, name string, options DriverOptions) *Driver {
	t.Helper()
	d := &Driver{Name: name, t: t, c: c, folder: t.TempDir(), podUID: options.PodUID}
	state := filepath.Join(d.folder, "state")
	if err := os.Mkdir(state, 0o755); err != nil {
		t.Fatal(err)
	}
	backend := Object{"nodeName": NodeName, "stateDirectory": state}
	for key, value := range options.Backend {
		backend[key] = value
	}
	entry := Object{"name": name, "backend": *backendPath, "config": backend}
	for key, value := range options.Driver {
		entry[key] = value
	}
	d.config = Object{"nodeName": NodeName, "podUID": d.podUID, "kubeconfig": c.Kubeconfig(), "httpAddress": "127.0.0.1:0",
		"shutdownGrace": "5s", "drivers": []Object{entry}}
	d.WriteConfig()
	t.Cleanup(func() {
		d.Kill()
		if t.Failed() {
			d.showLog()
		}
		d.forget()
	})
	return d
}

// forget removes what a driver that was killed leaves on the node: a kubelet that starts asks at dead sockets too, each
// time after a longer while, and a later run of the same test would wait for that.
func (d *Driver) forget() {
	d.removeSlices()
	data, registry := d.c.Path("/var/lib/kubelet/plugins/"+d.Name), d.c.Path("/var/lib/kubelet/plugins_registry")
	sockets, _ := filepath.Glob(filepath.Join(registry, d.Name+"-*"))
	markers, _ := filepath.Glob(filepath.Join(data, "socket-*")) // of sockets whose name does not tell the driver's
	for _, marker := range markers {
		sockets = append(sockets, filepath.Join(registry, strings.TrimPrefix(filepath.Base(marker), "socket-")))
	}
	for _, socket := range sockets {
		_ = os.Remove(socket)
	}
	_ = os.RemoveAll(data)
}

// Instance is a second process of the same driver, as in a rolling update: same folder, another pod UID.
func (d *Driver) Instance(podUID string) *Driver {
	second := *d
	second.podUID = podUID
	second.config = Object{}
	for key, value := range d.config {
		second.config[key] = value
	}
	second.config["podUID"] = podUID
	second.enter = nil
	second.WriteConfig()
	d.t.Cleanup(func() {
		second.Kill()
		if d.t.Failed() {
			second.showLog()
		}
	})
	return &second
}

func (d *Driver) file(kind string) string {
	return filepath.Join(d.folder, kind+d.podUID)
}

// WriteConfig writes the configuration for the next start.
func (d *Driver) WriteConfig() {
	writeJSON(d.t, d.file("config.json"), d.config)
}

// Config is the driver's whole configuration: change it, then WriteConfig.
func (d *Driver) Config() Object { return d.config }

// StatePath is a file of the fake backend's state folder.
func (d *Driver) StatePath(name string) string { return filepath.Join(d.folder, "state", name) }

// Control writes the fake backend's control file: what goes wrong.
func (d *Driver) Control(control Object) { writeJSON(d.t, d.StatePath("control.json"), control) }

func writeJSON(t *testing.T, path string, value any) {
	t.Helper()
	text, err := json.MarshalIndent(value, "", " ")
	if err == nil {
		err = os.WriteFile(path+".new", text, 0o644)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Start starts the process.
func (d *Driver) Start() {
	d.t.Helper()
	log, err := os.OpenFile(d.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close()
	pid, err := d.c.firstProcess()
	if err != nil {
		d.t.Fatal(err)
	}
	d.enter = exec.Command("nsenter", "--target", pid, "--mount", "--net", "--pid", "--", *driverPath, "--config",
		d.file("config.json"))
	d.enter.Stdout, d.enter.Stderr = log, log
	if err := d.enter.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.ended = make(chan struct{})
	go func(process *exec.Cmd, ended chan struct{}) {
		_ = process.Wait()
		close(ended)
	}(d.enter, d.ended)
}

// signal reaches the driver itself, not nsenter.
func (d *Driver) signal(signal string) {
	if d.enter == nil {
		return
	}
	_ = exec.Command("pkill", "-"+signal, "--parent", fmt.Sprint(d.enter.Process.Pid)).Run()
}

// Kill ends the process without a chance to clean up.
func (d *Driver) Kill() { d.end("KILL") }

// Stop asks the process to end, as the kubelet does with a pod.
func (d *Driver) Stop() { d.end("TERM") }

func (d *Driver) end(signal string) {
	if d.enter == nil {
		return
	}
	// The child may not be there yet.
	for began := time.Now(); ; {
		d.signal(signal)
		select {
		case <-d.ended:
			d.enter = nil
			return
		case <-time.After(200 * time.Millisecond):
		}
		if time.Since(began) > 60*time.Second {
			d.t.Errorf("driver %s is still there 60 s after SIG%s", d.Name, signal)
			return
		}
	}
}

// AwaitEnd waits until the process has ended by itself.
func (d *Driver) AwaitEnd(limit time.Duration) {
	d.t.Helper()
	select {
	case <-d.ended:
		d.enter = nil
	case <-time.After(limit):
		d.t.Fatalf("driver %s did not end within %v", d.Name, limit)
	}
}

// Status is the document of the status socket.
func (d *Driver) Status() (Object, error) {
	name := "status.sock"
	if d.podUID != "" {
		name = "status-" + d.podUID + ".sock"
	}
	// The path through /proc may be longer than a socket's address: it is reached by its folder.
	folder, err := os.Open(d.c.Path("/var/lib/kubelet/plugins/" + d.Name))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	socket := fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), name)
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}
	answer, err := client.Get("http://localhost/status")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var status Object
	return status, json.NewDecoder(answer.Body).Decode(&status)
}

// DriverStatus is this driver's part of the status document.
func (d *Driver) DriverStatus() (Object, error) {
	status, err := d.Status()
	if err != nil {
		return nil, err
	}
	return status["drivers"].([]any)[0].(Object), nil
}

// AwaitReady waits until every condition of the driver holds.
func (d *Driver) AwaitReady() {
	d.t.Helper()
	Await(d.t, 60*time.Second, "driver "+d.Name+" is ready", func() error {
		status, err := d.Status()
		if err != nil {
			return err
		}
		if status["ready"] != true {
			return fmt.Errorf("conditions %v", status["conditions"])
		}
		return nil
	})
}

// Log is what the driver has written so far.
func (d *Driver) Log() string {
	text, err := os.ReadFile(d.file("log"))
	if err != nil {
		return ""
	}
	return string(text)
}

func (d *Driver) showLog() {
	lines := strings.Split(d.Log(), "\n")
	if len(lines) > 60 {
		lines = lines[len(lines)-60:]
	}
	d.t.Logf("last lines of driver %s%s:\n%s", d.Name, d.podUID, strings.Join(lines, "\n"))
}

// HookCalls are the calls of a hook that the fake backend has logged.
func (d *Driver) HookCalls(hook string) []Object {
	var calls []Object
	for _, event := range d.HookEvents() {
		if event["event"] == "begin" && event["hook"] == hook {
			calls = append(calls, event)
		}
	}
	return calls
}
