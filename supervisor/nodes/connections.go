package nodes

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"writ"
	"writ/identity/pki"
)

// lookAtConnections is the pause between two looks whose connections are open.
const lookAtConnections = 500 * time.Millisecond

// Connections are those over which nodes have asked. One that a node opened while it was a member ends with its membership. What the
// node asks for over another one is refused anyway; the Handler looks at each request. The zero value is ready.
type Connections struct {
	mu   sync.Mutex
	open map[*tls.Conn]bool // whether it was a member's at the last look
}

// Note is the ConnState of the server that has the connections.
func (c *Connections) Note(conn net.Conn, state http.ConnState) {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateActive: // it has shown its certificate
		if c.open == nil {
			c.open = make(map[*tls.Conn]bool)
		}
		if _, known := c.open[secure]; !known {
			c.open[secure] = false
		}
	case http.StateClosed, http.StateHijacked:
		delete(c.open, secure)
	}
}

// Watch closes the connections of nodes that are members no more, within a second, until ctx ends.
func (c *Connections) Watch(ctx context.Context, members Members) {
	tick := time.NewTicker(lookAtConnections)
	defer tick.Stop()
	for {
		c.Look(members)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Look closes the connections of nodes that were members at the last look, and are no more.
func (c *Connections) Look(members Members) {
	c.mu.Lock()
	open := maps.Clone(c.open)
	c.mu.Unlock()
	approved := make(map[string]bool) // by key: a node has several connections
	for conn, before := range open {  // without the lock, for which each request waits: strangers can open any number
		key := pki.BareKey(conn.ConnectionState().PeerCertificates)
		if key == nil {
			continue
		}
		is, asked := approved[string(key)]
		if !asked {
			is = isMember(members, key)
			approved[string(key)] = is
		}
		if before && !is {
			_ = conn.NetConn().Close() // without a farewell, which could wait for the peer
		}
		if before != is {
			c.remember(conn, is)
		}
	}
}

// remember keeps whether a connection that is still open is a member's.
func (c *Connections) remember(conn *tls.Conn, is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, still := c.open[conn]; still {
		c.open[conn] = is
	}
}

func isMember(members Members, key ed25519.PublicKey) bool {
	n := members.Member(key)
	return n != nil && n.Admission == writ.AdmissionApproved
}
