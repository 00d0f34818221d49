package suite

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
)

// HookEvents are all lines that the fake backend has logged.
func (d *Driver) HookEvents() []Object {
	text, err := os.ReadFile(d.StatePath("hooks.jsonl"))
	if err != nil {
		return nil
	}
	var events []Object
	for _, line := range strings.Split(string(text), "\n") {
		var event Object
		if json.Unmarshal([]byte(line), &event) == nil {
			events = append(events, event)
		}
	}
	return events
}

// FindEvent is the place of the first event with these members, -1 if there is none.
func FindEvent(events []Object, want Object) int {
	return slices.IndexFunc(events, func(event Object) bool {
		for key, value := range want {
			if event[key] != value {
				return false
			}
		}
		return true
	})
}

// CountEvents counts the events with these members.
func CountEvents(events []Object, want Object) int {
	count := 0
	for at := FindEvent(events, want); at >= 0; at = FindEvent(events, want) {
		count, events = count+1, events[at+1:]
	}
	return count
}
