package differential

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

const claimUID = "5f3e2d1c-0000-4000-8000-0123456789ab"

// Files that this SDK refuses on purpose and the newest CDI library takes: expressions for our error.
var stricterCdi = []struct{ message, reason string }{
	{`invalid permissions "none"`, "newer than the library of the container runtimes that are in use (1.1.0)"},
	{`the spec version must be at least v0\.[45]\.0$`,
		"specs-go is built with the range variables of Go 1.21: it looks for hostPath and mount types at the last device only"},
}

// A directory for one case, with a FIFO outside of what CDI scans.
func newCdiDirectory(t *testing.T) (directory, fifo string) {
	t.Helper()
	parent := t.TempDir()
	directory, fifo = filepath.Join(parent, "cdi"), filepath.Join(parent, "fifo")
	if err := os.Mkdir(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(fifo, 0o640); err != nil {
		t.Fatal(err)
	}
	return directory, fifo
}

func newCache(t *testing.T, directory string) *cdi.Cache {
	t.Helper()
	cache, err := cdi.NewCache(cdi.WithSpecDirs(directory), cdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	return cache
}

// Container edits. `wild`: also what one of the sides must refuse.
func someEdits(c chooser, fifo string, wild bool) object {
	edits := object{}
	odd := func(values ...any) any { return pick(c, values...) }
	if c.oneIn(2) {
		edits["env"] = repeat(c.between(1, 3), func(i int) any {
			if wild && c.oneIn(10) {
				return odd("", "A", "=x", "A=", "A=b=c")
			}
			return pick(c, "PATH=/opt/bin", "A=", numbered("B", i)+"=x=y", "A=2")
		})
	}
	if c.oneIn(2) {
		edits["deviceNodes"] = repeat(c.between(1, 2), func(i int) any {
			node := object{"path": pick(c, "/dev/null", "/dev/zero", fifo, numbered("/dev/in-container", i))}
			if c.oneIn(2) {
				node["hostPath"] = pick(c, "/dev/full", "/dev/null", fifo, "/dev/not-there")
			}
			if c.oneIn(2) {
				node["type"] = pick(c, "c", "b", "p", "u")
				if c.oneIn(2) {
					node["major"], node["minor"] = c.between(0, 300), c.between(0, 300)
				}
			}
			if c.oneIn(3) {
				node["permissions"] = pick(c, "r", "rw", "rwm", "mr", "")
			}
			if c.oneIn(3) {
				node["fileMode"] = pick(c, 0o600, 0, 0o666)
			}
			if c.oneIn(3) {
				node["uid"] = pick(c, 0, 7)
			}
			if c.oneIn(3) {
				node["gid"] = pick(c, 0, 7)
			}
			if wild && c.oneIn(10) {
				node[pick(c, "type", "permissions", "path", "hostPath")] = odd("", "x", "rwx", "none", "rr")
			}
			return node
		})
	}
	if c.oneIn(6) {
		edits["netDevices"] = repeat(c.between(1, 2), func(i int) any {
			device := object{"hostInterfaceName": numbered("eth", i), "name": numbered("net", i)}
			if wild && c.oneIn(5) {
				device[pick(c, "hostInterfaceName", "name")] = odd("", "eth0", "net0")
			}
			return device
		})
	}
	if c.oneIn(3) {
		edits["hooks"] = repeat(c.between(1, 3), func(i int) any {
			hook := object{"hookName": pick(c, "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"),
				"path": "/usr/bin/hook"}
			if c.oneIn(2) {
				hook["args"] = list{"hook", numbered("--flag", i)}
			}
			if c.oneIn(3) {
				hook["env"] = list{"A=b"}
			}
			if c.oneIn(3) {
				hook["timeout"] = c.between(1, 30)
			}
			if wild && c.oneIn(6) {
				hook[pick(c, "hookName", "path")] = odd("", "Prestart", "relative")
			}
			if wild && c.oneIn(10) {
				hook["env"] = list{odd("A", "=b", "A=")}
			}
			return hook
		})
	}
	if c.oneIn(2) {
		edits["mounts"] = repeat(c.between(1, 3), func(i int) any {
			mount := object{"hostPath": numbered("/opt/lib", i),
				"containerPath": pick(c, "/usr/lib", "/a/b/c/d", "/a", "/a/b/", "/", "//x//y", "/a/./b") + pick(c, "", numbered("/m", i))}
			if c.oneIn(2) {
				mount["options"] = pick(c, list{"ro", "bind"}, list{"rbind", "rw"}, list{"bind", "idmap", "ro"}, list{"nosuid"}, list{})
			}
			if c.oneIn(4) {
				mount["type"] = pick(c, "bind", "tmpfs", "")
			}
			if wild && c.oneIn(8) {
				mount[pick(c, "hostPath", "containerPath")] = odd("", "relative", "/a/../b")
			}
			return mount
		})
	}
	if c.oneIn(6) {
		rdt := object{"closID": pick(c, "gold", "", "/")}
		if c.oneIn(2) {
			rdt["l3CacheSchema"] = "L3:0=f"
		}
		if c.oneIn(3) {
			rdt["memBwSchema"] = "MB:0=10"
		}
		if c.oneIn(4) {
			rdt["schemata"] = pick(c, list{}, list{"L3:0=f"})
		}
		if c.oneIn(4) {
			rdt["enableMonitoring"] = pick(c, true, false)
		}
		if wild && c.oneIn(5) {
			rdt["closID"] = odd(".", "..", "a/b", "a\nb", letters(4095), letters(4096))
		}
		edits["intelRdt"] = rdt
	}
	if c.oneIn(4) {
		edits["additionalGids"] = pick(c, list{0}, list{5, 5}, list{7, 0, 5})
	}
	return edits
}

// A container's config.json before CDI.
func someConfig(c chooser) *oci.Spec {
	config := &oci.Spec{Version: "1.2.0"}
	if c.oneIn(6) {
		return config
	}
	config.Process = &oci.Process{Cwd: "/", Env: []string{"PATH=/bin", "A=1"}}
	if c.oneIn(2) {
		config.Process.User = oci.User{UID: 1000, GID: 1001, AdditionalGids: []uint32{5}}
	}
	config.Mounts = []oci.Mount{{Destination: "/usr/lib", Source: "/x", Options: []string{"ro"}}, {Destination: "/a/b/c", Type: "tmpfs"}, {Destination: "/proc", Type: "proc"}}
	if c.oneIn(2) {
		config.Linux = &oci.Linux{Devices: []oci.LinuxDevice{{Path: "/dev/null", Type: "c", Major: 1, Minor: 3}}}
		if c.oneIn(2) {
			config.Linux.Namespaces = []oci.LinuxNamespace{{Type: oci.MountNamespace}, {Type: oci.UserNamespace}}
			if c.oneIn(2) {
				config.Linux.UIDMappings = []oci.LinuxIDMapping{{HostID: 100000, Size: 65536}}
			}
			if c.oneIn(2) {
				config.Linux.GIDMappings = []oci.LinuxIDMapping{{HostID: 100000, Size: 65536}}
			}
		}
		if c.oneIn(3) {
			config.Linux.Resources = &oci.LinuxResources{Devices: []oci.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}}
		}
	}
	if c.oneIn(4) {
		config.Hooks = &oci.Hooks{CreateRuntime: []oci.Hook{{Path: "/before"}}}
	}
	return config
}

func asObject(t *testing.T, value any) object {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var result object
	if err := json.Unmarshal(text, &result); err != nil {
		t.Fatal(err)
	}
	return result
}

// Compares what both sides make of a config with the devices `ids` injected. "" if they agree.
func compareInjection(t *testing.T, c chooser, cache *cdi.Cache, directory string, ids []string) string {
	t.Helper()
	config := someConfig(c)
	before := asObject(t, config)
	var answer struct {
		Refused string          `json:"refused"`
		Oci     json.RawMessage `json:"oci"`
	}
	ours.ask(t, object{"op": "cdi_merge", "directory": directory, "oci": before, "ids": ids}, &answer)
	_, err := cache.InjectDevices(config, ids...)
	switch {
	case err == nil && answer.Refused != "":
		return "injection refused by us alone: " + answer.Refused
	case err != nil && answer.Refused == "":
		return "injection refused by upstream alone: " + err.Error()
	case err != nil:
		return ""
	}
	// Read back as a low-level runtime reads it; Go's writer has members that say nothing.
	merged := &oci.Spec{}
	reader := json.NewDecoder(bytes.NewReader(answer.Oci))
	reader.DisallowUnknownFields()
	if err := reader.Decode(merged); err != nil {
		return "ours is no config.json: " + err.Error() + ": " + string(answer.Oci)
	}
	if theirs, our := asObject(t, config), asObject(t, merged); !reflect.DeepEqual(theirs, our) {
		return "another config.json\nbefore: " + pretty(before) + "\nupstream: " + pretty(theirs) + "\nours: " + pretty(our)
	}
	return ""
}

func someOf(c chooser, ids []string) []string {
	chosen := slices.Clone(ids)
	c.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	return chosen[:c.between(1, len(chosen))]
}

func filesOf(t *testing.T, directory string) string {
	t.Helper()
	var all strings.Builder
	names, _ := filepath.Glob(filepath.Join(directory, "*"))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(filepath.Base(name) + ": " + string(text))
	}
	return all.String()
}

