package supervisor

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"writ/identity"
	"writ/supervisor/link"
)

// linked is a link that is kept.
type linked struct {
	keys string // of who may be at its address by the roster
	end  context.CancelFunc
	done chan struct{} // closed when it has ended
}

// keepLinks keeps a link to each coordinator until ctx ends. Coordinators come and go with the roster. A link was verified when it began: one at whose
// address the roster has somebody else now is begun anew.
func (s *Supervisor) keepLinks(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	links := make(map[string]*linked) // also those that have ended: the next one to the same address waits for that
	open := make(map[string]bool)
	asks := newAsks(s.Now)
	for {
		wanted := s.coordinators()
		for url := range open {
			gone := !slices.Contains(wanted, url)
			if gone {
				s.Log.Info("coordinator removed from the roster", "coordinator", url)
			}
			if gone || links[url].keys != keysAt(s.roster.Load(), url) {
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
			l := &linked{keys: keysAt(s.roster.Load(), url), end: end, done: make(chan struct{})}
			links[url] = l
			dialer := s.dialer(url, asks)
			s.dialers.set(url, dialer)
			running.Go(func() {
				defer close(l.done)
				if before != nil {
					<-before.done
					if s.DialWith != nil {
						s.DialWith.CloseIdleConnections() // which were verified by an earlier roster
					}
				}
				_ = dialer.Run(linking) // it returns nil
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

// dialers are those of the links that are kept, by the addresses of their coordinators. The zero value is ready.
type dialers struct {
	mu  sync.Mutex
	all map[string]*link.Dialer
}

// set notes the dialer of an address, nil if no link is kept there any more.
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

// list returns those of now.
func (d *dialers) list() map[string]*link.Dialer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.all)
}

// keysAt returns the keys that a roster has for an address: that of its coordinator or, if it has none there, of all coordinators.
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

// dialer makes the supervisor's end of the link to a coordinator.
func (s *Supervisor) dialer(url string, asks *asks) *link.Dialer {
	feed := s.Journal.Feed(url)
	d := &link.Dialer{
		URL: url, Hello: func() link.Hello { return s.hello(feed.ID()) }, Sign: s.signHello, Events: feed,
		Handle: asks.of(url, s.handle), Fault: s.faults.text, HTTP: s.DialWith, Log: s.Log,
	}
	d.Welcomed = func(ctx context.Context, w link.Welcome) { s.catchUp(ctx, d, w.Roster) }
	return d
}

// coordinators returns the addresses of those to keep a link to: the ones that the supervisor was told and, if the roster has all of these, every other
// coordinator of the roster. One at an address that no roster ever had, on this machine or behind a proxy, may be any of them, and two links to
// one coordinator would end each other. One that an earlier roster had was removed, and gets no link, also if the operator named it; a roster without any removes
// none, because clusters of earlier versions name none.
func (s *Supervisor) coordinators() []string {
	roster := s.roster.Load()
	var all, known []string
	unclear := false
	for _, address := range s.Coordinators {
		c := roster.Coordinators.At(address)
		switch {
		case c != nil:
			known = append(known, c.ID)
		case len(roster.Coordinators) > 0 && s.former.has(address):
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

// formerAddresses are all that a coordinator has or had in a roster. The zero value is ready.
type formerAddresses struct {
	mu  sync.Mutex
	all map[string]bool
}

func (f *formerAddresses) note(r *identity.Roster) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = make(map[string]bool)
	}
	for _, c := range r.Coordinators {
		for _, url := range c.URLs {
			f.all[url] = true
		}
	}
}

func (f *formerAddresses) has(address string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[identity.CoordinatorURL(address)]
}
