package differential

import (
	"fmt"
	"strings"
)

// A place in a slice: how to read it, write it and take it away.
type place struct {
	path   string
	name   string // of the member; for an item of a list that of the list
	value  any
	set    func(any)
	remove func()
}

// Every value in the slice, in an order that does not change.
func places(root object) []place {
	var found []place
	var walk func(parent any, path, name string, setParent func(any))
	walk = func(parent any, path, name string, setParent func(any)) {
		switch parent := parent.(type) {
		case object:
			for _, key := range sortedKeys(parent) {
				set := func(value any) { parent[key] = value }
				at := path + "." + key
				found = append(found, place{at, key, parent[key], set, func() { delete(parent, key) }})
				walk(parent[key], at, key, set)
			}
		case list:
			for i := range parent {
				set := func(value any) { parent[i] = value }
				at := fmt.Sprintf("%s[%d]", path, i)
				found = append(found, place{at, name, parent[i], set, func() {
					setParent(append(append(list{}, parent[:i]...), parent[i+1:]...))
				}})
				walk(parent[i], at, name, set)
			}
		}
	}
	walk(root, "", "", nil)
	return found
}

var (
	names = []string{
		"", "a", "A", "aB", "a-b", "-a", "a-", "a.b", ".a", "a.", "a..b", "a.-b", "a_b", "_a", "a_", "1a", "1", "a b", " a", "a\n", "ä",
		"a/b", "a/b/c", "a//b", "/a", "a/", "/", "a.b/c_d", "a.b/c-d", "A.B/c", "a_b/c", "a/_", "*", "metadata.name", "node-1", "gpu-0", "set-0",
		"example.com/", "-example.com/a", "example.com/1a", "kubernetes.io/a", "resource.kubernetes.io/pcieRoot",
		letters(32), letters(33), letters(63), letters(64), letters(65), letters(253), letters(254), labels(63), labels(64), labels(253), labels(254),
		labels(63) + "/" + letters(32), labels(64) + "/" + letters(32), labels(63) + "/" + letters(33), labels(253) + "/" + letters(63),
		labels(254) + "/a", "a/" + letters(64), strings.Repeat("é", 32), strings.Repeat("é", 33),
	}
	versions = []string{
		"", "1", "1.2", "1.2.3", "1.2.3.4", "v1.2.3", "01.2.3", "1.02.3", "1.2.03", "1.2.3-", "1.2.3-01", "1.2.3-0", "1.2.3-01a", "1.2.3+", "1.2.3+01",
		"1.2.3-a..b", "1.2.3-a+b+c", "1.2.3-a_b", "1.2.3 ", "1.2.3\n", "1.2.3--", "1.2.3+-", "-1.2.3", "1.2.3-ä", "99999999999999999999.0.0",
		"1.0.0-" + letters(58), "1.0.0-" + letters(59), "1.0.0-99999999999999999999",
	}
	// No exponent of more digits: upstream computes the power of ten in full and is not back for minutes.
	quantities = []any{
		"", "0", "-0", "1", "-1", "+1", "1n", "0.1n", "-0.1n", "1u", "1m", "999m", "1500m", "1.5", ".5", "5.", ".", "1k", "1K", "1Ki", "1Mi", "1ki", "1Kii",
		"1e3", "1E3", "1e", "1e+", "1e-", "1e-3", "1e-9", "1e-10", "1e+3", "1e1.0", "1e100", "1e-100", "1E", "1Ei", "8Ei", "7Ei", "9E", "10E",
		"9223372036854775807", "9223372036854775808", "18446744073709551616", "-9223372036854775808", "-9223372036854775809", "1.0000000001", "0x1",
		"1 ", " 1", "1\n", "1,5", "1_000", "--1", "1.1.1", "١", "0.0001", letters(1), strings.Repeat("9", 40),
		"0." + strings.Repeat("0", 40) + "1", strings.Repeat("0", 130) + "1", 1, 0, -1, 1.5, 1e3, 1e30, 2, 9, 10, 11, "10", "11", "10Gi", "2", "3",
	}
	integers = []any{0, 1, -1, 128, 129, 1 << 62, uint64(1) << 63, 1.5, 1.0, 1e3, 1e30, "1", "", nil, true}
	// Values of other types than is due.
	strangers = []any{nil, "", "text", 0, 1, -1, 1.5, true, false, list{}, object{}, list{nil}, list{object{}}, list{"a"}, object{"a": nil}, object{"a": "1"}}
	// Where something else than a name stands.
	words = map[string][]string{
		"operator":           {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "in", ""},
		"effect":             {"None", "NoSchedule", "NoExecute", "PreferNoSchedule", "noSchedule", ""},
		"skipNodeOperations": {"*", "NodePrepareResources", "NodeUnprepareResources", "nodePrepareResources", ""},
		"timeAdded": {"", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05+01:00", "2026-01-02", "2026-13-02T03:04:05Z",
			"2026-02-30T03:04:05Z", "2026-01-02T24:00:00Z", "2026-01-02T03:04:60Z", "2026-01-02t03:04:05z", "2026-01-02 03:04:05Z", "0000-01-01T00:00:00Z",
			"10000-01-01T00:00:00Z", "2026-01-02T03:04:05", " 2026-01-02T03:04:05Z", "infinite-future", "2026-1-2T3:4:5Z"},
		"string":      {"", letters(64), letters(65), strings.Repeat("é", 32), strings.Repeat("é", 32) + "a", "a\x00b"},
		"version":     versions,
		"versions":    versions,
		"strings":     {"", letters(64), letters(65)},
		"capacityKey": {"", "memory0", "example.com/memory0", "none"},
	}
	quantityNames = map[string]bool{"value": true, "default": true, "validValues": true, "min": true, "max": true, "step": true,
		"capacityMultiplier": true, "deviceMultiplier": true, "perPod": true, "perContainer": true}
	integerNames = map[string]bool{"generation": true, "resourceSliceCount": true, "int": true, "ints": true}
	// How many entries a list or a map may have: tried at the limit and beyond.
	counts = map[string][]int{"devices": {64, 65, 128, 129}, "sharedCounters": {8, 9}, "counters": {32, 33}, "taints": {16, 17}, "consumesCounters": {2, 3},
		"compatibilityGroups": {2, 3}, "bindingConditions": {4, 5}, "bindingFailureConditions": {4, 5}, "validValues": {10, 11},
		"attributes": {29, 32, 33}, "capacity": {29, 32, 33}, "ints": {31, 48, 49}, "strings": {48, 49}, "versions": {32, 48, 49}, "bools": {48, 49},
		"nodeSelectorTerms": {0, 1, 2}, "values": {0, 1, 2}, "matchExpressions": {5}, "matchFields": {2}}
	// Members to set where they are not.
	members = []string{"nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection", "sharedCounters", "devices", "partitionTypeAttribute",
		"skipNodeOperations", "attributes", "capacity", "consumesCounters", "taints", "bindingConditions", "bindingFailureConditions", "bindsToNode",
		"allowMultipleAllocations", "nodeAllocatableResources", "string", "int", "bool", "version", "ints", "strings", "bools", "versions", "requestPolicy",
		"default", "validValues", "validRange", "min", "max", "step", "compatibilityGroups", "capacityKey", "capacityMultiplier", "deviceMultiplier",
		"mapping", "overhead", "perPod", "perContainer", "timeAdded", "value", "values", "matchFields", "matchExpressions", "unknownMember", "generateName"}
	resourceNames = []string{"cpu", "memory", "ephemeral-storage", "storage", "pods", "hugepages-", "hugepages-1Gi", "hugepages-x", "Hugepages-1Gi",
		"example.com/cpu", "requests.cpu", "", "nvidia.com/gpu"}
)

