package coord

import (
	"sync/atomic"
	"testing"
	"time"

	"writ"
	"writ/coord/api"
)

// Promise: Limits and shares: A coordinator whose clock is far ahead deletes no run of the last 90 days.
// How: The age of a run counts up to the latest end of a run, by the clock of its datacenter.
func TestClockFarAheadDeletesNoRun(t *testing.T) {
	var ahead atomic.Int64
	p := start(t, func(c *Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	s := connect(p, vienna, nil)
	in, err := p.submit(signedScript(t, payload()))
	if err != nil {
		t.Fatal(err)
	}
	p.await("accepted", func() bool { return p.run(in.Run).State == api.RunStateAccepted })
	ended := writ.Run{
		ID: in.Run, Payload: in.Payload, State: writ.RunSucceeded, Accepted: in.Received, Ended: time.Now().UTC(),
	}
	s.tell(writ.Event{Run: &ended})
	p.await("ended", func() bool { return p.run(in.Run).State == api.RunStateSucceeded })
	ahead.Store(int64(200 * 24 * time.Hour))
	p.prune(t.Context())
	ahead.Store(0)
	if got := p.run(in.Run); got.State != api.RunStateSucceeded {
		t.Errorf("it is %q", got.State)
	}
}

func TestAgeOfRunsEndsWithTheLatest(t *testing.T) {
	now := time.Date(2031, 5, 1, 9, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ latest, want time.Time }{
		{now.Add(-time.Hour), now.Add(-time.Hour - keepRuns)},
		{now.Add(time.Hour), now.Add(-keepRuns)}, // by a datacenter whose clock is ahead
		{time.Time{}, time.Time{}.Add(-keepRuns)},
	} {
		if got := runsBefore(now, tt.latest); !got.Equal(tt.want) {
			t.Errorf("%s: %s, want %s", tt.latest, got, tt.want)
		}
	}
}
