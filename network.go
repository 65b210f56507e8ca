package writ

import "time"

// NodeNetwork is how the networks of a node do.
type NodeNetwork struct {
	Overlay *Overlay `json:"overlay,omitempty"` // nil if the node has none
	// Denied and Spoofed count the packets that were dropped at all ports there are, since each was made.
	Denied  int64       `json:"denied"`  // from outside of a network, and not allowed there
	Spoofed int64       `json:"spoofed"` // under an address that is not the sender's own
	Ports   []PortDrops `json:"ports,omitempty"`
}

// PortDrops are the packets that were dropped at one port, most of all ports first.
type PortDrops struct {
	Owner   string `json:"owner"`   // "PROJECT/machine/web"
	Network string `json:"network"` // its name
	Denied  int64  `json:"denied"`
	Spoofed int64  `json:"spoofed"`
}

// Overlay is a node's place in the network that leads from node to node.
type Overlay struct {
	Address   string         `json:"address"`           // of the node
	Subnet    string         `json:"subnet"`            // a /64: what is led to the node
	Running   bool           `json:"running"`           // its daemon answers
	Connected bool           `json:"connected"`         // packets can leave the node
	Detail    string         `json:"detail"`            // a sentence
	Version   string         `json:"version,omitempty"` // of the daemon that runs
	PID       int64          `json:"pid,omitempty"`     // of that
	Since     time.Time      `json:"since,omitzero"`    // when it was started
	PeerCount int            `json:"peer_count"`        // of all peers
	Alive     int            `json:"alive"`             // of those
	Peers     []OverlayPeer  `json:"peers,omitempty"`   // some of them, those that are alive first
	Sent      int64          `json:"sent_bytes"`        // to all peers
	Received  int64          `json:"received_bytes"`    // from all peers
	Selected  int            `json:"selected_routes"`   // how many routes the daemon has chosen
	Routes    []OverlayRoute `json:"routes,omitempty"`  // some of them, the nearest first
}

// OverlayPeer is another node of the overlay, to which a node is connected or tries to be.
type OverlayPeer struct {
	Endpoint string `json:"endpoint"` // "tcp://192.0.2.7:9651"
	Type     string `json:"type"`     // static, inbound, …, as the daemon says
	State    string `json:"state"`    // alive, connecting, dead
	Sent     int64  `json:"sent_bytes"`
	Received int64  `json:"received_bytes"`
}

// OverlayRoute is a way to a range of addresses.
type OverlayRoute struct {
	Subnet  string `json:"subnet"`
	NextHop string `json:"next_hop"`
	Metric  int64  `json:"metric"` // less is nearer; -1 if there is no way any more
}
