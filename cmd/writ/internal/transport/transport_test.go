package transport

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/chain"
	"writ/identity/pki"
	"writ/identity/sshsig"
)

// cluster is a root key with its rosters.
type cluster struct {
	t      *testing.T
	root   sshsig.Signer
	roster *identity.Roster // newest roster
	signed [][]byte
}

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// found creates a cluster with one coordinator and returns the coordinator's key. ago is the age of its first roster.
func found(t *testing.T, ago time.Duration) (*cluster, ed25519.PrivateKey) {
	t.Helper()
	root, front := newKey(t), newKey(t)
	c := &cluster{t: t, root: sshsig.NewSigner(root)}
	key, err := ssh.NewPublicKey(root.Public())
	if err != nil {
		t.Fatal(err)
	}
	created := time.Now().Add(-ago)
	c.add(&identity.Roster{
		Cluster: identity.ClusterOf(key), Version: 1, Created: created, Expires: created.Add(identity.RosterValidity), Root: key, Threshold: 1, Operators: []string{"alice"},
		Principals:   []identity.Principal{{Name: "alice", Kind: identity.Person, State: identity.Active, Keys: []identity.PrincipalKey{{Key: key, State: identity.Active}}}},
		Coordinators: []identity.Coordinator{{ID: writ.NewUUID(), Name: "front", Key: front.Public().(ed25519.PublicKey), URLs: []string{"https://127.0.0.1"}}},
	})
	return c, front
}

func (c *cluster) add(r *identity.Roster) {
	c.t.Helper()
	signed, err := identity.SignRoster(r, c.root)
	if err != nil {
		c.t.Fatal(err)
	}
	c.signed, c.roster = append(c.signed, signed), r
}

// change signs the next roster version.
func (c *cluster) change(do func(r *identity.Roster)) {
	c.t.Helper()
	next, err := c.roster.Successor(time.Now())
	if err != nil {
		c.t.Fatal(err)
	}
	do(next)
	c.add(next)
}

// server is a coordinator that serves rosters and records its other requests.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func serve(t *testing.T, rosters *[][]byte, cluster writ.ClusterID, secure *tls.Config) *server {
	t.Helper()
	s := new(server)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/roster" {
			after, _ := strconv.Atoi(r.URL.Query().Get("after"))
			_ = json.NewEncoder(w).Encode(api.Rosters{Cluster: cluster, Version: len(*rosters), Signed: firstPage((*rosters)[min(after, len(*rosters)):])})
			return
		}
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, r.URL.Path+" "+string(body))
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Listener = tls.NewListener(s.Listener, secure)
	s.Start()
	s.URL = strings.Replace(s.URL, "http:", "https:", 1)
	t.Cleanup(s.Close)
	return s
}

// firstPage returns the rosters that fit into one response.
func firstPage(signed [][]byte) [][]byte {
	n := 0
	for n < len(signed) && chain.IsLastPage(signed[:n]) {
		n++
	}
	return signed[:n]
}

func (s *server) heard() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// by returns the TLS configuration of a server with this key that claims to be the coordinator of r.
func by(key ed25519.PrivateKey, r *identity.Roster) *tls.Config {
	i := &pki.Issuer{Key: key, Name: pki.Name{Cluster: r.Cluster, Role: pki.Coordinator, ID: r.Coordinators[0].ID}}
	return pki.Server(i.Certificate, nil)
}

