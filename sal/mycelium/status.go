package mycelium

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
)

// Status is the state of the host in the overlay.
type Status struct {
	Address netip.Addr   `json:"address"`
	Subnet  netip.Prefix `json:"subnet"`
	Running bool         `json:"running"` // a daemon answers
	// Connected means that packets can leave this host: a peer is alive.
	Connected bool    `json:"connected"`
	Detail    string  `json:"detail"` // a sentence for people
	Peers     []Peer  `json:"peers,omitempty"`
	Routes    []Route `json:"routes,omitempty"`
}

// Status asks the daemon for its state. If the daemon does not answer, Detail contains the reason. Status returns an
// error only if the node's key cannot be loaded.
func (n *Node) Status(ctx context.Context) (Status, error) {
	address, err := n.Address(ctx)
	if err != nil {
		return Status{}, err
	}
	s := Status{Address: address, Subnet: Subnet(address)}
	if s.Detail = n.faultText(); s.Detail != "" {
		return s, nil
	}
	c := n.Client()
	info, err := c.Info(ctx)
	switch {
	case err != nil:
		s.Detail = fmt.Sprintf("the daemon does not answer at %s: %v", c.URL, err)
		return s, nil
	case info.Subnet != s.Subnet:
		s.Detail = fmt.Sprintf("another daemon listens at %s, with the addresses %s", c.URL, info.Subnet)
		return s, nil
	}
	s.Running = true
	if s.Peers, err = c.Peers(ctx); err == nil {
		s.Routes, err = c.Routes(ctx)
	}
	if err != nil {
		s.Detail = err.Error()
		return s, nil
	}
	alive := 0
	for _, p := range s.Peers {
		if p.Alive() {
			alive++
		}
	}
	s.Connected = alive > 0
	s.Detail = fmt.Sprintf("%d of %d peers alive, %d routes", alive, len(s.Peers), len(s.Routes))
	if !s.Connected {
		s.Detail = fmt.Sprintf("none of %d peers is alive: networks of this node do not reach other nodes",
			len(s.Peers))
	}
	return s, nil
}

// Detail describes in a few words why no daemon runs, or that mycelium provides the overlay. It sends no request to the
// daemon.
func (n *Node) Detail() string { return cmp.Or(n.faultText(), "overlay by mycelium") }

// faultText returns the reason why no daemon runs, or "" if no fault is known.
func (n *Node) faultText() string {
	if _, err := n.program(); err != nil {
		return "mycelium is not on PATH: networks of this node do not reach other nodes"
	}
	text, _ := n.fault.Load().(string)
	return text
}
