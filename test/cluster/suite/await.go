package suite

import (
	"testing"
	"time"
)

// Await asks until `attempt` gives no error, or fails the test with the last one after `limit`. The limits are for a
// machine that is busy with other work; nothing waits longer than it has to.
func Await(t *testing.T, limit time.Duration, what string, attempt func() error) {
	t.Helper()
	began := time.Now()
	for {
		err := attempt()
		if err == nil {
			return
		}
		if time.Since(began) > limit {
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Never fails the test if `attempt` gives an error within `period`: for what must not happen.
func Never(t *testing.T, period time.Duration, what string, attempt func() error) {
	t.Helper()
	for began := time.Now(); time.Since(began) < period; time.Sleep(100 * time.Millisecond) {
		if err := attempt(); err != nil {
			t.Fatalf("%s: after %v: %v", what, time.Since(began), err)
		}
	}
}