func newTransport(t *testing.T, anchor identity.Anchor) *Transport {
	t.Helper()
	tr := &Transport{
		Rosters: config.RostersIn(t.TempDir(), anchor.Cluster), Anchor: anchor, Want: Coordinator,
		Fetch: FromCoordinator, PublicNames: true,
	}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func (t *Transport) post(url string) error {
	r, err := http.NewRequest(http.MethodPost, url+"/v1/submissions", strings.NewReader("a submission"))
	if err != nil {
		return err
	}
	response, err := t.RoundTrip(r)
	if err == nil {
		response.Body.Close()
	}
	return err
}

// A server receives a request only if a chain of rosters from the cluster's id, through the anchor, names its key.
// Before that it receives only requests for rosters.
func TestAServerOutsideTheRostersGetsNoRequest(t *testing.T) {
	c, front := found(t, time.Hour)
	anchor, err := identity.AnchorOf(c.roster)
	if err != nil {
		t.Fatal(err)
	}
	other, otherKey := found(t, time.Hour)
	old, oldKey := found(t, identity.RosterValidity+time.Hour)
	forked := anchor
	forked.Digest[0]++
	later := anchor
	later.Version++
	for name, tt := range map[string]struct {
		anchor  identity.Anchor
		rosters [][]byte
		secure  *tls.Config
		code    writ.Code
	}{
		"the coordinator":                            {anchor, c.signed, by(front, c.roster), ""},
		"only the cluster id":                        {identity.Anchor{Cluster: c.roster.Cluster}, c.signed, by(front, c.roster), ""},
		"an attacker that forwards rosters":          {anchor, c.signed, by(newKey(t), c.roster), writ.CodeCertificateUntrusted},
		"an attacker with a self-signed certificate": {anchor, c.signed, &tls.Config{Certificates: []tls.Certificate{selfSigned()}}, writ.CodeCertificateUntrusted},
		"a coordinator of another cluster":           {anchor, other.signed, by(otherKey, other.roster), writ.CodeWrongCluster},
		"one of another cluster, with these rosters": {anchor, c.signed, by(otherKey, other.roster), writ.CodeWrongCluster},
		"rosters that have all expired":              {identity.Anchor{Cluster: old.roster.Cluster}, old.signed, by(oldKey, old.roster), writ.CodeRosterInvalid},
		"rosters that end before the anchor":         {later, c.signed, by(front, c.roster), writ.CodeRosterTooOld},
		"rosters with another version of the anchor": {forked, c.signed, by(front, c.roster), writ.CodeRosterFork},
		"no rosters":             {anchor, nil, by(front, c.roster), writ.CodeCertificateUntrusted},
		"rosters over the limit": {anchor, [][]byte{make([]byte, MaxRosters)}, by(front, c.roster), writ.CodeTooLarge},
		"a coordinator that speaks TLS 1.2 and older": {anchor, c.signed, older(by(front, c.roster)), writ.CodeUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, &tt.rosters, c.roster.Cluster, tt.secure)
			err := newTransport(t, tt.anchor).post(s.URL)
			if writ.CodeOf(err) != tt.code {
				t.Errorf("%v (%s)", err, writ.CodeOf(err))
			}
			if got := s.heard(); len(got) > 0 != (tt.code == "") {
				t.Errorf("the server was asked %q", got)
			}
		})
	}
}