// Changes one thing in the slice, and says what.
func mutate(c chooser, slice object) string {
	all := places(slice)
	for range 1000 {
		at := all[c.IntN(len(all))]
		if strings.HasPrefix(at.path, ".apiVersion") || strings.HasPrefix(at.path, ".kind") || at.path == ".metadata" {
			continue // another object, no slice
		}
		switch c.IntN(10) {
		case 0:
			at.remove()
			return "remove " + at.path
		case 1:
			value := pick(c, strangers...)
			at.set(clone(value))
			return fmt.Sprintf("set %s to %#v", at.path, value)
		case 2:
			if grown, what := resize(c, at); grown {
				return what
			}
		case 3:
			if added, what := addMember(c, at, all); added {
				return what
			}
		case 4:
			if renamed, what := renameKey(c, at); renamed {
				return what
			}
		default:
			if changed, what := changeLeaf(c, at); changed {
				return what
			}
		}
	}
	return "nothing: an earlier change left nothing to change"
}

// Another value of the same kind, at an edge or beyond it.
func changeLeaf(c chooser, at place) (bool, string) {
	var value any
	_, isText := at.value.(string)
	_, isTruth := at.value.(bool)
	switch {
	case isTruth:
		value = !at.value.(bool)
	case words[at.name] != nil && isText:
		value = pick(c, words[at.name]...)
	case quantityNames[at.name] && !isObjectOrList(at.value):
		value = pick(c, quantities...)
	case integerNames[at.name] && !isObjectOrList(at.value):
		value = pick(c, integers...)
	case isText:
		value = pick(c, names...)
	default:
		return false, ""
	}
	at.set(value)
	return true, fmt.Sprintf("set %s to %#v", at.path, value)
}

func isObjectOrList(value any) bool {
	switch value.(type) {
	case object, list:
		return true
	}
	return false
}

