package coord

import (
	"context"
	"fmt"
	"sync"
	"time"

	"writ"
)

const (
	// serverShare limits the bytes of one datacenter in a ledger whose disk is unknown.
	serverShare = 100 << 30
	// sharesEvery is how long the shares are used before they are read again.
	sharesEvery = 2 * time.Second
)

// space is the room that a coordinator has for its ledger.
type space struct {
	fixed       int64 // limit of a datacenter, 0 if it follows from the rest
	free        int64 // of the disk
	ledger      int64 // size of the ledger; 0 if its disk is unknown
	datacenters int
}

// limit returns the bytes that one datacenter may store, and whether the limit applies now. It is an equal share of half
// the disk, and applies only while less than a quarter of the disk is free.
func (s space) limit() (bytes int64, counts bool) {
	switch {
	case s.fixed > 0:
		return s.fixed, true
	case s.ledger == 0:
		return serverShare, true
	}
	disk := s.free + s.ledger
	return disk / 2 / int64(max(1, s.datacenters)), s.free < disk/4
}

// shares keeps one datacenter from filling the ledger of all.
type shares struct {
	mu    sync.Mutex
	read  time.Time
	space space
	taken map[writ.DatacenterID]int64
}

// check returns QUOTA_EXCEEDED if a datacenter has stored too much.
func (s *shares) check(ctx context.Context, c *Coordinator, datacenter writ.DatacenterID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.read) >= sharesEvery {
		if err := s.refresh(ctx, c); err != nil {
			return err
		}
	}
	limit, counts := s.space.limit()
	taken := s.taken[datacenter]
	if !counts || taken <= limit {
		return nil
	}
	return writ.Errorf(writ.CodeQuotaExceeded, "this coordinator stores no more of its events: they take %s of the ledger, and the limit of a datacenter is %s",
		mebibytes(taken), mebibytes(limit)).
		WithHint("inspect the events of the datacenter; free space on the ledger's disk, or start the coordinator with a larger --datacenter-share")
}

func (s *shares) refresh(ctx context.Context, c *Coordinator) error {
	taken, err := c.Ledger.Shares(ctx)
	if err != nil {
		return err
	}
	datacenters, err := c.Ledger.Datacenters(ctx)
	if err != nil {
		return err
	}
	s.space = space{fixed: c.DatacenterShare, datacenters: len(datacenters)}
	if c.LedgerSpace != nil {
		s.space.free, s.space.ledger = c.LedgerSpace()
	}
	s.taken, s.read = taken, time.Now()
	return nil
}

// mebibytes formats an amount.
func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
