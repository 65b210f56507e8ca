package nodetrust

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/internal/test/daemontest"
	"writ/identity"
	"writ/identity/pki"
	"writ/identity/sshsig"
	"writ/internal/test/testenv"
	"writ/supervisor/nodes"
)

// peers are a cluster of two datacenters and a coordinator, with all of their keys.
type peers struct {
	roster      *identity.Roster
	signed      [][]byte
	dc1, dc2    writ.DatacenterID
	coordinator string
	keys        map[string]ed25519.PrivateKey // "dc1", "dc2", "front", "stranger"
}

func newPeers(t *testing.T) *peers {
	t.Helper()
	p := &peers{dc1: writ.DatacenterID(writ.NewUUID()), dc2: writ.DatacenterID(writ.NewUUID()), coordinator: writ.NewUUID(), keys: map[string]ed25519.PrivateKey{}}
	for _, name := range []string{"root", "dc1", "dc2", "front", "stranger", "n1"} {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		p.keys[name] = key
	}
	root, err := ssh.NewPublicKey(p.keys["root"].Public())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	datacenter := func(id writ.DatacenterID, name string) identity.Datacenter {
		return identity.Datacenter{Datacenter: writ.Datacenter{ID: id, Name: name, Region: "eu"}, SupervisorKey: daemon.PublicKey(p.keys[name]), Enabled: true}
	}
	p.roster = &identity.Roster{
		Cluster: identity.ClusterOf(root), Version: 1, Created: now, Expires: now.Add(identity.RosterValidity), Root: root, Threshold: 1, Operators: []string{"alice"},
		Principals:   []identity.Principal{{Name: "alice", Kind: identity.Person, State: identity.Active, Keys: []identity.PrincipalKey{{Key: root, State: identity.Active}}}},
		Datacenters:  []identity.Datacenter{datacenter(p.dc1, "dc1"), datacenter(p.dc2, "dc2")},
		Coordinators: []identity.Coordinator{{ID: p.coordinator, Name: "front", Key: daemon.PublicKey(p.keys["front"]), URLs: []string{"https://front.example.org"}}},
	}
	text, err := identity.SignRoster(p.roster, sshsig.NewSigner(p.keys["root"]))
	if err != nil {
		t.Fatal(err)
	}
	p.signed = [][]byte{text}
	return p
}

// name returns the name in a certificate for a role.
func (p *peers) name(role pki.Role, dc writ.DatacenterID) pki.Name {
	n := pki.Name{Cluster: p.roster.Cluster, Role: role, Datacenter: dc}
	switch role {
	case pki.Coordinator:
		n.Datacenter, n.ID = "", p.coordinator
	case pki.Node:
		n.ID = "0192f6c2-0000-7000-8000-0000000000aa"
	}
	return n
}

// by is a certificate with a name that the holder of one of the keys made.
func (p *peers) by(t *testing.T, key string, name pki.Name) *tls.Certificate {
	t.Helper()
	_, leaf, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	issuer := &pki.Issuer{Key: p.keys[key], Name: name}
	if name.Role == pki.Node || name.Role == pki.Redis {
		issuer.Name = p.name(pki.Supervisor, name.Datacenter)
	}
	chain, err := issuer.Issue(name, daemon.PublicKey(leaf))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: chain, PrivateKey: leaf}
}

// peer is a server for a node, and the error code with which the node rejects it.
type peer struct {
	name  string
	shows *tls.Certificate
	code  writ.Code // "" if it is trusted
}

// strangers are servers that no node trusts in a role.
func (p *peers) strangers(t *testing.T, as pki.Role) []peer {
	t.Helper()
	bare, err := pki.Bare(p.keys["n1"])
	if err != nil {
		t.Fatal(err)
	}
	authority := testenv.NewAuthority(t)
	certificate, key := authority.Issue("dc1.example.org", time.Now().Add(time.Hour))
	named, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	return []peer{
		{"the other datacenter in the name of this one", p.by(t, "dc2", p.name(as, p.dc1)), writ.CodeCertificateUntrusted},
		{"the coordinator in the name of this datacenter", p.by(t, "front", p.name(as, p.dc1)), writ.CodeCertificateUntrusted},
		{"a stranger in the name of this datacenter", p.by(t, "stranger", p.name(as, p.dc1)), writ.CodeCertificateUntrusted},
		{"a host with the right name and no URI", &named, writ.CodeCertificateUntrusted},
		{"another node", bare, writ.CodeCertificateUntrusted},
		{"the coordinator", p.by(t, "front", p.name(pki.Coordinator, "")), writ.CodeCertificateRole},
		{"a node's certificate", p.by(t, "dc1", p.name(pki.Node, p.dc1)), writ.CodeCertificateRole},
	}
}

