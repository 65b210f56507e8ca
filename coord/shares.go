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

// space describes the disk space for the ledger.
type space struct {
	fixed       int64 // limit of a datacenter, 0 if it is derived from the other fields
	free        int64 // free bytes on the ledger's disk
	ledger      int64 // size of the ledger; 0 if its disk is unknown
	datacenters int
}

// limit returns the maximum bytes of one datacenter's events, and whether the limit applies now. A fixed limit, and
// serverShare for an unknown disk, always apply. Otherwise the limit is an equal share of half the disk, and applies
// only while less than a quarter of the disk is free.
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

// shares prevents one datacenter from filling the shared ledger.
type shares struct {
	mu    sync.Mutex
	read  time.Time
	space space
	taken map[writ.DatacenterID]int64
}

// check returns QUOTA_EXCEEDED if a datacenter exceeds its share.
func (s *shares) check(ctx context.Context, c *Coordinator, datacenter writ.DatacenterID) error {
	if s.claimRefresh() {
		if err := s.refresh(ctx, c); err != nil {
			s.expire()
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	limit, counts := s.space.limit()
	taken := s.taken[datacenter]
	if !counts || taken <= limit {
		return nil
	}
	return writ.Errorf(writ.CodeQuotaExceeded,
		"this coordinator stores no more of its events: they take %s of the ledger, and the limit of a datacenter is %s",
		mebibytes(taken), mebibytes(limit)).
		WithHint("inspect the events of the datacenter; free space on the ledger's disk, or start the coordinator with a larger --datacenter-share")
}

// claimRefresh reports whether the caller must refresh the shares. Other callers use the old shares meanwhile, so that
// a slow ledger delays only one caller. Until the first refresh is complete, every caller must refresh.
func (s *shares) claimRefresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken != nil && time.Since(s.read) < sharesEvery {
		return false
	}
	s.read = time.Now()
	return true
}

// expire makes the next caller refresh the shares.
func (s *shares) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = time.Time{}
}

// refresh reads the shares. It holds no lock while it reads.
func (s *shares) refresh(ctx context.Context, c *Coordinator) error {
	taken, err := c.Ledger.Shares(ctx)
	if err != nil {
		return err
	}
	datacenters, err := c.Ledger.Datacenters(ctx)
	if err != nil {
		return err
	}
	room := space{fixed: c.DatacenterShare, datacenters: len(datacenters)}
	if c.LedgerSpace != nil {
		room.free, room.ledger = c.LedgerSpace()
	}
	if taken == nil {
		taken = map[writ.DatacenterID]int64{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.space, s.taken, s.read = room, taken, time.Now()
	return nil
}

// mebibytes formats a number of bytes.
func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
