// Package rosters keeps the roster of a datacenter. It verifies and adopts new versions, makes decisions under the
// newest version, and cancels open runs whose signers have lost their rights. The caller fetches or receives the
// rosters.
package rosters

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/chain"
	"writ/identity/expiring"
	"writ/identity/sshsig"
	"writ/internal/failpoint"
	"writ/internal/sleep"
	"writ/scripts"
	"writ/supervisor/journal"
)

// Config holds the dependencies of a Keeper. All fields but Adopted are required.
type Config struct {
	Journal    *journal.Journal
	Cluster    writ.ClusterID // pin of the roster chain
	Datacenter writ.DatacenterID
	Key        ed25519.PrivateKey // of the supervisor
	// ProjectOf returns the project of a run. The verifier needs it for statements about runs.
	ProjectOf func(run writ.RunID) (writ.ProjectID, error)
	// Adopted is called with each roster that comes into force, so that the caller can store it outside the database. The
	// keeper logs its error.
	Adopted func(signed []byte) error
	// InForce is called after a roster has come into force.
	InForce func(ctx context.Context, roster *identity.Roster)
	Now     func() time.Time
	Log     *slog.Logger
}

// Keeper keeps the roster in force. Create it with New.
type Keeper struct {
	Config
	current  atomic.Pointer[identity.Roster]
	forks    chain.Forks // roster forks that were logged
	adopting sync.Mutex  // serializes the adoption of rosters
	former   formerAddresses
}

// New returns a keeper without a roster.
func New(config Config) *Keeper { return &Keeper{Config: config} }

// Current returns the roster in force, nil before the first roster.
func (k *Keeper) Current() *identity.Roster { return k.current.Load() }

// DatacenterName returns the name of the datacenter in the roster in force, else its ID.
func (k *Keeper) DatacenterName() string {
	if dc := k.Current().Datacenter(k.Datacenter); dc != nil {
		return dc.Name
	}
	return string(k.Datacenter)
}

// anyTime disables the expiry check of rosters. An adopted roster stays in force until its successor comes, and a chain
// must stay valid forever. The verifier ensures that an expired roster admits no new work.
var anyTime time.Time

// Load verifies the chain of rosters in the journal against the pin of the cluster, and then adopts newer rosters from
// outside.
func (k *Keeper) Load(ctx context.Context, outside [][]byte) error {
	links, err := journal.Query(ctx, k.Journal, (*journal.Tx).RosterLinks)
	if err != nil {
		return fmt.Errorf("load rosters: %w", err)
	}
	if len(links) > 0 {
		roster, err := identity.LoadRosters(k.Cluster, links, k.notingAddresses(k.Text(ctx)))
		if err != nil {
			return fmt.Errorf("load rosters: %w", err)
		}
		k.current.Store(roster)
	} else if len(outside) == 0 {
		return writ.Errorf(writ.CodeRosterInvalid, "the supervisor has no roster").
			WithHint("give it the coordinator's address")
	}
	_, err = k.Adopt(ctx, outside)
	return err
}

// Text returns a function that reads the signed text of a version. Its error is ROSTER_INVALID for a version
// without a text.
func (k *Keeper) Text(ctx context.Context) func(version int) ([]byte, error) {
	return func(version int) ([]byte, error) {
		signed, err := journal.Query(ctx, k.Journal, func(tx *journal.Tx) ([]byte, error) { return tx.Roster(version) })
		if err == nil && signed == nil {
			err = writ.Errorf(writ.CodeRosterInvalid, "the journal has lost version %d of the roster", version).
				WithHint("restore the journal from a backup")
		}
		return signed, err
	}
}

// notingAddresses wraps text. It records the coordinator addresses of each roster that text reads. LoadRosters reads
// all waypoints, and every version that changes an address is a waypoint.
func (k *Keeper) notingAddresses(text func(version int) ([]byte, error)) func(version int) ([]byte, error) {
	return func(version int) ([]byte, error) {
		signed, err := text(version)
		if err != nil {
			return nil, err
		}
		if text, _, err := sshsig.Split(signed); err == nil {
			if r, err := identity.ParseRoster(text); err == nil {
				k.former.note(r)
			}
		}
		return signed, nil
	}
}