// shows returns the TLS configuration of a server with a certificate by issuer i and a new key.
func shows(t *testing.T, i *pki.Issuer, name pki.Name) *tls.Config {
	t.Helper()
	key := newKey(t)
	chain, err := i.Issue(name, key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return pki.Server(func() (*tls.Certificate, error) { return &tls.Certificate{Certificate: chain, PrivateKey: key}, nil }, nil)
}

// at shifts the clock of an issuer.
func at(off time.Duration, i *pki.Issuer) *pki.Issuer {
	i.Now = func() time.Time { return time.Now().Add(off) }
	return i
}

// Each certificate fault has its own code and hint, exits a command with code 3, and prevents the request. This
// includes certificates of other processes of the same cluster.
//
// Promise: Connections and certificates: A client that receives a wrong certificate reports its fault with exit code
// 3 and sends only a roster request.
// How: Each fault has a code and a hint.
// Also: TestAtTheFirstContactAnotherProcessOfTheClusterIsNamed.
func TestAWrongCertificateGetsNoRequest(t *testing.T) {
	c, front := found(t, time.Hour)
	super := newKey(t)
	dc := writ.DatacenterID(writ.NewUUID())
	c.change(func(r *identity.Roster) {
		r.Datacenters = append(r.Datacenters, identity.Datacenter{
			Datacenter: writ.Datacenter{ID: dc, Name: "dc1", Region: "eu"}, SupervisorKey: super.Public().(ed25519.PublicKey), Enabled: true,
		})
	})
	coordinator := pki.Name{Cluster: c.roster.Cluster, Role: pki.Coordinator, ID: c.roster.Coordinators[0].ID}
	supervisor := pki.Name{Cluster: c.roster.Cluster, Role: pki.Supervisor, Datacenter: dc}
	redis := pki.Name{Cluster: c.roster.Cluster, Role: pki.Redis, Datacenter: dc}
	node := pki.Name{Cluster: c.roster.Cluster, Role: pki.Node, Datacenter: dc, ID: writ.NewUUID()}
	ofFront := func() *pki.Issuer { return &pki.Issuer{Key: front, Name: coordinator} }
	ofDatacenter := func() *pki.Issuer { return &pki.Issuer{Key: super, Name: supervisor} }
	replaced := ofFront()
	replaced.Rotate(time.Now())
	for name, tt := range map[string]struct {
		secure *tls.Config
		code   writ.Code
	}{
		"its own":                        {shows(t, ofFront(), coordinator), ""},
		"ended in winter":                {shows(t, at(-200*24*time.Hour, ofFront()), coordinator), writ.CodeCertificateExpired},
		"ended 3 h ago":                  {shows(t, at(-pki.Life-3*time.Hour, ofFront()), coordinator), writ.CodeCertificateExpired},
		"begins in 2 h":                  {shows(t, at(3*time.Hour, ofFront()), coordinator), writ.CodeCertificateNotYetValid},
		"one by a replaced authority":    {shows(t, at(-time.Minute, ofFront()), coordinator), writ.CodeCertificateRevoked},
		"a supervisor's certificate":     {shows(t, ofDatacenter(), supervisor), writ.CodeCertificateRole},
		"a certificate of Redis":         {shows(t, ofDatacenter(), redis), writ.CodeCertificateRole},
		"a node's certificate":           {shows(t, ofDatacenter(), node), writ.CodeCertificateRole},
		"one by the key of a supervisor": {shows(t, &pki.Issuer{Key: super, Name: coordinator}, coordinator), writ.CodeCertificateUntrusted},
		"one by no key of the roster":    {shows(t, &pki.Issuer{Key: newKey(t), Name: coordinator}, coordinator), writ.CodeCertificateUntrusted},
		"a self-signed one":              {&tls.Config{Certificates: []tls.Certificate{selfSigned()}}, writ.CodeCertificateUntrusted},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTransport(t, identity.Anchor{Cluster: c.roster.Cluster})
			tr.Floors = new(pki.Floors)
			if tt.code == writ.CodeCertificateRevoked { // the transport has seen the replacement
				if err := tr.post(serve(t, &c.signed, c.roster.Cluster, shows(t, replaced, coordinator)).URL); err != nil {
					t.Fatal(err)
				}
			}
			s := serve(t, &c.signed, c.roster.Cluster, tt.secure)
			err := tr.post(s.URL)
			if writ.CodeOf(err) != tt.code {
				t.Errorf("%v (%s), want %s", err, writ.CodeOf(err), tt.code)
			}
			if got := s.heard(); len(got) > 0 != (tt.code == "") {
				t.Errorf("the server was asked %q", got)
			}
			if err == nil {
				return
			}
			if e := writ.AsError(err); e.Hint == "" || e.Code.Info().Exit != writ.ExitDenied {
				t.Errorf("the hint is %q, the exit code %d", e.Hint, e.Code.Info().Exit)
			}
		})
	}
}

