package coord

import (
	"strings"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
)

// Promise: Limits and shares: No datacenter fills the ledger of a coordinator: above its share it is paused with a
// reason while other datacenters continue.
// How: Event bytes are summed per day and datacenter; the share is half of the disk divided by datacenters when less
// than a quarter is free, or `--datacenter-share`.
// Also: TestDatacenterOverItsShareIsPaused, TestLedgerInFile, TestLedgerInMemory, TestLedgerOnPostgreSQL.
func TestShareOfADatacenterFollowsTheDisk(t *testing.T) {
	const gib = 1 << 30
	for name, tt := range map[string]struct {
		space  space
		limit  int64
		counts bool
	}{
		"plenty of room": {space{free: 60 * gib, ledger: 40 * gib, datacenters: 2}, 25 * gib, false},
		"little room":    {space{free: 20 * gib, ledger: 80 * gib, datacenters: 2}, 25 * gib, true},
		"no datacenter":  {space{free: 20 * gib, ledger: 80 * gib}, 50 * gib, true},
		"a server":       {space{datacenters: 2}, serverShare, true},
		"fixed":          {space{fixed: 3 * gib, free: 90 * gib, ledger: 10 * gib}, 3 * gib, true},
	} {
		if limit, counts := tt.space.limit(); limit != tt.limit || counts != tt.counts {
			t.Errorf("%s: %d, %v", name, limit, counts)
		}
	}
}

func TestDatacenterOverItsShareIsPaused(t *testing.T) {
	p := start(t, func(c *Config) { c.DatacenterShare = 1 << 20 })
	again := func(datacenter writ.DatacenterID, seq int64) error {
		p.shares.mu.Lock()
		p.shares.read = time.Time{} // as if time had passed
		p.shares.mu.Unlock()
		e := writ.Event{Journal: "j-" + string(datacenter), Seq: seq, Time: time.Now(), Log: &writ.LogLine{Ordinal: 1, Text: strings.Repeat("x", 200<<10)}}
		return supervisors{p.Coordinator}.StoreEvents(t.Context(), datacenter, []writ.Event{e})
	}
	const greedy, modest = writ.DatacenterID("0192f6c2-0000-7000-8000-00000000aaaa"), writ.DatacenterID("0192f6c2-0000-7000-8000-00000000bbbb")
	stored := 0
	var err error
	for err == nil && stored < 20 {
		if err = again(greedy, int64(stored+1)); err == nil {
			stored++
		}
	}
	if e := writ.AsError(err); err == nil || e.Code != writ.CodeQuotaExceeded || stored != 6 || !testenv.Mentions(e.Message, "1 MiB") {
		t.Errorf("after %d events: %v", stored, err)
	}
	if err := again(modest, 1); err != nil {
		t.Errorf("another datacenter: %v", err)
	}
	if _, err := p.submit(signedScript(t, payload())); err != nil {
		t.Errorf("a submission: %v", err)
	}
}
