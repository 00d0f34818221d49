package differential

import (
	"regexp"
	"strings"
	"testing"
)

// Where this SDK refuses on purpose what the API server takes. TestStricterThanTheServer proves each row by its example.
var stricter = []struct {
	path, message string // expressions for our error
	reason        string
	example       func(spec, device object)
}{
	{`\.(attributes|capacity)\[.*/.*/.*\]$`, `one '/' at most`,
		"the server's own TODO: a name with two domains is a mistake that a later server refuses",
		func(_, device object) { device["attributes"] = object{"a/b/c": object{"bool": true}} }},
	{`\.value$`, `^Required value`,
		"a capacity or counter without a value counts as 0: nothing could ever be allocated from it",
		func(_, device object) { device["capacity"] = object{"memory": object{}} }},
	{``, `(^|[^"])null|is null`,
		"null in a list or map reads as an empty value there: a fault in who wrote it",
		func(_, device object) { device["capacity"] = object{"memory": nil} }},
	{``, `must be at most 128 bytes`,
		"a quantity of more than 128 bytes is no number a device has, and costs work to read",
		func(_, device object) {
			device["capacity"] = object{"memory": object{"value": strings.Repeat("0", 130) + "1"}}
		}},
	{``, `must start with a number$`,
		"a text without any digit reads as 0 there: a fault in who wrote it",
		func(_, device object) { device["capacity"] = object{"memory": object{"value": "."}} }},
	{`\[hugepages-\]$`, `hugepages-<size>`,
		"a page size is missing: no node has such a resource",
		func(_, device object) {
			device["nodeAllocatableResources"] = object{"hugepages-": object{"mapping": object{"deviceMultiplier": "1"}}}
		}},
	{`\.requestPolicy\.default$`, `must be at most the capacity value`,
		"no claim that asks for nothing special could ever be given the device",
		func(_, device object) {
			device["allowMultipleAllocations"] = true
			device["capacity"] = object{"memory": object{"value": "1", "requestPolicy": object{"default": "2"}}}
		}},
	{`\.validRange\.min$`, `must not be negative`,
		"a claim could take less than nothing",
		func(_, device object) {
			device["allowMultipleAllocations"] = true
			device["capacity"] = object{"memory": object{"value": "1", "requestPolicy": object{"default": "1", "validRange": object{"min": "-1"}}}}
		}},
}

// Where ours names another field than the server for the same fault: expressions for both paths.
var elsewhere = []struct{ ours, server, reason string }{
	{`\.requestPolicy\.default$`, `\.requestPolicy\.(validValues|validRange\.(default|step))$`, "default is no part of validRange: the server's path leads nowhere"},
	{`\.validRange\.max$`, `\.validRange\.step$`, "both are at odds; ours names the end that no step reaches"},
}

func explainedAsStricter(errors []fault) bool {
	for _, e := range errors {
		explained := false
		for _, row := range stricter {
			explained = explained || regexp.MustCompile(row.path).MatchString(e.Path) && regexp.MustCompile(row.message).MatchString(e.Message)
		}
		if !explained {
			return false
		}
	}
	return true
}

// True if both name one field. Ours may say more exactly which entry or member it is: the repair of a device needs that.
func shareField(ours, server []fault) bool {
	for _, our := range ours {
		for _, their := range server {
			if our.Path == their.Path || within(our.Path, their.Path) || strings.Contains(our.Message, "is null") && strings.HasPrefix(their.Path, our.Path) {
				return true
			}
			for _, row := range elsewhere {
				if regexp.MustCompile(row.ours).MatchString(our.Path) && regexp.MustCompile(row.server).MatchString(their.Path) {
					return true
				}
			}
		}
	}
	return false
}

// True for "<parent>.<member>" and "<parent>[<entry>]".
func within(path, parent string) bool {
	rest, below := strings.CutPrefix(path, parent)
	return below && regexp.MustCompile(`(?s)^(\.[a-zA-Z]+|\[.*\])$`).MatchString(rest)
}

func ourVerdict(t *testing.T, slice object) verdict {
	var result verdict
	ours.ask(t, object{"op": "validate_slice", "object": slice}, &result)
	return result
}

// "" if the two agree.
func disagreement(server, our verdict) string {
	switch {
	case server.accepted() && !our.accepted():
		if !explainedAsStricter(our.Errors) {
			return "refused by us alone"
		}
	case !server.accepted() && our.accepted():
		return "refused by the server alone"
	case !server.accepted() && !server.NotDecoded && !shareField(our.Errors, server.Errors) && !explainedAsStricter(our.Errors):
		return "refused by both, for different fields"
	}
	return ""
}

func TestValidateResourceSliceSaysWhatTheServerSays(t *testing.T) {
	switchOnGates(t)
	accepted, refused, disagreements := 0, 0, 0
	seen := map[string]bool{}
	for _, number := range caseNumbers(*cases) {
		c := newChooser(*seed, number)
		slice := validSlice(c)
		var changes []string
		if number%20 != 0 { // each twentieth stays as it is
			changes = append(changes, mutate(c, slice))
			for c.oneIn(4) {
				changes = append(changes, mutate(c, slice))
			}
		}
		server := serverVerdict(t, slice)
		if len(changes) == 0 && !server.accepted() {
			t.Fatalf("case %d of seed %d: the generator made a slice that the server refuses: %s\n%s", number, *seed, pretty(server), pretty(slice))
		}
		if server.accepted() {
			accepted++
		} else {
			refused++
		}
		our := ourVerdict(t, slice)
		why := disagreement(server, our)
		if why == "" {
			continue
		}
		// One of each kind is enough to read.
		disagreements++
		kind := why + gist(server) + gist(our)
		if seen[kind] || len(seen) >= *show {
			continue
		}
		seen[kind] = true
		t.Errorf("case %d of seed %d: %s\nchanged: %s\nserver: %s\nours: %s\nslice: %s", number, *seed, why,
			strings.Join(changes, "; "), pretty(server.Errors), pretty(our.Errors), shortened(slice))
	}
	t.Logf("the server took %d slices and refused %d", accepted, refused)
	if disagreements > 0 {
		t.Errorf("%d disagreements, of %d kinds or more", disagreements, len(seen))
	}
	if *only < 0 && *cases >= 1000 && (accepted < *cases/20 || refused < *cases/20) {
		t.Errorf("the cases prove little: %d taken and %d refused of %d", accepted, refused, *cases)
	}
}

var values = regexp.MustCompile(`\[[^\]]*\]|"[^"]*"|[0-9]+`)

// The first fault without names and numbers.
func gist(v verdict) string {
	if len(v.Errors) == 0 {
		return ": OK"
	}
	return ": " + values.ReplaceAllString(v.Errors[0].Path+" "+v.Errors[0].Message, "_")
}

func TestStricterThanTheServer(t *testing.T) {
	switchOnGates(t)
	for i, row := range stricter {
		device := object{"name": "gpu-0"}
		spec := object{"driver": "gpu.example.com", "nodeName": "node-1", "devices": list{device},
			"pool": object{"name": "node-1", "generation": 1, "resourceSliceCount": 1}}
		row.example(spec, device)
		slice := object{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": object{"name": "slice"}, "spec": spec}
		if server := serverVerdict(t, slice); !server.accepted() {
			t.Errorf("row %d (%s): the server refuses it as well: %s", i, row.reason, pretty(server.Errors))
		}
		if our := ourVerdict(t, slice); our.accepted() || !explainedAsStricter(our.Errors) {
			t.Errorf("row %d (%s): ours says %s", i, row.reason, pretty(our.Errors))
		}
	}
}