// A client that has only the cluster id, and reaches a supervisor at a coordinator's port or vice versa, gets an error
// that identifies the server. If the server is neither of them, the error reports that.
func TestAtTheFirstContactAnotherProcessOfTheClusterIsNamed(t *testing.T) {
	c, front := found(t, time.Hour)
	super := newKey(t)
	dc := writ.DatacenterID(writ.NewUUID())
	c.change(func(r *identity.Roster) {
		r.Datacenters = append(r.Datacenters, identity.Datacenter{
			Datacenter: writ.Datacenter{ID: dc, Name: "dc1", Region: "eu"}, SupervisorKey: super.Public().(ed25519.PublicKey), Enabled: true,
		})
	})
	supervisor := pki.Name{Cluster: c.roster.Cluster, Role: pki.Supervisor, Datacenter: dc}
	gives := func(path string, answer any, secure *tls.Config) string { // and responds 404 to other paths
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != path {
				http.NotFound(w, r)
				return
			}
			_ = json.NewEncoder(w).Encode(answer)
		}))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.Listener = tls.NewListener(s.Listener, secure)
		s.Start()
		t.Cleanup(s.Close)
		return s.URL
	}
	ofSupervisor := shows(t, &pki.Issuer{Key: super, Name: supervisor}, supervisor)
	ofCoordinator := api.Rosters{Cluster: c.roster.Cluster, Version: c.roster.Version, Signed: c.signed}
	wantsSupervisor := func(*identity.Roster, string) pki.Name { return pki.Name{Role: pki.Supervisor, Datacenter: dc} }
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for name, tt := range map[string]struct {
		url   string
		want  func(*identity.Roster, string) pki.Name
		fetch Fetch
		code  writ.Code
		says  string
	}{
		"a supervisor":  {gives("/v1/rosters", c.signed, ofSupervisor), Coordinator, FromCoordinator, writ.CodeCertificateRole, "the supervisor of dc1"},
		"a coordinator": {gives("/v1/roster", ofCoordinator, by(front, c.roster)), wantsSupervisor, FromSupervisor, writ.CodeCertificateRole, "the coordinator front"},
		"neither":       {gives("/", nil, ofSupervisor), Coordinator, FromCoordinator, writ.CodeUnreachable, "returns no rosters: 404"},
		"no TLS":        {plain.URL, Coordinator, FromCoordinator, writ.CodeUnreachable, "does not speak TLS"},
		"an older TLS":  {serve(t, &c.signed, c.roster.Cluster, older(by(front, c.roster))).URL, Coordinator, FromCoordinator, writ.CodeUnreachable, "does not speak TLS 1.3"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTransport(t, identity.Anchor{Cluster: c.roster.Cluster})
			tr.Want, tr.Fetch = tt.want, tt.fetch
			err := tr.post(strings.Replace(tt.url, "http:", "https:", 1))
			if writ.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) || writ.AsError(err).Hint == "" {
				t.Errorf("%v (%s)", err, writ.CodeOf(err))
			}
		})
	}
}

