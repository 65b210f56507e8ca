package nodes_test

import (
	"bufio"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"writ"
	"writ/identity/pki"
	"writ/supervisor/nodes"
)

// members holds nodes by key.
type members map[string]*atomic.Pointer[writ.Node]

func (m members) Member(key ed25519.PublicKey) *writ.Node {
	if n := m[string(key)]; n != nil {
		return n.Load()
	}
	return nil
}

func (members) Gone(node writ.NodeID) bool { return node == "gone" }

func (members) RosterPage(after int) (start, newest int) { return after, 0 }

// add creates a node with a key.
func (m members) add(name string, admission writ.Admission) ed25519.PrivateKey {
	public, key, _ := ed25519.GenerateKey(nil)
	m[string(public)] = new(atomic.Pointer[writ.Node])
	m[string(public)].Store(&writ.Node{ID: writ.NodeID("id-of-" + name), Name: name, Admission: admission})
	return key
}

// serveTLS serves the node API over TLS. Clients of these tests do not check its certificate.
func serveTLS(t *testing.T, m members, c *nodes.Connections) *httptest.Server {
	t.Helper()
	_, key, _ := ed25519.GenerateKey(nil)
	own, err := pki.Bare(key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nodes.Handler(&desk{}, m, slog.New(slog.NewTextHandler(t.Output(), nil))))
	server.Config.ConnState = c.Note
	server.TLS = pki.Server(func() (*tls.Certificate, error) { return own, nil }, func([]*x509.Certificate) error { return nil })
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// as returns the TLS configuration of a node with a key; nil connects without a certificate.
func as(t *testing.T, key ed25519.PrivateKey) *tls.Config {
	t.Helper()
	var shown func() (*tls.Certificate, error)
	if key != nil {
		own, err := pki.Bare(key)
		if err != nil {
			t.Fatal(err)
		}
		shown = func() (*tls.Certificate, error) { return own, nil }
	}
	return pki.Client(func([]*x509.Certificate) error { return nil }, shown)
}

// A client that knows a digest or a node id gets no data without the key of a node.
//
// Promise: Connections and certificates: Between hosts, only approved nodes read payloads and only a node reads its
// own account; the connections of a removed node close within a second.
// How: The node proves its key on each connection; the supervisor checks each request.
// Also: TestConnectionsOfARemovedNodeEnd.
func TestPayloadsAndAccountsAreForMembers(t *testing.T) {
	m := members{}
	server := serveTLS(t, m, &nodes.Connections{})
	_, stranger, _ := ed25519.GenerateKey(nil)
	n1, n2 := m.add("n1", writ.AdmissionApproved), m.add("n2", writ.AdmissionApproved)
	waiting, removed, rejected := m.add("waiting", writ.AdmissionPending), m.add("removed", writ.AdmissionRemoved), m.add("rejected", writ.AdmissionRejected)
	supervisor := func() *tls.Config { // a certificate of a role, instead of the key of a node
		_, root, _ := ed25519.GenerateKey(nil)
		issuer := &pki.Issuer{Key: root, Name: pki.Name{
			Cluster: writ.ClusterID(writ.DigestOf([]byte("c")).String()), Role: pki.Supervisor, Datacenter: writ.DatacenterID(writ.NewUUID()),
		}}
		return pki.Client(func([]*x509.Certificate) error { return nil }, issuer.Certificate)
	}
	for _, tt := range []struct {
		name             string
		config           *tls.Config
		payload, account writ.Code // "" if the request succeeds
	}{
		{"the node", as(t, n1), "", ""},
		{"another node", as(t, n2), "", writ.CodeCertificateRole},
		{"no certificate", as(t, nil), writ.CodeCertificateRole, writ.CodeCertificateRole},
		{"a stranger", as(t, stranger), writ.CodeCertificateRole, writ.CodeCertificateRole},
		{"a supervisor", supervisor(), writ.CodeCertificateRole, writ.CodeCertificateRole},
		{"a pending node", as(t, waiting), writ.CodeConflict, writ.CodeCertificateRole},
		{"a removed node", as(t, removed), writ.CodeNodeRejected, writ.CodeCertificateRole},
		{"a rejected node", as(t, rejected), writ.CodeNodeRejected, writ.CodeCertificateRole},
	} {
		t.Run(tt.name, func(t *testing.T) {
			transport := &http.Transport{TLSClientConfig: tt.config}
			defer transport.CloseIdleConnections()
			c := &nodes.Client{URL: server.URL, HTTP: &http.Client{Transport: transport}}
			if _, err := c.Payload(t.Context(), writ.DigestOf([]byte("x"))); writ.CodeOf(err) != tt.payload {
				t.Errorf("a payload: %v", err)
			}
			if _, err := c.Account(t.Context(), "id-of-n1", []byte("asked")); writ.CodeOf(err) != tt.account {
				t.Errorf("the account of n1: %v", err)
			}
			for what, ask := range map[string]func() error{
				"rosters":  func() error { _, err := c.Rosters(t.Context(), 0); return err },
				"a join":   func() error { _, err := c.Greet(t.Context(), nodes.Hello{}); return err },
				"standing": func() error { _, err := c.Standing(t.Context(), "id-of-removed", nil); return err },
			} {
				if err := ask(); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

func TestConnectionsOfARemovedNodeEnd(t *testing.T) {
	m, c := members{}, &nodes.Connections{}
	server := serveTLS(t, m, c)
	keys := map[string]ed25519.PrivateKey{"n1": m.add("n1", writ.AdmissionApproved), "n2": m.add("n2", writ.AdmissionApproved), "nobody": nil}
	open := map[string]*tls.Conn{}
	for name, key := range keys {
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), as(t, key))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		open[name] = conn
		ask(t, conn)
	}
	c.Look(m)
	now := m[string(keys["n1"].Public().(ed25519.PublicKey))]
	gone := *now.Load()
	gone.Admission = writ.AdmissionRemoved
	now.Store(&gone)
	c.Look(m)
	if err := open["n1"].SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := open["n1"].Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the connection of a node that was removed: %v", err)
	}
	ask(t, open["n2"])
	ask(t, open["nobody"])
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// ask sends a request on an open connection and waits for the answer.
func ask(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := io.WriteString(conn, "GET /v1/rosters HTTP/1.1\r\nHost: here\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status, err)
	}
}

// lookedUp runs meanwhile during the lookup of a node.
type lookedUp struct {
	members
	meanwhile func()
}

func (l lookedUp) Member(key ed25519.PublicKey) *writ.Node {
	l.meanwhile()
	return l.members.Member(key)
}

// Unknown clients can open any number of connections, each with another key. Checking these must not delay requests.
func TestAScanOfConnectionsBlocksNoRequest(t *testing.T) {
	m, c := members{}, &nodes.Connections{}
	server := serveTLS(t, m, c)
	dial := func() *tls.Conn {
		_, stranger, _ := ed25519.GenerateKey(nil)
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", server.Listener.Addr().String(), as(t, stranger))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	ask(t, dial())
	looked := false
	c.Look(lookedUp{m, func() { looked = true; ask(t, dial()) }})
	if !looked {
		t.Error("no node was looked up")
	}
}
