// Package pgproxy counts and cuts the traffic between a test and a PostgreSQL server.
package pgproxy

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy forwards connections to a server. A client and the server exchange bytes in the clear.
type Proxy struct {
	address  string // of the server
	listener net.Listener
	serving  sync.WaitGroup
	trips    atomic.Int64
	cut      atomic.Int64 // round trips until the cut, 0 for none
	pass     atomic.Bool
}

// New starts a proxy to the server of a postgres:// address, and stops it when the test ends. It returns the proxy and
// the address of the same database behind the proxy.
func New(t testing.TB, address string) (*Proxy, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{address: u.Host}
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	p.serving.Go(p.serve)
	t.Cleanup(func() {
		p.listener.Close()
		p.serving.Wait()
	})
	u.Host = p.listener.Addr().String()
	return p, u.String()
}

// RoundTrips returns how often a client has sent requests and waited for their results, on all connections.
func (p *Proxy) RoundTrips() int { return int(p.trips.Load()) }

// Cut closes the connection of the n-th round trip from now, before the client gets a result. If pass is true, the
// server gets the requests.
func (p *Proxy) Cut(n int, pass bool) {
	p.pass.Store(pass)
	p.cut.Store(int64(n))
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.address)
		if err != nil {
			client.Close()
			continue
		}
		p.serving.Go(func() {
			defer client.Close()
			_, _ = io.Copy(client, server) // an error ends the connection
		})
		p.serving.Go(func() {
			defer client.Close()
			defer server.Close()
			p.forward(client, server)
		})
	}
}

// forward sends the messages of a client to the server. It collects the messages of the extended protocol up to the
// Sync that ends them.
func (p *Proxy) forward(client io.ReadCloser, server io.Writer) {
	var requests []byte
	head := make([]byte, 5) // type and length; the first message of a connection has no type
	for begin := 1; ; begin = 0 {
		if _, err := io.ReadFull(client, head[begin:]); err != nil {
			return
		}
		body := make([]byte, max(binary.BigEndian.Uint32(head[1:]), 4)-4)
		if _, err := io.ReadFull(client, body); err != nil {
			return
		}
		requests = append(append(requests, head[begin:]...), body...)
		kind := byte(0)
		if begin == 0 {
			kind = head[0]
		}
		switch kind {
		case 'P', 'B', 'D', 'E', 'C': // Parse, Bind, Describe, Execute, Close
			continue
		case 'S', 'Q': // Sync, Query
			p.trips.Add(1)
			if p.cut.Load() > 0 && p.cut.Add(-1) == 0 {
				client.Close()
				if p.pass.Load() {
					_, _ = server.Write(requests) // an error ends the connection
				}
				return
			}
		}
		if _, err := server.Write(requests); err != nil {
			return
		}
		requests = nil
	}
}
