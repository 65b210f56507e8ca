package roster

import (
	"testing"
	"time"

	"writ/coord/api"
)

func TestDatacenterShowsSinceAndNextStep(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d - time.Second) }
	const start = "on its host: writ supervisor --data DIR"
	for name, tt := range map[string]struct {
		shown       api.Datacenter
		since, next string
	}{
		"Connected": {api.Datacenter{Enabled: true, Health: api.DatacenterHealthHealthy, Connected: ago(time.Hour)}, "1h", ""},
		"Away":      {api.Datacenter{Enabled: true, Health: api.DatacenterHealthAway, Heard: ago(3 * time.Minute)}, "3m", start},
		"NeverSeen": {api.Datacenter{Enabled: true, Health: api.DatacenterHealthAway}, "", start},
		"Disabled":  {api.Datacenter{Health: api.DatacenterHealthAway, Heard: ago(3 * time.Minute)}, "3m", ""},
	} {
		if since, next := sinceOf(tt.shown), nextOf(tt.shown); since != tt.since || next != tt.next {
			t.Errorf("%s: since %q, next %q; want %q and %q", name, since, next, tt.since, tt.next)
		}
	}
}
