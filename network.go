package writ

import "time"

// NodeNetwork is the state of a node's networks.
type NodeNetwork struct {
	Overlay *Overlay `json:"overlay,omitempty"` // nil without an overlay
	// Denied and Spoofed count the packets dropped at all current ports, each since the port was created.
	Denied  int64       `json:"denied"`  // from outside a network and not permitted
	Spoofed int64       `json:"spoofed"` // with a source address that the sender does not own
	Ports   []PortDrops `json:"ports,omitempty"`
}

// PortDrops counts the packets dropped at one port. Lists are sorted by the total, largest first.
type PortDrops struct {
	Owner   string `json:"owner"`   // "PROJECT/machine/web"
	Network string `json:"network"` // its name
	Denied  int64  `json:"denied"`
	Spoofed int64  `json:"spoofed"`
}

// Overlay is a node's part in the overlay network between nodes.
type Overlay struct {
	Address   string         `json:"address"`           // of the node
	Subnet    string         `json:"subnet"`            // a /64 that is routed to the node
	Running   bool           `json:"running"`           // the daemon answers
	Connected bool           `json:"connected"`         // packets can leave the node
	Detail    string         `json:"detail"`            // a sentence
	Version   string         `json:"version,omitempty"` // of the running daemon
	PID       int64          `json:"pid,omitempty"`     // of the running daemon
	Since     time.Time      `json:"since,omitzero"`    // when the daemon started
	PeerCount int            `json:"peer_count"`        // all peers
	Alive     int            `json:"alive"`             // peers that are alive
	Peers     []OverlayPeer  `json:"peers,omitempty"`   // a selection, living peers first
	Sent      int64          `json:"sent_bytes"`        // to all peers
	Received  int64          `json:"received_bytes"`    // from all peers
	Selected  int            `json:"selected_routes"`   // number of routes that the daemon has selected
	Routes    []OverlayRoute `json:"routes,omitempty"`  // a selection, nearest first
}

// OverlayPeer is another node of the overlay that a node is connected to or tries to reach.
type OverlayPeer struct {
	Endpoint string `json:"endpoint"` // "tcp://192.0.2.7:9651"
	Type     string `json:"type"`     // static, inbound, …, as the daemon reports it
	State    string `json:"state"`    // alive, connecting, dead
	Sent     int64  `json:"sent_bytes"`
	Received int64  `json:"received_bytes"`
}

// OverlayRoute is a route to a subnet.
type OverlayRoute struct {
	Subnet  string `json:"subnet"`
	NextHop string `json:"next_hop"`
	Metric  int64  `json:"metric"` // lower is nearer; -1 if the subnet is unreachable
}
