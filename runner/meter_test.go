package runner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/runner/journal"
	"writ/sal"
)

func TestUseIsChargedToTheHourInWhichItWas(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	resource, uid := writ.ResourceID{Kind: writ.KindMachine, Name: "m"}, writ.UID("u")
	use := func(hour time.Time, passed time.Duration, received int64) journal.Use {
		return journal.Use{Resource: resource, UID: uid, Hour: hour, CPU: passed / 4, Memory: 100 * passed, Received: received}
	}
	usage := sal.Usage{CPUs: 25, MemoryMiB: 100, Received: 70}
	for _, tt := range []struct {
		name   string
		before journal.Reading
		at     time.Time
		want   []journal.Use
	}{
		{"first look", journal.Reading{}, noon, []journal.Use{use(noon, 0, 70)}},
		{"later", journal.Reading{At: noon, Received: 60}, noon.Add(30 * time.Second), []journal.Use{use(noon, 30*time.Second, 10)}},
		{"counter began anew", journal.Reading{At: noon, Received: 80}, noon.Add(30 * time.Second), []journal.Use{use(noon, 30*time.Second, 70)}},
		{"over the hour", journal.Reading{At: noon.Add(-10 * time.Second), Received: 70}, noon.Add(20 * time.Second),
			[]journal.Use{use(noon.Add(-time.Hour), 10*time.Second, 0), use(noon, 20*time.Second, 0)}},
		{"on the hour", journal.Reading{At: noon.Add(-10 * time.Second), Received: 70}, noon, []journal.Use{use(noon.Add(-time.Hour), 10*time.Second, 0)}},
		{"no reading for an hour", journal.Reading{At: noon.Add(-time.Hour)}, noon, []journal.Use{use(noon, 0, 70)}},
		{"the clock was set back", journal.Reading{At: noon.Add(time.Minute)}, noon, []journal.Use{use(noon, 0, 70)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, charge(resource, uid, tt.before, tt.at, usage)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
