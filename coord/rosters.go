package coord

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/broadcast"
	"writ/internal/pagecache"
	"writ/internal/reach"
	"writ/ledger"
	"writ/supervisor/link"
)

// rosters holds the newest roster. It is loaded from the ledger at first use.
type rosters struct {
	current atomic.Pointer[identity.Roster]
	adding  sync.Mutex
	changed broadcast.Signal
	pages   *pagecache.Cache
	forks   identity.Forks // already logged
}

// newest returns the newest roster, or ROSTER_INVALID if there is none.
func (r *rosters) newest(ctx context.Context, c *Coordinator) (*identity.Roster, error) {
	if roster := r.current.Load(); roster != nil {
		return roster, nil
	}
	r.adding.Lock()
	defer r.adding.Unlock()
	roster, err := r.load(ctx, c)
	if err == nil && roster == nil {
		err = writ.Errorf(writ.CodeRosterInvalid, "the coordinator has no roster yet").WithHint("make a cluster with `writ init`")
	}
	return roster, err
}

// load loads and verifies the rosters of the ledger; the database itself is not trusted. It returns nil if the ledger
// has no roster. The caller holds adding.
func (r *rosters) load(ctx context.Context, c *Coordinator) (*identity.Roster, error) {
	if roster := r.current.Load(); roster != nil {
		return roster, nil
	}
	// An expired roster is accepted, because it names the signers of its successor.
	roster, err := RosterOf(ctx, c.Ledger, c.Cluster)
	if err != nil {
		return nil, fmt.Errorf("verify the rosters of the ledger: %w", err)
	}
	r.current.Store(roster)
	return roster, nil
}

