package mycelium

import (
	"cmp"
	"context"
	"slices"

	"writ"
)

// What is told of peers and routes in full: a node of a big overlay has thousands.
const (
	maxPeers  = 20
	maxRoutes = 10
)

// Standing is Status in short, with what is known of the daemon's process.
func (n *Node) Standing(ctx context.Context) (writ.Overlay, error) {
	s, err := n.Status(ctx)
	if err != nil {
		return writ.Overlay{}, err
	}
	o := writ.Overlay{
		Address: s.Address.String(), Subnet: s.Subnet.String(), Running: s.Running, Connected: s.Connected, Detail: s.Detail,
		PeerCount: len(s.Peers), Selected: len(s.Routes),
	}
	if s.Running {
		o.PID, o.Since, o.Version = n.about(ctx)
	}
	for _, p := range s.Peers {
		if p.Alive() {
			o.Alive++
		}
		o.Sent, o.Received = o.Sent+p.Sent, o.Received+p.Received
		o.Peers = append(o.Peers, writ.OverlayPeer{Endpoint: p.Endpoint, Type: p.Type, State: p.State, Sent: p.Sent, Received: p.Received})
	}
	slices.SortFunc(o.Peers, func(a, b writ.OverlayPeer) int { // "alive" is also the first by name
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	o.Peers = o.Peers[:min(len(o.Peers), maxPeers)]
	for _, r := range s.Routes {
		o.Routes = append(o.Routes, writ.OverlayRoute{Subnet: r.Subnet.String(), NextHop: r.NextHop, Metric: r.Metric})
	}
	slices.SortFunc(o.Routes, func(a, b writ.OverlayRoute) int { // as unsigned numbers, no way is the farthest
		return cmp.Or(cmp.Compare(uint64(a.Metric), uint64(b.Metric)), cmp.Compare(a.Subnet, b.Subnet))
	})
	o.Routes = o.Routes[:min(len(o.Routes), maxRoutes)]
	return o, nil
}
