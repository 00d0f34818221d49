package suite

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
)

// Interval is what a card of the simulated hardware is set to.
func (d *Driver) Interval(card string) (string, error) {
	text, err := os.ReadFile(d.StatePath("hardware.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "Default", nil
	}
	if err != nil {
		return "", err
	}
	var hardware struct {
		Cards map[string]struct {
			Sharing struct{ Interval string }
		}
	}
	if err := json.Unmarshal(text, &hardware); err != nil {
		return "", err
	}
	if set, found := hardware.Cards[card]; found {
		return set.Sharing.Interval, nil
	}
	return "Default", nil
}

// CheckInterval checks what a card is set to.
func (d *Driver) CheckInterval(card, want string) {
	d.t.Helper()
	if have, err := d.Interval(card); err != nil || have != want {
		d.t.Errorf("the interval of %s is %q (%v), want %q", card, have, err, want)
	}
}