// Adopt verifies and adopts links that follow the newest roster, and skips known rosters. It returns the version in
// force afterwards. Without a roster, it verifies the first link against the pin of the cluster.
func (k *Keeper) Adopt(ctx context.Context, links [][]byte) (int, error) {
	k.adopting.Lock() // two coordinators may send the same roster at the same time
	defer k.adopting.Unlock()
	for _, link := range links {
		current := k.current.Load()
		if current == nil {
			first, err := identity.VerifyRosters(k.Cluster, [][]byte{link}, anyTime)
			if err != nil {
				return 0, err
			}
			if err := k.adopt(ctx, first, link); err != nil {
				return 0, err
			}
			continue
		}
		if current.Has(link) {
			continue
		}
		next, err := identity.VerifyRoster(current, link, anyTime)
		if err != nil {
			return current.Version, err
		}
		if err := k.adopt(ctx, next, link); err != nil {
			return current.Version, err
		}
	}
	if r := k.current.Load(); r != nil {
		return r.Version, nil
	}
	return 0, nil
}

// adopt brings a verified roster into force. It first writes the roster to the journal. A Recheck then checks the open
// runs; the journal has the version of the last check of each run.
func (k *Keeper) adopt(ctx context.Context, roster *identity.Roster, link []byte) error {
	signed := chain.Signed(link)
	err := k.Journal.Write(failpoint.At(ctx, failpoint.RosterAdopted),
		func(tx *journal.Tx) error { return tx.AddRoster(roster, signed) })
	if err != nil {
		return fmt.Errorf("keep roster %d: %w", roster.Version, err)
	}
	k.former.note(roster)
	k.current.Store(roster)
	k.Log.Info("roster adopted", "version", roster.Version)
	if k.Adopted != nil {
		if err := k.Adopted(link); err != nil {
			k.Log.Warn("store a roster; it is in the journal only", "version", roster.Version, "err", err)
		}
	}
	k.InForce(ctx, roster)
	return nil
}

// CheckKey returns an error unless the current roster assigns this datacenter to this supervisor's key.
func (k *Keeper) CheckKey() error {
	r := k.Current()
	d := r.Datacenter(k.Datacenter)
	if d == nil {
		return writ.Errorf(writ.CodeDatacenterUnknown, "roster %d has no datacenter %s", r.Version, k.Datacenter).
			WithHint("add it with `writ dc add`")
	}
	if !d.SupervisorKey.Equal(k.Key.Public().(ed25519.PublicKey)) {
		return writ.Errorf(writ.CodeSignerUnknown, "the roster has another supervisor key for %s than this supervisor", d.Name).
			WithHint("use the data directory that the datacenter was added with")
	}
	return nil
}

// Verifier returns a verifier that uses the newest roster.
func (k *Keeper) Verifier() *identity.Verifier {
	return &identity.Verifier{
		Roster: k.current.Load(), Datacenter: k.Datacenter, Engines: scripts.Engines(), Now: k.Now, ProjectOf: k.ProjectOf,
		Forked: k.forked,
	}
}

// forked logs, once per error, that a signer has seen a different roster than the roster in force in this datacenter.
func (k *Keeper) forked(signer string, err error) {
	if k.forks.First(err) {
		k.Log.Error("two rosters of one version exist", "signer", signer, "code", writ.CodeOf(err), "err", err)
	}
}

// endsEvery is the interval at which the supervisor checks its roster for approaching expiries.
const endsEvery = time.Hour

// WarnOfEnds logs approaching expiries of the roster and of roles, until ctx ends. A datacenter without a coordinator
// has no other way to report them.
func (k *Keeper) WarnOfEnds(ctx context.Context) error {
	warned := make(expiring.Warned)
	sleep.Every(ctx, endsEvery, func(ctx context.Context) {
		warned.Log(ctx, k.Log, expiring.InRoster(k.current.Load()), k.Now())
	})
	return nil
}
