package mycelium

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"writ"
)

// Maximum numbers of peers and routes in a report: a node of a large overlay has thousands.
const (
	maxPeers  = 20
	maxRoutes = 10
)

// answerWithin limits how long Standing waits for the daemon, which another client may block for much longer.
const answerWithin = 3 * time.Second

// Standing returns a short form of Status, with details about the daemon's process. The request to a slow daemon
// continues for up to Timeout. Meanwhile, Standing returns the last answer and its age.
func (n *Node) Standing(ctx context.Context) (writ.Overlay, error) {
	address, err := n.Address(ctx)
	if err != nil {
		return writ.Overlay{}, err
	}
	patience := time.NewTimer(answerWithin)
	defer patience.Stop()
	answered := n.inquiry.begin(ctx, func(ctx context.Context) (writ.Overlay, error) {
		s, err := n.Status(ctx)
		o := overlayOf(s)
		if s.Running {
			o.PID, o.Since, o.Version = daemonInfo(ctx, n.name(), n.keyPath(), &n.versions)
		}
		if o.PID != 0 && o.Connected {
			requirePresence(&o, n.Netns, address)
		}
		return o, err
	})
	select {
	case <-answered:
	case <-patience.C:
	case <-ctx.Done():
	}
	why := n.faultText()
	o, at, current := n.inquiry.answer(answered)
	o.Address, o.Subnet = address.String(), Subnet(address).String()
	switch {
	case current:
		return o, nil
	case why != "":
		return writ.Overlay{Address: o.Address, Subnet: o.Subnet, Detail: why}, nil
	case at.IsZero():
		o.Detail = "the daemon has not answered yet; the request continues"
	default:
		o.Detail = fmt.Sprintf("the daemon does not answer now; %s ago: %s", time.Since(at).Round(time.Second), o.Detail)
	}
	return o, nil
}

// overlayOf converts a status to a report.
func overlayOf(s Status) writ.Overlay {
	o := writ.Overlay{
		Address: s.Address.String(), Subnet: s.Subnet.String(), Running: s.Running, Connected: s.Connected,
		Detail:    s.Detail,
		PeerCount: len(s.Peers), Selected: len(s.Routes),
	}
	for _, p := range s.Peers {
		if p.Alive() {
			o.Alive++
		}
		o.Sent, o.Received = o.Sent+p.Sent, o.Received+p.Received
		o.Peers = append(o.Peers,
			writ.OverlayPeer{Endpoint: p.Endpoint, Type: p.Type, State: p.State, Sent: p.Sent, Received: p.Received})
	}
	slices.SortFunc(o.Peers, func(a, b writ.OverlayPeer) int { // the state "alive" is first in the alphabet
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	o.Peers = o.Peers[:min(len(o.Peers), maxPeers)]
	for _, r := range s.Routes {
		o.Routes = append(o.Routes, writ.OverlayRoute{Subnet: r.Subnet.String(), NextHop: r.NextHop, Metric: r.Metric})
	}
	slices.SortFunc(o.Routes, func(a, b writ.OverlayRoute) int { // as an unsigned number, -1 is the farthest
		return cmp.Or(cmp.Compare(uint64(a.Metric), uint64(b.Metric)), cmp.Compare(a.Subnet, b.Subnet))
	})
	o.Routes = o.Routes[:min(len(o.Routes), maxRoutes)]
	return o
}

// inquiry asks the daemon for its state, one request at a time, and keeps the last answer.
type inquiry struct {
	mu      sync.Mutex
	pending chan struct{} // closed when the current request is answered; nil without a request
	last    writ.Overlay
	lastAt  time.Time
	silent  bool // the last request was not answered
}

// begin calls `ask` in the background, unless a request is pending, and returns a channel that is closed when the
// request is answered.
func (q *inquiry) begin(ctx context.Context, ask func(context.Context) (writ.Overlay, error)) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending != nil {
		return q.pending
	}
	done := make(chan struct{})
	q.pending = done
	go func() {
		began := time.Now()
		limited, stop := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
		defer stop()
		o, err := ask(limited)
		q.mu.Lock()
		defer q.mu.Unlock()
		q.silent = err != nil || limited.Err() != nil || time.Since(began) >= Timeout
		if !q.silent {
			q.last, q.lastAt = o, time.Now()
		}
		q.pending = nil
		close(done)
	}()
	return done
}

// answer returns a copy of the last answer and its time. current reports whether this is the answer to the request for
// which begin returned the channel `begun`, or to a later request.
func (q *inquiry) answer(begun <-chan struct{}) (o writ.Overlay, at time.Time, current bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	o = q.last
	o.Peers, o.Routes = slices.Clone(o.Peers), slices.Clone(o.Routes)
	return o, q.lastAt, q.pending != begun && !q.silent
}
