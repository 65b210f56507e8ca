package nodetrust

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/internal/test/daemontest"
	"writ/identity"
	"writ/identity/pki"
	"writ/identity/sshsig"
	"writ/runner/member"
	"writ/supervisor/nodes"
)

// A node was off for 200 days. Meanwhile its roster expired, and its supervisor got another key and address and made
// new authorities twice. While the clock of the node is wrong, its error names both clocks. Then the node reconnects,
// without a token.
//
// Promise: Connections and certificates: A node that was off for months rejoins without a token, even if its
// supervisor changed key, address and authority.
// How: The supervisor gives rosters to every caller and recognises the node by its key; an error about a wrong clock
// names both clocks.
func TestNodeReturnsAfterMonths(t *testing.T) {
	const day = 24 * time.Hour
	newKey := func() ed25519.PrivateKey {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	root, first, moved := newKey(), newKey(), newKey()
	rootKey, err := ssh.NewPublicKey(root.Public())
	if err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-200 * day).UTC().Truncate(time.Second)
	dc := writ.DatacenterID(writ.NewUUID())
	roster := &identity.Roster{
		Cluster: identity.ClusterOf(rootKey), Version: 1, Created: then, Expires: then.Add(identity.RosterValidity), Root: rootKey, Threshold: 1, Operators: []string{"alice"},
		Principals:  []identity.Principal{{Name: "alice", Kind: identity.Person, State: identity.Active, Keys: []identity.PrincipalKey{{Key: rootKey, State: identity.Active}}}},
		Datacenters: []identity.Datacenter{{Datacenter: writ.Datacenter{ID: dc, Name: "dc1", Region: "eu"}, SupervisorKey: daemon.PublicKey(first), Enabled: true}},
	}
	var signed [][]byte
	add := func(r *identity.Roster) {
		text, err := identity.SignRoster(r, sshsig.NewSigner(root))
		if err != nil {
			t.Fatal(err)
		}
		signed, roster = append(signed, text), r
	}
	add(roster)
	for _, at := range []time.Time{then.Add(80 * day), time.Now()} {
		next, err := roster.Successor(at)
		if err != nil {
			t.Fatal(err)
		}
		next.Datacenters[0].SupervisorKey = daemon.PublicKey(moved)
		add(next)
	}

	dir := t.TempDir()
	key, err := member.Key(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &daemontest.NodeAPI{Signed: signed, Node: writ.Node{ID: writ.NodeID(writ.NewUUID()), Name: "n1", Admission: writ.AdmissionApproved}, Key: daemon.PublicKey(key)}
	text, err := json.Marshal(map[string]any{
		"cluster": roster.Cluster, "datacenter": dc, "node": s.Node.ID, "name": "n1", "admission": "approved", "epoch": 1, "rosters": signed[:1],
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "member.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	before := &pki.Issuer{Key: moved, Name: pki.Name{Cluster: roster.Cluster, Role: pki.Supervisor, Datacenter: dc}, Now: func() time.Time { return time.Now().Add(-day) }}
	issuer := &pki.Issuer{Key: moved, Name: pki.Name{Cluster: roster.Cluster, Role: pki.Supervisor, Datacenter: dc}}
	for range 2 {
		issuer.Rotate(time.Now())
	}
	server := httptest.NewUnstartedServer(nodes.Handler(s, s, slog.New(slog.DiscardHandler)))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Listener = tls.NewListener(server.Listener, pki.Server(issuer.Certificate, daemontest.AcceptAll))
	server.Start()
	defer server.Close()

	trust, err := New(key, "", "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Unix(0, 0)
	trust.now = func() time.Time { return clock }
	joined, err := member.Join(t.Context(), member.Joining{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	trust.Joined(joined)
	client := trust.Client()
	defer client.CloseIdleConnections()
	api := nodes.NewSeveral(client, strings.Replace(server.URL, "http:", "https:", 1))

	_, err = api.Account(t.Context(), s.Node.ID, []byte("asked"))
	cause, _ := errors.AsType[*writ.Error](writ.AsError(err).Err)
	if cause == nil || cause.Code != writ.CodeCertificateNotYetValid || !strings.Contains(err.Error(), "1970-01-01") || !strings.Contains(err.Error(), time.Now().Add(-pki.Backdate).UTC().Format("2006-01")) {
		t.Errorf("with a clock at 1970: %v", err)
	}
	clock = time.Now()
	if account, err := api.Account(t.Context(), s.Node.ID, []byte("asked")); err != nil || string(account) != "account" {
		t.Errorf("with the right clock: %q, %v", account, err)
	}
	// The node rejects a Redis with a certificate of an earlier authority, although only the supervisor has shown that
	// this authority ended.
	redis := func(by *pki.Issuer) error {
		chain, err := by.Issue(pki.Name{Cluster: roster.Cluster, Role: pki.Redis, Datacenter: dc}, daemon.PublicKey(newKey()))
		if err != nil {
			t.Fatal(err)
		}
		var state tls.ConnectionState
		for _, der := range chain {
			c, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			state.PeerCertificates = append(state.PeerCertificates, c)
		}
		return trust.Redis("127.0.0.1", state)
	}
	if err := redis(before); writ.CodeOf(err) != writ.CodeCertificateRevoked {
		t.Errorf("a Redis from before: %v", err)
	}
	if err := redis(issuer); err != nil {
		t.Errorf("the Redis of now: %v", err)
	}
	if now := joined.Roster(); now.Version != 3 {
		t.Errorf("the node has version %d of the roster", now.Version)
	}

	// The node stores that earlier certificates have ended. After a restart it still rejects a stolen one.
	stolen := &pki.Issuer{Key: moved, Name: issuer.Name, Now: func() time.Time { return time.Now().Add(-time.Minute) }}
	thief := httptest.NewUnstartedServer(nodes.Handler(s, s, slog.New(slog.DiscardHandler)))
	thief.Config.ErrorLog = log.New(io.Discard, "", 0)
	thief.Listener = tls.NewListener(thief.Listener, pki.Server(stolen.Certificate, daemontest.AcceptAll))
	thief.Start()
	defer thief.Close()
	if joined, err = member.Join(t.Context(), member.Joining{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if trust, err = New(key, "", "", slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	trust.Joined(joined)
	again := trust.Client()
	defer again.CloseIdleConnections()
	_, err = nodes.NewSeveral(again, strings.Replace(thief.URL, "http:", "https:", 1)).Account(t.Context(), s.Node.ID, []byte("asked"))
	if cause, _ := errors.AsType[*writ.Error](writ.AsError(err).Err); cause == nil || cause.Code != writ.CodeCertificateRevoked {
		t.Errorf("a certificate from before: %v", err)
	}
}