// nodeTrust returns the trust of a node with a token of the first datacenter.
func (p *peers) nodeTrust(t *testing.T) *Trust {
	t.Helper()
	token, err := identity.NewToken(p.roster.Cluster).For(p.dc1, p.roster)
	if err != nil {
		t.Fatal(err)
	}
	trust, err := New(p.keys["n1"], token.String(), "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return trust
}

// A node sends only requests for rosters to a server that is not the supervisor of its datacenter, even if that server
// has another key of the cluster.
func TestANodeAsksItsSupervisorOnly(t *testing.T) {
	p := newPeers(t)
	for _, tt := range append([]peer{
		{"its supervisor", p.by(t, "dc1", p.name(pki.Supervisor, p.dc1)), ""},
		{"the supervisor of the other datacenter", p.by(t, "dc2", p.name(pki.Supervisor, p.dc2)), writ.CodeCertificateRole},
		{"its Redis", p.by(t, "dc1", p.name(pki.Redis, p.dc1)), writ.CodeCertificateRole},
	}, p.strangers(t, pki.Supervisor)...) {
		t.Run(tt.name, func(t *testing.T) {
			s := &daemontest.NodeAPI{Signed: p.signed, Node: writ.Node{ID: "n1", Admission: writ.AdmissionApproved}, Key: daemon.PublicKey(p.keys["n1"])}
			answer := nodes.Handler(s, s, slog.New(slog.DiscardHandler))
			var mu sync.Mutex
			var asked []string
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(r.URL.Path, "/v1/rosters") {
					mu.Lock()
					asked = append(asked, r.URL.Path)
					mu.Unlock()
				}
				answer.ServeHTTP(w, r)
			}))
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.Listener = tls.NewListener(server.Listener, pki.Server(func() (*tls.Certificate, error) { return tt.shows, nil }, daemontest.AcceptAll))
			server.Start()
			defer server.Close()
			client := p.nodeTrust(t).Client()
			defer client.CloseIdleConnections()
			_, err := nodes.NewSeveral(client, strings.Replace(server.URL, "http:", "https:", 1)).Account(t.Context(), "n1", []byte("asked"))
			mu.Lock()
			defer mu.Unlock()
			if tt.code == "" {
				if err != nil || len(asked) != 1 {
					t.Errorf("%v, it was asked %q", err, asked)
				}
				return
			}
			var cause *writ.Error
			if err != nil {
				cause, _ = errors.AsType[*writ.Error](writ.AsError(err).Err)
			}
			if cause == nil || cause.Code != tt.code || cause.Hint == "" || cause.Code.Info().Exit != writ.ExitDenied || len(asked) > 0 {
				t.Errorf("%v, it was asked %q", err, asked)
			}
		})
	}
}

// A node sends its password only to the Redis of its datacenter.
func TestNodeLogsInAtTheRedisOfItsDatacenterOnly(t *testing.T) {
	p := newPeers(t)
	trust := p.nodeTrust(t)
	if _, err := trust.Add(p.signed...); err != nil {
		t.Fatal(err)
	}
	for _, tt := range append([]peer{
		{"its Redis", p.by(t, "dc1", p.name(pki.Redis, p.dc1)), ""},
		{"the Redis of the other datacenter", p.by(t, "dc2", p.name(pki.Redis, p.dc2)), writ.CodeCertificateRole},
		{"its supervisor", p.by(t, "dc1", p.name(pki.Supervisor, p.dc1)), writ.CodeCertificateRole},
	}, p.strangers(t, pki.Redis)...) {
		var state tls.ConnectionState
		for _, der := range tt.shows.Certificate {
			c, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			state.PeerCertificates = append(state.PeerCertificates, c)
		}
		err := trust.Redis("dc1.example.org", state)
		if writ.CodeOf(err) != tt.code || err != nil && (writ.AsError(err).Hint == "" || writ.CodeOf(err).Info().Exit != writ.ExitDenied) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