func TestAnAddressEndsWithItsPort(t *testing.T) {
	for _, fine := range []string{"https://writ.example.org:7440", "https://writ.example.org/", "http://127.0.0.1:7440", "https://alice:hunter2@writ.example.org"} {
		if _, err := Address("coordinator", fine); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
	for _, bad := range []string{"", "writ.example.org:7440", "ftp://writ.example.org", "https://writ.example.org/x", "https://writ.example.org?x=y", "https://writ.example.org#x"} {
		if _, err := Address("coordinator", bad); writ.CodeOf(err) != writ.CodeUsage || writ.AsError(err).Hint == "" {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A cluster may have more rosters than fit into one response. A new client requests all pages before it verifies the
// chain. A client with earlier rosters requests the remaining ones.
func TestManyRostersComeInPages(t *testing.T) {
	c, _ := found(t, time.Hour)
	first := c.signed
	c.change(func(r *identity.Roster) {
		for n := range 3000 { // 330 KiB
			r.Projects = append(r.Projects, identity.Project{ID: writ.ProjectID(writ.NewUUID()), Name: fmt.Sprintf("project-%050d", n)})
		}
	})
	for range 3 {
		c.change(func(*identity.Roster) {})
	}
	next := newKey(t)
	c.change(func(r *identity.Roster) { r.Coordinators[0].Key = next.Public().(ed25519.PublicKey) })
	if size := len(bytes.Join(c.signed, nil)); size < chain.PageSize {
		t.Fatalf("all rosters have %d bytes, want two pages", size)
	}
	newest := c.signed
	s := serve(t, &newest, c.roster.Cluster, by(next, c.roster))
	anchor, err := identity.AnchorOf(c.roster)
	if err != nil {
		t.Fatal(err)
	}
	for name, have := range map[string][][]byte{"a newcomer": nil, "a client with the first roster": first} {
		tr := newTransport(t, anchor)
		if len(have) > 0 {
			tr.Anchor = identity.Anchor{Cluster: c.roster.Cluster}
			if _, err := tr.Rosters.Add(have...); err != nil {
				t.Fatal(err)
			}
		}
		if err := tr.post(s.URL); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r, err := tr.Rosters.Latest(); err != nil || r == nil || r.Version != c.roster.Version {
			t.Errorf("%s: %v; want version %d", name, err, c.roster.Version)
		}
	}
}

func older(c *tls.Config) *tls.Config {
	c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	return c
}

// selfSigned returns a certificate that is not signed by any authority.
func selfSigned() tls.Certificate {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	return s.TLS.Certificates[0]
}

// A coordinator with a replaced key is verified by the newer roster, which any server may supply.
func TestANewRosterIsAskedForWhenAServerIsNotKnown(t *testing.T) {
	c, front := found(t, time.Hour)
	tr := newTransport(t, identity.Anchor{Cluster: c.roster.Cluster})
	rosters := c.signed
	if err := tr.post(serve(t, &rosters, c.roster.Cluster, by(front, c.roster)).URL); err != nil {
		t.Fatal(err)
	}
	next := newKey(t)
	c.change(func(r *identity.Roster) { r.Coordinators[0].Key = next.Public().(ed25519.PublicKey) })
	rosters = c.signed
	s := serve(t, &rosters, c.roster.Cluster, by(next, c.roster))
	if err := tr.post(s.URL); err != nil {
		t.Errorf("with the next key: %v", err)
	}
	if got := s.heard(); len(got) != 1 || got[0] != "/v1/submissions a submission" {
		t.Errorf("it was asked %q", got)
	}
	if err := tr.post(serve(t, &rosters, c.roster.Cluster, by(front, c.roster)).URL); writ.CodeOf(err) != writ.CodeCertificateUntrusted {
		t.Errorf("with the key that was exchanged: %v", err)
	}
}

// A server with a replaced key receives no request over an existing connection.
func TestAConnectionThatAnEarlierRosterVerifiedIsNotUsedAgain(t *testing.T) {
	c, front := found(t, time.Hour)
	tr := newTransport(t, identity.Anchor{Cluster: c.roster.Cluster})
	tr.Version = func() int {
		if r, err := tr.Rosters.Latest(); r != nil && err == nil {
			return r.Version
		}
		return 0
	}
	rosters := c.signed
	s := serve(t, &rosters, c.roster.Cluster, by(front, c.roster))
	for range 2 {
		if err := tr.post(s.URL); err != nil {
			t.Fatal(err)
		}
	}
	c.change(func(r *identity.Roster) { r.Coordinators[0].Key = newKey(t).Public().(ed25519.PublicKey) })
	if _, err := tr.Rosters.Add(c.signed...); err != nil {
		t.Fatal(err)
	}
	if err := tr.post(s.URL); writ.CodeOf(err) != writ.CodeCertificateUntrusted {
		t.Errorf("with the key that was exchanged: %v", err)
	}
	if got := s.heard(); len(got) != 2 {
		t.Errorf("it was asked %q", got)
	}
}

// The key of one coordinator is not valid at the address of another, and neither is a public certificate.
//
// Promise: Connections and certificates: The address of a coordinator in the roster accepts only that coordinator's
// certificate, never a public certificate.
// How: Certificate and login challenge must belong to that coordinator.
// Also: TestAServerBehindAProxyIsVerified, TestAProxyThatEndsTLSIsTrustedWhereTheRosterNamesNoCoordinator,
// TestALoginIsSignedForACoordinatorOfTheRosterOnly.
func TestAnAddressOfTheRosterIsOneCoordinators(t *testing.T) {
	c, front := found(t, time.Hour)
	second := newKey(t)
	tr := newTransport(t, identity.Anchor{Cluster: c.roster.Cluster})
	rosters := c.signed
	s := serve(t, &rosters, c.roster.Cluster, by(front, c.roster))
	id := c.roster.Coordinators[0].ID
	c.change(func(r *identity.Roster) {
		r.Coordinator(id).URLs = []string{s.URL}
		r.Coordinators = append(r.Coordinators, identity.Coordinator{ID: writ.NewUUID(), Name: "second", Key: second.Public().(ed25519.PublicKey), URLs: []string{"https://192.0.2.1"}})
	})
	rosters = c.signed
	if _, err := tr.Rosters.Add(c.signed...); err != nil {
		t.Fatal(err)
	}
	if err := tr.post(s.URL); err != nil {
		t.Errorf("the coordinator at its address: %v", err)
	}
	swapped := *c.roster
	swapped.Coordinators = []identity.Coordinator{*c.roster.Coordinators.Of(second.Public().(ed25519.PublicKey))}
	thief := serve(t, &rosters, c.roster.Cluster, by(second, &swapped))
	if err := tr.post(thief.URL); err != nil {
		t.Errorf("coordinator at an address outside the roster: %v", err)
	}
	c.change(func(r *identity.Roster) { r.Coordinator(id).URLs = []string{thief.URL} })
	if _, err := tr.Rosters.Add(c.signed...); err != nil {
		t.Fatal(err)
	}
	tr.CloseIdleConnections()
	if err := tr.post(thief.URL); writ.CodeOf(err) != writ.CodeCertificateRole {
		t.Errorf("the second coordinator at the address of the first: %v", err)
	}
}

// A server behind a proxy, as set by HTTPS_PROXY, is verified as well.
func TestAServerBehindAProxyIsVerified(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		there, err := net.Dial("tcp", r.Host)
		if err != nil || r.Method != http.MethodConnect {
			t.Errorf("%s %s: %v", r.Method, r.Host, err)
			return
		}
		defer there.Close()
		here, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer here.Close()
		fmt.Fprint(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(there, here) }()
		_, _ = io.Copy(here, there)
	}))
	defer proxy.Close()
	address, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	c, front := found(t, time.Hour)
	second := newKey(t)
	id := c.roster.Coordinators[0].ID
	c.change(func(r *identity.Roster) {
		r.Coordinators = append(r.Coordinators, identity.Coordinator{ID: writ.NewUUID(), Name: "second", Key: second.Public().(ed25519.PublicKey), URLs: []string{"https://192.0.2.1"}})
	})
	swapped := *c.roster
	swapped.Coordinators = swapped.Coordinators[1:]
	for name, tt := range map[string]struct {
		secure *tls.Config
		code   writ.Code
	}{
		"the coordinator":     {by(front, c.roster), ""},
		"another coordinator": {by(second, &swapped), writ.CodeCertificateRole},
		"a stranger":          {by(newKey(t), c.roster), writ.CodeCertificateUntrusted},
		"an attacker with a self-signed certificate": {&tls.Config{Certificates: []tls.Certificate{selfSigned()}}, writ.CodeCertificateUntrusted},
	} {
		s := serve(t, &c.signed, c.roster.Cluster, tt.secure)
		c.change(func(r *identity.Roster) { r.Coordinator(id).URLs = []string{s.URL} })
		tr := newTransport(t, identity.Anchor{Cluster: c.roster.Cluster})
		if _, err := tr.Rosters.Add(c.signed...); err != nil {
			t.Fatal(err)
		}
		tr.init()
		tr.settings.Proxy = http.ProxyURL(address)
		if err := tr.post(s.URL); writ.CodeOf(err) != tt.code || len(s.heard()) > 0 != (tt.code == "") {
			t.Errorf("%s: %v, it was asked %q", name, err, s.heard())
		}
		tr.CloseIdleConnections()
	}
}

// A TLS-terminating proxy has a public certificate and does not support writ's ALPN. It is trusted only at addresses
// that the roster does not list.
func TestAProxyThatEndsTLSIsTrustedWhereTheRosterNamesNoCoordinator(t *testing.T) {
	c, front := found(t, time.Hour)
	coordinator := serve(t, &c.signed, c.roster.Cluster, by(front, c.roster))
	there, err := url.Parse(coordinator.URL)
	if err != nil {
		t.Fatal(err)
	}
	onward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(there) },
		// Test only: the coordinator is on this machine.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	offered := make(chan []string, 10)
	proxy := httptest.NewUnstartedServer(onward)
	proxy.EnableHTTP2 = true
	proxy.Config.ErrorLog = log.New(io.Discard, "", 0)
	proxy.TLS = &tls.Config{
		Certificates: []tls.Certificate{publicly},
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			offered <- hello.SupportedProtos
			return nil, nil
		},
	}
	proxy.StartTLS()
	defer proxy.Close()
	tr := newTransport(t, identity.Anchor{Cluster: c.roster.Cluster})
	if _, err := tr.Rosters.Add(c.signed...); err != nil {
		t.Fatal(err)
	}
	if err := tr.post(proxy.URL); err != nil {
		t.Errorf("at an address that the roster does not name: %v", err)
	}
	if got := <-offered; !slices.Equal(got, []string{pki.Marker, "http/1.1"}) {
		t.Errorf("a client of writ offers %q", got)
	}
	tr.CloseIdleConnections()
	c.change(func(r *identity.Roster) { r.Coordinators[0].URLs = []string{proxy.URL} })
	if _, err := tr.Rosters.Add(c.signed...); err != nil {
		t.Fatal(err)
	}
	if err := tr.post(proxy.URL); writ.CodeOf(err) != writ.CodeCertificateUntrusted {
		t.Errorf("at the address of a coordinator: %v", err)
	}
	if got := coordinator.heard(); len(got) != 1 {
		t.Errorf("the coordinator was asked %q", got)
	}
}

