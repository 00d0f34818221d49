package suite

import (
	"context"
	"strings"
	"testing"
)

// GateOn asks the API server whether it has a feature gate on. One that it does not know is off.
func (c *Cluster) GateOn(t *testing.T, gate string) bool {
	t.Helper()
	metrics, err := c.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	if err != nil {
		t.Fatalf("ask the API server for its feature gates: %v", err)
	}
	for _, line := range strings.Split(string(metrics), "\n") {
		if strings.HasPrefix(line, `kubernetes_feature_enabled{name="`+gate+`",`) {
			return strings.HasSuffix(line, " 1")
		}
	}
	return false
}

// NeedsGate skips the test where a feature gate is off.
func (f *Fixture) NeedsGate(gate string) {
	f.T.Helper()
	if !f.GateOn(f.T, gate) {
		f.T.Skipf("feature gate %s is off in this Kubernetes 1.%s", gate, f.Version.Minor)
	}
}

// NeedsNoGate skips the test where a feature gate is on: it is about what happens without.
func (f *Fixture) NeedsNoGate(gate string) {
	f.T.Helper()
	if f.GateOn(f.T, gate) {
		f.T.Skipf("feature gate %s is on", gate)
	}
}
