package supervisor

import (
	"context"
	"slices"
	"strings"
	"sync"

	"writ/identity"
	"writ/supervisor/link"
)

// keepLinks keeps a link to each coordinator until ctx ends. Coordinators come and go with the roster.
func (s *Supervisor) keepLinks(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	open := make(map[string]context.CancelFunc)
	asks := newAsks()
	for {
		wanted := s.coordinators()
		for url, end := range open {
			if !slices.Contains(wanted, url) {
				s.Log.Info("the roster has this coordinator no more", "coordinator", url)
				end()
				delete(open, url)
			}
		}
		for _, url := range wanted {
			if open[url] == nil {
				linked, end := context.WithCancel(ctx)
				open[url] = end
				dialer := s.dialer(url, asks)
				running.Go(func() { _ = dialer.Run(linked) }) // it returns nil
			}
		}
		select {
		case <-ctx.Done():
			for _, end := range open {
				end()
			}
			return nil
		case <-s.relink:
		}
	}
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
// coordinator of the roster. One at an address that the roster does not have, on this machine or behind a proxy, may be any of them, and two links to
// one coordinator would end each other.
func (s *Supervisor) coordinators() []string {
	all := slices.Clone(s.Coordinators)
	roster := s.roster.Load()
	var known []string
	for _, address := range all {
		c := coordinatorAt(roster, address)
		if c == nil {
			return all
		}
		known = append(known, c.ID)
	}
	for _, c := range roster.Coordinators {
		encrypted := slices.IndexFunc(c.URLs, func(u string) bool { return strings.HasPrefix(u, "https:") })
		if encrypted >= 0 && !slices.Contains(known, c.ID) {
			all = append(all, c.URLs[encrypted])
		}
	}
	return all
}

// coordinatorAt returns the coordinator that the roster has at an address, nil if it has none there.
func coordinatorAt(r *identity.Roster, address string) *identity.Coordinator {
	return r.CoordinatorAt(strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(address), "/"), ":443"))
}
