package supervisor

import (
	"context"
	"crypto/ed25519"
	"maps"
	"slices"
	"strings"
	"sync"

	"writ/identity"
	"writ/supervisor/link"
)

// linked is a running or ended link to a coordinator.
type linked struct {
	keys string // coordinator keys that the roster allowed at its address
	end  context.CancelFunc
	done chan struct{} // closed when the link has ended
}

// keepLinks runs a link to each coordinator until ctx ends. The roster adds and removes coordinators. A link is
// verified when it starts, so it is restarted when the roster changes the keys at its address.
func (s *Supervisor) keepLinks(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	// including ended links: the next link to an address waits until the previous one has ended
	links := make(map[string]*linked)
	open := make(map[string]bool)
	asks := newAsks(s.Now)
	for {
		wanted := s.coordinators()
		for url := range open {
			gone := !slices.Contains(wanted, url)
			if gone {
				s.Log.Info("coordinator removed from the roster", "coordinator", url)
			}
			if gone || links[url].keys != keysAt(s.rosters.Current(), url) {
				links[url].end()
				delete(open, url)
				s.dialers.set(url, nil)
			}
		}
		for _, url := range wanted {
			if open[url] {
				continue
			}
			open[url] = true
			before := links[url]
			linking, end := context.WithCancel(ctx)
			l := &linked{keys: keysAt(s.rosters.Current(), url), end: end, done: make(chan struct{})}
			links[url] = l
			dialer := s.dialer(url, asks)
			s.dialers.set(url, dialer)
			running.Go(func() {
				defer close(l.done)
				if before != nil {
					<-before.done
					if s.DialWith != nil {
						s.DialWith.CloseIdleConnections() // verified by an earlier roster
					}
				}
				_ = dialer.Run(linking) // always nil
			})
		}
		select {
		case <-ctx.Done():
			for _, l := range links {
				l.end()
			}
			return nil
		case <-s.relink:
		}
	}
}

// dialers holds the dialers of running links, by coordinator address. The zero value is ready to use.
type dialers struct {
	mu  sync.Mutex
	all map[string]*link.Dialer
}

// set stores the dialer of an address. A nil dialer removes the address.
func (d *dialers) set(url string, dialer *link.Dialer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = make(map[string]*link.Dialer)
	}
	if d.all[url] = dialer; dialer == nil {
		delete(d.all, url)
	}
}

// list returns a copy of the current dialers.
func (d *dialers) list() map[string]*link.Dialer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.all)
}

// keysAt returns the coordinator keys that a roster allows at an address: the key of the coordinator at that address
// or, if the roster does not list the address, the keys of all coordinators.
func keysAt(r *identity.Roster, address string) string {
	if c := r.Coordinators.At(address); c != nil {
		return c.ID + string(c.Key)
	}
	var keys []string
	for _, c := range r.Coordinators {
		keys = append(keys, c.ID+string(c.Key))
	}
	slices.Sort(keys)
	return strings.Join(keys, "")
}

// dialer returns the supervisor's end of a link to a coordinator.
func (s *Supervisor) dialer(url string, asks *asks) *link.Dialer {
	feed := s.Journal.Feed(url)
	d := &link.Dialer{
		URL: url, Hello: func() link.Hello { return s.hello(feed.ID()) }, Sign: s.signHello, Events: feed,
		Handle: asks.of(url, s.handle), Fault: s.faults.text, HTTP: s.DialWith, Log: s.Log,
	}
	d.Welcomed = func(ctx context.Context, w link.Welcome) { s.catchUp(ctx, d, w.Roster) }
	return d
}

// coordinators returns the addresses to link to: the configured ones and, if the roster lists all of these, an HTTPS
// address of every other coordinator of the roster. A configured address that is in no roster, such as a local or
// proxied one, may belong to any coordinator. In that case no other address is added, because two links to the same
// coordinator would end each other. A coordinator that an earlier roster listed was removed: it gets no link even if it
// is configured. A roster without coordinators removes none, because clusters of earlier versions list none.
func (s *Supervisor) coordinators() []string {
	roster := s.rosters.Current()
	var all, known []string
	unclear := false
	for _, address := range s.Coordinators {
		c := roster.Coordinators.At(address)
		switch {
		case c != nil:
			known = append(known, c.ID)
		case len(roster.Coordinators) > 0 && s.rosters.WasCoordinator(address):
			continue
		default:
			unclear = true
		}
		all = append(all, address)
	}
	if unclear {
		return all
	}
	for _, c := range roster.Coordinators {
		encrypted := slices.IndexFunc(c.URLs, func(u string) bool { return strings.HasPrefix(u, "https:") })
		if encrypted >= 0 && !slices.Contains(known, c.ID) {
			all = append(all, c.URLs[encrypted])
		}
	}
	return all
}

// hello returns the first frame of a link: datacenter, version, epoch, roster version and the given journal generation.
func (s *Supervisor) hello(generation string) link.Hello {
	return link.Hello{
		Datacenter: s.Datacenter, Journal: generation, Version: s.Version,
		Verbs: link.ToSupervisor,
		Epoch: s.epoch, Roster: s.rosters.Current().Version,
	}
}

// signHello signs the first frame of a link over the nonce of the coordinator.
func (s *Supervisor) signHello(hello link.Hello, nonce []byte, url string) ([]byte, error) {
	return ed25519.Sign(s.Key, identity.LinkHelloText(nonce, url, hello.Datacenter, hello.Journal)), nil
}

// catchUp fetches the rosters that a coordinator has and the supervisor lacks.
func (s *Supervisor) catchUp(ctx context.Context, coordinator *link.Dialer, version int) {
	for have := s.rosters.Current().Version; have < version; {
		var newer link.Rosters
		err := coordinator.Request(ctx, link.VerbRoster, link.RosterVersion{Version: have}, &newer)
		now := have
		if err == nil {
			now, err = s.AdoptRosters(ctx, newer.Signed)
		}
		if err != nil && ctx.Err() == nil {
			s.warnings.Refused("", "adopt newer rosters", err, "have", have, "coordinator", version)
		}
		if err != nil || now <= have {
			return
		}
		have = now
	}
}
