package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/limit"
	"writ/supervisor/journal"
)

// A batch is a person's approval of nodes that have not asked for admission yet. It lists the serial numbers of their
// machines. A serial number is not secret: a stranger that guesses an unused number is admitted as a node. Therefore
// the nodes of one network together may report only a few numbers, and each number admits only the first node that
// reports it.
const (
	serialsAtOnce    = 50
	serialsPerSecond = 1.0 / 60
	// MaxBatches limits the open batches, and the batches that are loaded or listed.
	MaxBatches = 100
)

// Batches holds the open batches of the journal by id. Unknown clients can cause lookups, so the journal is read only
// if a batch admits a node.
type Batches struct {
	site *Site

	mu       sync.Mutex
	open     map[string]*openBatch
	reported limit.Names // rate of new serial numbers, by network
}

type openBatch struct {
	journal.NodeBatch
	says identity.Batch
}

// LoadBatches loads the open batches of the journal.
func LoadBatches(ctx context.Context, site *Site) (*Batches, error) {
	b := &Batches{
		site: site,
		open: make(map[string]*openBatch), reported: limit.Names{PerSecond: serialsPerSecond, AtOnce: serialsAtOnce},
	}
	err := site.Journal.Read(ctx, func(tx *journal.Tx) error {
		all, err := tx.NodeBatches(MaxBatches)
		for _, one := range all {
			b.Put(*one)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load batches: %w", err)
	}
	return b, nil
}

// Put adds or replaces a batch after its commit to the journal.
func (o *Batches) Put(one journal.NodeBatch) {
	_, says, err := readBatch(one.Signed)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil || !one.Revoked.IsZero() { // an unreadable batch admits no node and is listed as void
		delete(o.open, one.ID)
		return
	}
	o.open[one.ID] = &openBatch{one, says}
}

// readBatch parses the signed statement of a batch without verifying it.
func readBatch(signed []byte) (*identity.Statement, identity.Batch, error) {
	text, _, err := sshsig.Split(signed)
	if err != nil {
		return nil, identity.Batch{}, err
	}
	s, err := identity.ParseStatement(text)
	if err != nil {
		return nil, identity.Batch{}, err
	}
	says, err := identity.ParseBatch(s)
	return s, says, err
}

// listing returns the batches that list a serial number and have room for another node, oldest first.
func (o *Batches) listing(serial string, now time.Time) (all []*openBatch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, one := range o.open {
		switch {
		case one.Ended(now):
			delete(o.open, id)
		case one.says.Lists(serial) && len(one.Admitted) < one.says.Most:
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, c *openBatch) int { return cmp.Or(a.Made.Compare(c.Made), cmp.Compare(a.ID, c.ID)) })
	return all
}

// Count returns how many batches are open.
func (o *Batches) Count(now time.Time) int {
	o.listing("", now) // removes expired batches
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.open)
}
