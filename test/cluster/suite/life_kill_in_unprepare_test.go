package suite

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
)

// A driver that dies in the middle of an unprepare goes on after its next start; until then the pod waits.
func TestDriverKilledInAnUnprepareGoesOn(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"begin", "configured", "end"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			f := NewFixture(t)
			d := f.StartDriver(DriverOptions{Backend: Object{"numDevices": 1, "deviceNodes": true}})
			f.Apply(TunedClaimYAML("claim") + PodYAML("pod", "claim"))
			f.RunAndCheck("pod", "claim", 1)
			d.CheckInterval("gpu-0", "Long")

			d.Control(Object{"hooks": Object{"unprepare": Object{"at": at, "crash": "kill", "times": 1}}})
			f.DeletePod("pod")
			d.AwaitEnd(60 * time.Second)
			Never(t, 3*time.Second, "the pod is gone before its claim is unprepared", func() error {
				_, err := f.Pod("pod")
				if errors.IsNotFound(err) {
					return err
				}
				return nil
			})

			d.Start()
			f.AwaitGone("pod")
			f.AwaitNothingLeft()
			d.CheckInterval("gpu-0", "Default")
			if sets := CountEvents(d.HookEvents(), Object{"event": "set", "card": "gpu-0"}); sets != 2 {
				t.Errorf("the card was set %d times, want twice: to Long and back", sets)
			}
		})
	}
}
