// Package links connects a supervisor to the coordinators of its roster. It creates and signs the hello of each link,
// and limits the requests of each coordinator. The supervisor answers the requests.
package links

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/internal/wake"
	"writ/supervisor/journal"
	"writ/supervisor/link"
	"writ/supervisor/ratelog"
	"writ/supervisor/rosters"
)

// Config holds the settings and dependencies of Links. Fields are required unless their comment makes them optional.
type Config struct {
	Datacenter writ.DatacenterID
	Key        ed25519.PrivateKey // of the supervisor
	Epoch      int64
	Version    string // program version
	// Coordinators lists the configured addresses, in addition to the addresses in the roster.
	Coordinators []string
	Journal      *journal.Journal // source of the events
	Rosters      *rosters.Keeper
	Answer       link.Handler     // answers the requests of coordinators
	Fault        func() string    // why the datacenter cannot continue, or ""
	HTTP         *link.HTTPClient // connects to coordinators and verifies them; nil means the defaults of the system
	Now          func() time.Time // the clock that sets acceptance times
	Warnings     *ratelog.Log
	Log          *slog.Logger
}

// Links maintains a link to each coordinator. Create it with New.
type Links struct {
	Config
	changed wake.Signal // signals that the coordinators of the roster may have changed
	asks    *asks

	mu sync.Mutex
	// all holds the links by address, including ended links: the next link to an address waits until the previous link
	// has ended.
	all map[string]*linked
}

// linked is a running or ended link to a coordinator.
type linked struct {
	dialer *link.Dialer
	keys   string             // coordinator keys that the roster allowed at its address
	end    context.CancelFunc // nil after it was called
	done   chan struct{}      // closed when the link has ended
}

// New returns links that are not connected yet.
func New(config Config) *Links {
	return &Links{
		Config: config, changed: wake.New(), asks: newAsks(config.Now), all: make(map[string]*linked),
	}
}

// Update starts and ends links after a new roster.
func (l *Links) Update() {
	l.changed.Raise()
}

// Run runs a link to each coordinator until ctx ends. The roster adds and removes coordinators. A link is verified when
// it starts, so it is restarted when the roster changes the keys at its address.
func (l *Links) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		wanted := l.Addresses()
		l.endOutdated(wanted)
		for _, url := range wanted {
			if before := l.link(url); before == nil || before.end == nil {
				l.start(ctx, &running, url, before)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.changed:
		}
	}
}

func (l *Links) link(url string) *linked {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[url]
}

// endOutdated ends the links to removed coordinators, and to addresses whose keys have changed.
func (l *Links) endOutdated(wanted []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for url, known := range l.all {
		if known.end == nil {
			continue
		}
		gone := !slices.Contains(wanted, url)
		if gone {
			l.Log.Info("coordinator removed from the roster", "coordinator", url)
		}
		if gone || known.keys != keysAt(l.Rosters.Current(), url) {
			known.end()
			known.end = nil
		}
	}
}

// start starts a link after the previous link to the same address, if any, has ended.
func (l *Links) start(ctx context.Context, running *sync.WaitGroup, url string, before *linked) {
	linking, end := context.WithCancel(ctx)
	next := &linked{
		dialer: l.dialer(url), keys: keysAt(l.Rosters.Current(), url), end: end, done: make(chan struct{}),
	}
	l.mu.Lock()
	l.all[url] = next
	l.mu.Unlock()
	running.Go(func() {
		defer close(next.done)
		if before != nil {
			<-before.done
			if l.HTTP != nil {
				l.HTTP.CloseIdleConnections() // these connections were verified by an earlier roster
			}
		}
		_ = next.dialer.Run(linking) // always nil
	})
}

// Connected reports for the address of each link whether it is connected.
func (l *Links) Connected() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]bool, len(l.all))
	for url, known := range l.all {
		if known.end != nil {
			all[url] = known.dialer.Connected()
		}
	}
	return all
}