// The files of claims: the cache takes each, finds the devices that the kubelet is told, and no older version would do.
func TestClaimFilesInTheUpstreamCache(t *testing.T) {
	directory, fifo := newCdiDirectory(t)
	written, reported := 0, 0
	for _, number := range caseNumbers(*cases / 10) {
		c := newChooser(*seed, number)
		devices := repeat(c.between(1, 3), func(i int) any {
			device := object{"device": pick(c, numbered("gpu-", i), "gpu", numbered("0", i)), "edits": nil}
			if c.oneIn(3) {
				device["shareId"] = "11111111-2222-4333-8444-55555555555" + numbered("", i)
			}
			if !c.oneIn(3) {
				device["edits"] = someEdits(c, fifo, false)
			}
			return device
		})
		request := object{"op": "cdi_write", "directory": directory, "driver": pick(c, "gpu.example.com", "a.b"), "claimUid": claimUID, "devices": devices}
		if c.oneIn(2) {
			request["claimEdits"] = someEdits(c, fifo, false)
		}
		var answer struct {
			Refused string     `json:"refused"`
			File    string     `json:"file"`
			IDs     [][]string `json:"ids"`
		}
		ours.ask(t, request, &answer)
		ids := slices.Concat(answer.IDs...)
		if len(ids) == 0 { // refused, or nothing to write
			continue
		}
		written++
		why := func() string {
			spec, err := cdi.ReadSpec(answer.File, 0)
			if err != nil {
				return "upstream does not read the file: " + err.Error()
			}
			if minimum, err := specs.MinimumRequiredVersion(spec.Spec); err != nil || minimum != spec.Version {
				return "the file says version " + spec.Version + ", upstream needs " + minimum
			}
			cache := newCache(t, directory)
			if faults := cache.GetErrors(); len(faults) != 0 {
				return "the cache complains: " + pretty(faults)
			}
			wanted := slices.Clone(ids)
			sort.Strings(wanted)
			if found := cache.ListDevices(); !slices.Equal(found, wanted) {
				return "the cache finds " + pretty(found) + ", the kubelet is told " + pretty(wanted)
			}
			return compareInjection(t, c, cache, directory, someOf(c, ids))
		}()
		if why != "" && reported < *show {
			reported++
			t.Errorf("case %d of seed %d: %s\n%s", number, *seed, why, filesOf(t, directory))
		}
		if err := os.Remove(answer.File); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d files written", written)
	if *only < 0 && *cases >= 1000 && written < *cases/40 {
		t.Errorf("the cases prove little: %d files written of %d", written, *cases/10)
	}
}

// The files of others: our CDI runtime takes what the cache takes, and makes the same of it.
func TestFilesOfOthersInOurCdiRuntime(t *testing.T) {
	directory, fifo := newCdiDirectory(t)
	taken, refused, reported := 0, 0, 0
	for _, number := range caseNumbers(*cases / 10) {
		c := newChooser(*seed, number)
		var files []string
		for i := range c.between(1, 2) {
			spec := object{"cdiVersion": pick(c, "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0", "1.1.0", "1.1.0"), "kind": "vendor.com/device",
				"devices": repeat(c.between(1, 3), func(i int) any {
					device := object{"name": pick(c, numbered("d", i), numbered("", i)), "containerEdits": someEdits(c, fifo, c.oneIn(3))}
					if c.oneIn(8) {
						device["annotations"] = object{"vendor.com/a": "b"}
					}
					return device
				})}
			if c.oneIn(2) {
				spec["containerEdits"] = someEdits(c, fifo, c.oneIn(3))
			}
			if c.oneIn(8) {
				spec["kind"] = pick(c, "vendor.com/de.vice", "vendor.com/", "/device", "1vendor.com/device", "vendor.com/1", "vendor.com/device-", "vendor", "a_b/c_d")
			}
			if c.oneIn(8) {
				spec["cdiVersion"] = pick(c, "", "0.2.0", "v1.0.0", "1.2.0", "0.1.0", "1.1", "0.9.0")
			}
			if c.oneIn(10) {
				spec[pick(c, "devices", "unknown", "kind")] = pick[any](c, list{}, nil, "", object{})
			}
			text, err := json.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(directory, numbered("file-", i)+".json")
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		cache := newCache(t, directory)
		upstream, faults := cache.ListDevices(), cache.GetErrors()
		var scan struct {
			Devices []string          `json:"devices"`
			Errors  map[string]string `json:"errors"`
		}
		ours.ask(t, object{"op": "cdi_scan", "directory": directory}, &scan)
		why, deliberate := "", false
		for _, file := range files {
			for _, row := range stricterCdi {
				deliberate = deliberate || regexp.MustCompile(row.message).MatchString(scan.Errors[file])
			}
			switch {
			case len(faults[file]) > 0 && scan.Errors[file] == "":
				why = "refused by upstream alone: " + faults[file][0].Error()
			case len(faults[file]) == 0 && scan.Errors[file] != "":
				why = "refused by us alone: " + scan.Errors[file]
			}
		}
		if deliberate {
			why = ""
		} else if why == "" && !slices.Equal(upstream, scan.Devices) {
			why = "upstream finds " + pretty(upstream) + ", we " + pretty(scan.Devices)
		}
		if len(upstream) == 0 {
			refused++
		} else {
			taken++
			if why == "" && !deliberate {
				why = compareInjection(t, c, cache, directory, someOf(c, upstream))
			}
		}
		if why != "" && reported < *show {
			reported++
			t.Errorf("case %d of seed %d: %s\n%s", number, *seed, why, filesOf(t, directory))
		}
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("upstream found devices in %d cases and none in %d", taken, refused)
	if *only < 0 && *cases >= 1000 && (taken < *cases/100 || refused < *cases/200) {
		t.Errorf("the cases prove little: devices in %d, none in %d of %d", taken, refused, *cases/10)
	}
}
