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
	"writ/internal/sleep"
)

// lookAtConnections is the interval between checks of the open connections.
const lookAtConnections = 500 * time.Millisecond

// Connections tracks the connections of nodes. A connection that belonged to a member is closed when the membership
// ends. Requests over other connections are refused anyway, because Handler checks each request. The zero value is
// ready to use.
type Connections struct {
	mu   sync.Mutex
	open map[*tls.Conn]bool // value: whether it belonged to a member at the last check
}

// Note is the ConnState hook of the server.
func (c *Connections) Note(conn net.Conn, state http.ConnState) {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateActive: // the handshake is done and the certificate known
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

// Watch closes the connections of nodes that are no longer members, within a second, until ctx ends.
func (c *Connections) Watch(ctx context.Context, members Members) {
	sleep.Every(ctx, lookAtConnections, func(context.Context) { c.Look(members) })
}

// Look closes the connections of nodes that were members at the last check and are no longer members.
func (c *Connections) Look(members Members) {
	c.mu.Lock()
	open := maps.Clone(c.open)
	c.mu.Unlock()
	approved := make(map[string]bool) // by key: a node has several connections
	// The loop does not hold mu, which every request needs: unknown clients can open any number of connections.
	for conn, before := range open {
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
			_ = conn.NetConn().Close() // without a TLS close message, which could block on the peer
		}
		if before != is {
			c.remember(conn, is)
		}
	}
}

// remember stores whether an open connection belongs to a member.
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