// RosterOf verifies the chain of rosters in a ledger and returns the newest roster, or nil. If pin is empty, the first
// roster determines the cluster.
func RosterOf(ctx context.Context, l ledger.Rosters, pin writ.ClusterID) (*identity.Roster, error) {
	links, err := l.RosterLinks(ctx, 0)
	if err != nil || len(links) == 0 {
		return nil, err
	}
	text := rosterText(ctx, l)
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

// rosterText returns a function that reads the signed text of a version from a ledger.
func rosterText(ctx context.Context, l ledger.Rosters) func(version int) ([]byte, error) {
	return func(version int) ([]byte, error) { return l.Roster(ctx, version) }
}

// AddRoster verifies the link of the next roster, or the first roster of this coordinator's cluster, stores it and
// wakes the couriers, which send it to the datacenters. A known roster is not an error.
func (c *Coordinator) AddRoster(ctx context.Context, link []byte) (version int, err error) {
	// First without the lock: unauthenticated clients can send texts that are expensive to reject, and only those of
	// signers get further.
	if newest := c.rosters.current.Load(); newest != nil {
		if _, err := c.verifyNext(newest, link); err != nil && c.rosters.current.Load() == newest {
			return 0, err
		}
	}
	c.rosters.adding.Lock()
	defer c.rosters.adding.Unlock()
	previous, err := c.rosters.load(ctx, c)
	if err != nil {
		return 0, err
	}
	next, err := c.verifyNext(previous, link)
	if err != nil {
		return 0, err
	}
	if next == previous {
		return next.Version, nil
	}
	if err := c.Ledger.AddRoster(ctx, next, identity.SignedRoster(link)); err != nil {
		return 0, err
	}
	c.rosters.current.Store(next)
	c.rosters.changed.Wake()
	c.news.Wake() // pages recheck the rights of their readers
	c.endStrangers(previous, next)
	c.Log.InfoContext(ctx, "roster adopted", "version", next.Version, "datacenters", len(next.Datacenters), "expires", next.Expires)
	return next.Version, nil
}

// verifyNext returns the roster of a link that follows previous, which may be nil. If previous already has the link, it
// returns previous.
func (c *Coordinator) verifyNext(previous *identity.Roster, link []byte) (*identity.Roster, error) {
	if previous != nil && previous.Has(link) {
		return previous, nil
	}
	next, err := identity.VerifyRoster(previous, link, c.Now())
	if err != nil {
		return nil, err
	}
	if previous == nil && next.Cluster != c.Cluster {
		return nil, writ.Errorf(writ.CodeWrongCluster, "this coordinator does not accept the first roster of the cluster %s", next.Cluster).
			WithHint("start the coordinator with the cluster's id")
	}
	return next, nil
}

// endStrangers ends the links of supervisors whose key no longer belongs to their datacenter in the next roster.
func (c *Coordinator) endStrangers(previous, next *identity.Roster) {
	if previous == nil {
		return
	}
	for _, s := range c.links.Sessions() {
		was, is := previous.Datacenter(s.Hello.Datacenter), next.Datacenter(s.Hello.Datacenter)
		if was != nil && (is == nil || !is.SupervisorKey.Equal(was.SupervisorKey)) {
			s.End(fmt.Errorf("roster %d gives the datacenter to another key", next.Version))
		}
	}
}

// rosterFrame is the size of a list of rosters, in bytes, after which no roster is added. With the largest roster at
// its end and a third more for base64, the list fits into a frame of a link.
const rosterFrame = 32 << 10

// rostersAfter returns the links that lead from a version towards the newest roster, for one frame.
func (c *Coordinator) rostersAfter(ctx context.Context, version int) (link.Rosters, error) {
	newest, err := c.rosters.newest(ctx, c)
	if err != nil {
		return link.Rosters{}, err
	}
	links, err := newest.PathWithin(version, rosterFrame, rosterText(ctx, c.Ledger))
	return link.Rosters{Signed: links}, err
}

// pushRosters sends a datacenter its missing roster versions and returns the version that it then has.
func (c *Coordinator) pushRosters(ctx context.Context, s *link.Session, have int) (int, error) {
	for {
		lacking, err := c.rostersAfter(ctx, have)
		if err != nil || len(lacking.Signed) == 0 {
			return have, err
		}
		var now link.RosterVersion
		if err := s.Request(ctx, link.VerbRoster, lacking, &now, nil); err != nil {
			return have, err
		}
		if now.Version <= have {
			return have, writ.Errorf(writ.CodeRosterInvalid, "the datacenter stays at version %d of the roster", now.Version)
		}
		have = now.Version
	}
}

// authenticate verifies that a supervisor has the key of its datacenter in the roster.
func (c *Coordinator) authenticate(ctx context.Context, hello link.Hello, nonce []byte) error {
	roster, err := c.rosters.newest(ctx, c)
	if err != nil {
		return err
	}
	d := roster.Datacenter(hello.Datacenter)
	if d == nil {
		return writ.Errorf(writ.CodeDatacenterUnknown, "the roster has no datacenter %s", hello.Datacenter).WithHint("a root operator adds it with `writ dc add`")
	}
	for _, address := range c.addresses() {
		if ed25519.Verify(d.SupervisorKey, identity.LinkHelloText(nonce, address, hello.Datacenter, hello.Journal), hello.Signature) {
			return nil
		}
	}
	return writ.Errorf(writ.CodeSignatureInvalid, "the hello is not signed by the key of the datacenter %s for the address %s", d.Name, c.PublicURL).
		WithHint("the supervisor must dial exactly this address, and have the key that the roster names")
}

// addresses lists every spelling of this coordinator's addresses that a supervisor or a person may have signed. A
// coordinator with TLS accepts no address without TLS, even if the roster still has one: another user who listens there
// now, on a person's machine, could relay that person's login.
func (c *Coordinator) addresses() []string {
	var all []string
	known := append([]string{c.PublicURL}, c.OtherURLs...)
	if roster := c.rosters.current.Load(); roster != nil && c.Self != nil {
		if self := roster.Coordinator(c.Self.ID); self != nil {
			known = append(known, self.URLs...)
		}
	}
	for _, address := range known {
		if c.TLS != nil && !strings.HasPrefix(address, "https:") {
			continue
		}
		address = strings.TrimSuffix(address, "/")
		spellings := []string{address}
		if u, err := url.Parse(address); err == nil && reach.Loopback(u.Hostname()) {
			for _, host := range []string{"127.0.0.1", "localhost", "::1"} {
				spellings = append(spellings, u.Scheme+"://"+net.JoinHostPort(host, u.Port()))
			}
		}
		for _, s := range spellings {
			all = append(all, s, s+"/")
		}
	}
	return all
}

// welcome returns the first frame to a supervisor: the roster version and the other coordinators.
func (c *Coordinator) welcome(ctx context.Context, hello link.Hello) (link.Welcome, error) {
	roster, err := c.rosters.newest(ctx, c)
	if err != nil {
		return link.Welcome{}, err
	}
	if hello.Roster > roster.Version {
		if times, say := c.lines.Say("newer roster "+string(hello.Datacenter), time.Now()); say {
			c.Log.WarnContext(ctx, "a datacenter has a newer roster than this coordinator", "dc", hello.Datacenter, "version", hello.Roster,
				"here", roster.Version, "times", times)
		}
	}
	return link.Welcome{Roster: roster.Version, Coordinators: c.Coordinators}, nil
}