// Another number of entries: copies of the last one, mostly with names of their own.
func resize(c chooser, at place) (bool, string) {
	limits := counts[at.name]
	switch value := at.value.(type) {
	case list:
		if len(value) == 0 || limits == nil {
			return false, ""
		}
		wanted := pick(c, limits...)
		if c.oneIn(4) {
			wanted = len(value) + 1
		}
		same := c.oneIn(4)
		grown := clone(value).(list)
		for i := len(grown); i < wanted; i++ {
			grown = append(grown, another(value[len(value)-1], i, same))
		}
		at.set(grown[:wanted])
		return true, fmt.Sprintf("make %s a list of %d", at.path, wanted)
	case object:
		if len(value) == 0 || limits == nil {
			return false, ""
		}
		wanted := pick(c, limits...)
		keys := sortedKeys(value)
		for i := len(value); i < wanted; i++ {
			value[numbered("more", i)] = clone(value[keys[0]])
		}
		return true, fmt.Sprintf("let %s have %d entries", at.path, len(value))
	}
	return false, ""
}

func another(item any, number int, same bool) any {
	if same {
		return clone(item)
	}
	switch item := item.(type) {
	case string:
		return numbered("more-", number)
	case object:
		copied := clone(item).(object)
		for _, name := range []string{"name", "counterSet"} {
			if _, named := copied[name]; named {
				copied[name] = numbered("more-", number)
			}
		}
		return copied
	default:
		return item
	}
}

// A member from anywhere in this or a made-up slice, put into an object that does not have it.
func addMember(c chooser, at place, all []place) (bool, string) {
	parent, isObject := at.value.(object)
	if !isObject {
		return false, ""
	}
	name := pick(c, members...)
	if _, there := parent[name]; there {
		return false, ""
	}
	var value any
	for range 20 {
		from := all[c.IntN(len(all))]
		if from.name == name && !strings.HasSuffix(from.path, "]") {
			value = clone(from.value)
			break
		}
	}
	if value == nil {
		value = sample(c, name)
	}
	parent[name] = value
	return true, fmt.Sprintf("add %s.%s", at.path, name)
}

func sample(c chooser, name string) any {
	switch name {
	case "allNodes", "perDeviceNodeSelection", "bindsToNode", "allowMultipleAllocations", "bool":
		return pick(c, true, false)
	case "nodeSelector":
		return validSelector(c, c.IntN(3))
	case "sharedCounters":
		return pick(c, list{}, list{validCounterSet(c, 0)})
	case "devices":
		return pick(c, list{}, list{validDevice(c, 0, false)})
	case "skipNodeOperations":
		return pick(c, list{}, list{"*"}, list{"NodePrepareResources"}, list{"*", "*"})
	case "attributes":
		return pick(c, object{}, validAttributes(c))
	case "capacity":
		return pick(c, object{}, validCapacity(c, object{}))
	case "consumesCounters":
		return pick(c, list{}, list{object{"counterSet": "set-0", "counters": validCounters(c, 1)}})
	case "taints":
		return pick(c, list{}, list{object{"key": "a", "effect": "None"}})
	case "bindingConditions", "bindingFailureConditions", "compatibilityGroups", "strings", "values":
		return pick(c, list{}, list{"a"}, list{"example.com/ready-0"}, list{"5"})
	case "nodeAllocatableResources":
		return pick(c, object{}, validNodeAllocatable(c, object{}))
	case "requestPolicy":
		return validPolicy(c)["requestPolicy"]
	case "validValues":
		return pick(c, list{}, list{"1"}, list{"1", "1.0"}, list{"2", "1"}, list{"1", "1500m"})
	case "validRange":
		return object{"min": pick(c, quantities...), "max": "5", "step": pick(c, quantities...)}
	case "ints":
		return pick(c, list{}, list{1})
	case "bools":
		return pick(c, list{}, list{true})
	case "versions":
		return pick(c, list{}, list{"1.0.0"})
	case "matchFields", "matchExpressions":
		return pick(c, list{}, list{object{"key": pick(c, "metadata.name", "a", "metadata.namespace"), "operator": pick(c, words["operator"]...),
			"values": pick(c, list{}, list{"a"}, list{"a", "b"}, list{"-"}, list{"A"}, list{letters(64)})}})
	case "mapping":
		return object{"deviceMultiplier": "1"}
	case "overhead":
		return pick(c, object{}, object{"perPod": pick(c, quantities...)})
	case "int":
		return pick(c, integers...)
	}
	if quantityNames[name] || name == "capacityMultiplier" {
		return pick(c, quantities...)
	}
	if texts := words[name]; texts != nil {
		return pick(c, texts...)
	}
	return pick(c, names...)
}

// Another key in a map whose keys are names.
func renameKey(c chooser, at place) (bool, string) {
	named := map[string]bool{"attributes": true, "capacity": true, "counters": true, "nodeAllocatableResources": true}
	value, isObject := at.value.(object)
	if !isObject || !named[at.name] || len(value) == 0 {
		return false, ""
	}
	key := pick(c, sortedKeys(value)...)
	wanted := pick(c, names...)
	if at.name == "nodeAllocatableResources" {
		wanted = pick(c, resourceNames...)
	}
	entry := value[key]
	delete(value, key)
	value[wanted] = entry
	return true, fmt.Sprintf("rename %s[%s] to %q", at.path, key, wanted)
}
