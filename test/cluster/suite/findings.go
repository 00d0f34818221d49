package suite

import (
	"fmt"
	"strings"
	"time"
)

// Findings are what the status socket tells of a device: repaired, dropped, withheld, and why.
func (d *Driver) Findings(device string) ([]Object, error) {
	status, err := d.DriverStatus()
	if err != nil {
		return nil, err
	}
	var findings []Object
	for _, part := range []string{"inventory", "publication"} {
		for _, finding := range status[part].(Object)["findings"].([]any) {
			if finding.(Object)["device"] == device {
				findings = append(findings, finding.(Object))
			}
		}
	}
	return findings, nil
}

// AwaitFinding waits until the status socket names a field of a device and the gate that it fails for.
func (d *Driver) AwaitFinding(device, field, gate string) {
	d.t.Helper()
	Await(d.t, 30*time.Second, fmt.Sprintf("a finding of device %s, field %s, names %s", device, field, gate), func() error {
		findings, err := d.Findings(device)
		if err != nil {
			return err
		}
		for _, finding := range findings {
			if finding["field"] == field && strings.Contains(finding["problem"].(string), gate) {
				return nil
			}
		}
		return fmt.Errorf("findings: %v", findings)
	})
}
