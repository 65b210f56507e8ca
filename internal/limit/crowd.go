package limit

import (
	"net"
	"slices"
	"sync"
)

// Crowd limits the open connections of a listener. If it is full, a new connection takes the place of the oldest
// connection of the network with the most connections. Networks with few connections therefore always find a place. If
// no other network has more connections than the new connection's network would have, the new connection is closed.
//
// Do not use it for servers behind a proxy, because all clients of the proxy are one network. See Shares.
type Crowd struct {
	Size int

	mu   sync.Mutex
	open []*crowdConn // in order of arrival
}

// Listener returns a listener whose connections each hold a place while they are open.
func (c *Crowd) Listener(l net.Listener) net.Listener { return &listener{l, c.enter} }

// enter adds a connection if there is a place for it.
func (c *Crowd) enter(conn net.Conn) (leave func(), ok bool) {
	entered := &crowdConn{conn, NetworkOf(conn.RemoteAddr().String())}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= c.Size {
		last := c.displacedBy(entered.network)
		if last == nil {
			return nil, false
		}
		c.remove(last)
		_ = last.Close()
	}
	c.open = append(c.open, entered)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.remove(entered)
	}, true
}

// displacedBy returns the connection to close so that a new connection of a network finds a place, or nil.
func (c *Crowd) displacedBy(network string) *crowdConn {
	count := make(map[string]int)
	for _, other := range c.open {
		count[other.network]++
	}
	most := count[network] + 1
	var last *crowdConn
	for _, other := range c.open {
		if count[other.network] > most {
			last, most = other, count[other.network]
		}
	}
	return last
}

func (c *Crowd) remove(conn *crowdConn) {
	c.open = slices.DeleteFunc(c.open, func(other *crowdConn) bool { return other == conn })
}

type crowdConn struct {
	net.Conn
	network string
}
