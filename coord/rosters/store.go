// Package rosters holds the newest roster of a coordinator. It verifies each roster before use, including rosters from
// the ledger, because the database is not trusted. It must not depend on readers or transports of rosters.
package rosters

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/chain"
	"writ/internal/broadcast"
	"writ/ledger"
)

// Store holds the newest roster. It loads the roster from the ledger at first use. Create a Store with New, and set the
// other fields before the first use.
type Store struct {
	Ledger Ledger // required
	// Cluster decides which first roster is accepted. If it is empty, the ledger must already have a roster.
	Cluster writ.ClusterID
	Now     func() time.Time // required
	Log     *slog.Logger     // required
	// Adopted is called after the roster `next` has replaced `previous`, which is nil for the first roster. It may be
	// nil.
	Adopted func(previous, next *identity.Roster)
	// Changed signals a new roster.
	Changed broadcast.Signal
	Pages   *Pages // made by New

	current atomic.Pointer[identity.Roster]
	adding  sync.Mutex
	forks   chain.Forks // forks that were already logged
}

// Ledger is the part of ledger.Ledger that a Store uses.
type Ledger interface {
	AddRoster(ctx context.Context, roster *identity.Roster, signed []byte) error
	RosterLinks(ctx context.Context, after int) ([]chain.Entry, error)
	Roster(ctx context.Context, version int) ([]byte, error)
	Run(ctx context.Context, id writ.RunID) (ledger.Run, error)
}

// New returns a Store without a roster.
func New(l Ledger, cluster writ.ClusterID, now func() time.Time, log *slog.Logger) *Store {
	s := &Store{Ledger: l, Cluster: cluster, Now: now, Log: log}
	s.Pages = newPages(s)
	return s
}

// Current returns the newest roster, nil if none was loaded. It never waits.
func (s *Store) Current() *identity.Roster { return s.current.Load() }

// Newest returns the newest roster. The error is ROSTER_INVALID while the coordinator has no roster.
func (s *Store) Newest(ctx context.Context) (*identity.Roster, error) {
	if roster := s.current.Load(); roster != nil {
		return roster, nil
	}
	s.adding.Lock()
	defer s.adding.Unlock()
	roster, err := s.load(ctx)
	if err == nil && roster == nil {
		err = writ.Errorf(writ.CodeRosterInvalid, "the coordinator has no roster yet").
			WithHint("make a cluster with `writ init`")
	}
	return roster, err
}

// load loads and verifies the rosters of the ledger. It returns nil if the ledger has no roster. The caller holds
// adding.
func (s *Store) load(ctx context.Context) (*identity.Roster, error) {
	if roster := s.current.Load(); roster != nil {
		return roster, nil
	}
	// An expired roster is accepted, because it names the signers of its successor.
	roster, err := Load(ctx, s.Ledger, s.Cluster)
	if err != nil {
		return nil, fmt.Errorf("verify the rosters of the ledger: %w", err)
	}
	s.current.Store(roster)
	return roster, nil
}

// Texts is the part of ledger.Rosters that Load reads.
type Texts interface {
	RosterLinks(ctx context.Context, after int) ([]chain.Entry, error)
	Roster(ctx context.Context, version int) ([]byte, error)
}

// Load verifies the chain of rosters in a ledger and returns the newest roster, or nil. If pin is empty, the first
// roster determines the cluster.
func Load(ctx context.Context, l Texts, pin writ.ClusterID) (*identity.Roster, error) {
	links, err := l.RosterLinks(ctx, 0)
	if err != nil || len(links) == 0 {
		return nil, err
	}
	text := textOf(ctx, l)
	if pin == "" {
		signed, err := text(links[0].Version)
		if err != nil {
			return nil, err
		}
		first, err := identity.VerifyRoster(nil, signed, time.Time{})
		if err != nil {
			return nil, fmt.Errorf("verify the first roster of the ledger: %w", err)
		}
		pin = first.Cluster
	}
	return identity.LoadRosters(pin, links, text)
}

// textOf returns a function that reads the signed text of a version from a ledger.
func textOf(ctx context.Context, l Texts) func(version int) ([]byte, error) {
	return func(version int) ([]byte, error) { return l.Roster(ctx, version) }
}

// Add verifies the next roster, or the first roster of the cluster, stores it and signals Changed. It returns the
// version of the roster. A known roster is not an error. A link is a signed roster as package chain defines it.
func (s *Store) Add(ctx context.Context, link []byte) (version int, err error) {
	// This check holds no lock: unauthenticated clients can send texts that are expensive to reject, so only texts with
	// valid signatures may reach the lock.
	if newest := s.current.Load(); newest != nil {
		if _, err := s.verifyNext(newest, link); err != nil && s.current.Load() == newest {
			return 0, err
		}
	}
	s.adding.Lock()
	defer s.adding.Unlock()
	previous, err := s.load(ctx)
	if err != nil {
		return 0, err
	}
	next, err := s.verifyNext(previous, link)
	if err != nil {
		return 0, err
	}
	if next == previous {
		return next.Version, nil
	}
	if err := s.Ledger.AddRoster(ctx, next, chain.Signed(link)); err != nil {
		return 0, err
	}
	s.adopt(previous, next)
	s.Log.InfoContext(ctx, "roster adopted", "version", next.Version, "datacenters", len(next.Datacenters),
		"expires", next.Expires)
	return next.Version, nil
}

// adopt makes the roster `next` the newest one. The caller holds adding.
func (s *Store) adopt(previous, next *identity.Roster) {
	s.current.Store(next)
	s.Changed.Wake()
	if s.Adopted != nil {
		s.Adopted(previous, next)
	}
}

// verifyNext returns the roster of a link that follows previous, which may be nil. If previous already has the link, it
// returns previous.
func (s *Store) verifyNext(previous *identity.Roster, link []byte) (*identity.Roster, error) {
	if previous != nil && previous.Has(link) {
		return previous, nil
	}
	next, err := identity.VerifyRoster(previous, link, s.Now())
	if err != nil {
		return nil, err
	}
	if previous == nil && next.Cluster != s.Cluster {
		return nil, writ.Errorf(writ.CodeWrongCluster, "this coordinator does not accept the first roster of the cluster %s",
			next.Cluster).
			WithHint("start the coordinator with the cluster's id")
	}
	return next, nil
}

// Follow adopts the rosters that another coordinator has added to the ledger.
func (s *Store) Follow(ctx context.Context) error {
	s.adding.Lock()
	defer s.adding.Unlock()
	previous, err := s.load(ctx)
	if err != nil || previous == nil {
		return err
	}
	newer, err := s.Ledger.RosterLinks(ctx, previous.Version)
	if err != nil || len(newer) == 0 {
		return err
	}
	next, err := identity.FollowRosters(previous.Cluster, previous, newer, textOf(ctx, s.Ledger))
	if err != nil {
		return fmt.Errorf("verify a roster of the ledger: %w", err)
	}
	s.adopt(previous, next)
	s.Log.InfoContext(ctx, "roster of another coordinator adopted", "version", next.Version)
	return nil
}

// PathWithin returns the links that lead from a version towards the newest roster, at most max bytes in addition to the
// first link.
func (s *Store) PathWithin(ctx context.Context, version, max int) ([][]byte, error) {
	newest, err := s.Newest(ctx)
	if err != nil {
		return nil, err
	}
	return newest.Chain().PathWithin(version, max, textOf(ctx, s.Ledger))
}
