package suite

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Metric adds up the values of a metric of this process that have these labels, as in `method="NodePrepareResources"`.
func (d *Driver) Metric(name string, labels ...string) (float64, error) {
	status, err := d.Status()
	if err != nil {
		return 0, err
	}
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: d.c.dial}}
	answer, err := client.Get(fmt.Sprintf("http://127.0.0.1:%v/metrics", status["httpPort"]))
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	sum := 0.0
	for scanner := bufio.NewScanner(answer.Body); scanner.Scan(); {
		metric, value, _ := strings.Cut(scanner.Text(), "} ")
		if !strings.HasPrefix(metric, name+"{") {
			continue
		}
		if slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(metric+"}", label) }) {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		sum += number
	}
	return sum, nil
}

// CheckMetric checks such a sum.
func (d *Driver) CheckMetric(want float64, name string, labels ...string) {
	d.t.Helper()
	if have, err := d.Metric(name, labels...); err != nil || have != want {
		d.t.Errorf("metric %s%v is %v (%v), want %v", name, labels, have, err, want)
	}
}