// publicly is a certificate for 127.0.0.1 by an authority that this process trusts as a system authority.
var publicly tls.Certificate

func TestMain(m *testing.M) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	publicly = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	dir, err := os.MkdirTemp("", "writ-transport-")
	if err != nil {
		panic(err)
	}
	authority := filepath.Join(dir, "authority.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		panic(err)
	}
	_ = os.Setenv("SSL_CERT_FILE", authority) // Go reads it once, at the first use of the system authorities
	_ = os.Setenv("SSL_CERT_DIR", dir)
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func TestPlainTextStaysOnThisMachine(t *testing.T) {
	tr := newTransport(t, identity.Anchor{})
	if err := tr.post("http://192.0.2.1:7440"); writ.CodeOf(err) != writ.CodeUsage { // a documentation address
		t.Errorf("to another machine: %v", err)
	}
	heard := httptest.NewServer(http.NotFoundHandler())
	defer heard.Close()
	if err := tr.post(heard.URL); err != nil {
		t.Errorf("to this one: %v", err)
	}
}

// Any user of a machine may listen on the coordinator's port at the other address of localhost.
func TestLocalhostWithoutTLSIsOneAddress(t *testing.T) {
	said := func(what string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, what) })
	}
	coordinator := httptest.NewServer(said("coordinator"))
	defer coordinator.Close()
	port := strings.TrimPrefix(coordinator.URL, "http://127.0.0.1:")
	listener, err := net.Listen("tcp", "[::1]:"+port)
	if err != nil {
		t.Skip("the other address cannot be used here: ", err)
	}
	thief := &httptest.Server{Listener: listener, Config: &http.Server{Handler: said("thief")}}
	thief.Start()
	defer thief.Close()
	by := &Transport{}
	defer by.CloseIdleConnections()
	for range 10 {
		answer, err := (&http.Client{Transport: by}).Get("http://localhost:" + port)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || string(text) != "coordinator" {
			t.Fatalf("the %s answers: %v", text, err)
		}
	}
}
