package mycelium

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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

// Standing is a short form of Status with details about the daemon's process. The request to a slow daemon continues
// for up to Timeout. Meanwhile, Standing returns the last answer and its age.
func (n *Node) Standing(ctx context.Context) (writ.Overlay, error) {
	address, err := n.Address(ctx)
	if err != nil {
		return writ.Overlay{}, err
	}
	patience := time.NewTimer(answerWithin)
	defer patience.Stop()
	answered := n.beginAsking(ctx)
	select {
	case <-answered:
	case <-patience.C:
	case <-ctx.Done():
	}
	why := n.faultText()
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.last
	o.Peers, o.Routes = slices.Clone(o.Peers), slices.Clone(o.Routes)
	o.Address, o.Subnet = address.String(), Subnet(address).String()
	switch {
	case n.asking != answered && !n.silent:
		return o, nil
	case why != "":
		return writ.Overlay{Address: o.Address, Subnet: o.Subnet, Detail: why}, nil
	case n.lastAt.IsZero():
		o.Detail = "the daemon has not answered yet; the request continues"
	default:
		o.Detail = fmt.Sprintf("the daemon does not answer now; %s ago: %s", time.Since(n.lastAt).Round(time.Second),
			o.Detail)
	}
	return o, nil
}

// beginAsking sends a request to the daemon, unless one is pending, and returns a channel that is closed when it is
// answered.
func (n *Node) beginAsking(ctx context.Context) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.asking != nil {
		return n.asking
	}
	done := make(chan struct{})
	n.asking = done
	go func() {
		began := time.Now()
		limited, stop := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
		defer stop()
		o, err := n.currentState(limited)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.silent = err != nil || limited.Err() != nil || time.Since(began) >= Timeout
		if !n.silent {
			n.last, n.lastAt = o, time.Now()
		}
		n.asking = nil
		close(done)
	}()
	return done
}

// currentState is Standing without its time limit.
func (n *Node) currentState(ctx context.Context) (writ.Overlay, error) {
	s, err := n.Status(ctx)
	if err != nil {
		return writ.Overlay{}, err
	}
	o := writ.Overlay{
		Address: s.Address.String(), Subnet: s.Subnet.String(), Running: s.Running, Connected: s.Connected,
		Detail:    s.Detail,
		PeerCount: len(s.Peers), Selected: len(s.Routes),
	}
	if s.Running {
		o.PID, o.Since, o.Version = n.processInfo(ctx)
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
	return o, nil
}
