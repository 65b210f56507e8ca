package pki

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/identity/sshsig"
)

// noon is the current time of these tests.
var noon = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

const (
	vienna writ.DatacenterID = "0192f6c2-0000-7000-8000-00000000000a"
	graz   writ.DatacenterID = "0192f6c2-0000-7000-8000-00000000000b"
	front                    = "0192f6c2-0000-7000-8000-00000000000c"
	n1                       = "0192f6c2-0000-7000-8000-0000000000aa"
)

func testKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("test key of " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func public(name string) ed25519.PublicKey { return testKey(name).Public().(ed25519.PublicKey) }

// testRoster has two datacenters and a coordinator.
func testRoster(t *testing.T) *identity.Roster {
	t.Helper()
	root, err := ssh.NewPublicKey(public("root"))
	if err != nil {
		t.Fatal(err)
	}
	r := &identity.Roster{
		Cluster: identity.ClusterOf(root), Version: 1, Created: noon.Add(-time.Hour), Expires: noon.Add(identity.RosterValidity), Root: root, Threshold: 1,
		Operators:  []string{"alice"},
		Principals: []identity.Principal{{Name: "alice", Kind: identity.Person, State: identity.Active, Keys: []identity.PrincipalKey{{Key: root, State: identity.Active}}}},
		Datacenters: []identity.Datacenter{
			{Datacenter: writ.Datacenter{ID: vienna, Name: "vienna", Region: "eu"}, SupervisorKey: public("vienna"), Enabled: true},
			{Datacenter: writ.Datacenter{ID: graz, Name: "graz", Region: "eu"}, SupervisorKey: public("graz"), Enabled: true},
		},
		Coordinators: []identity.Coordinator{{ID: front, Name: "front", Key: public("front"), URLs: []string{"https://front.example.org"}}},
	}
	if _, err := r.Text(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (n Name) in(r *identity.Roster) Name { n.Cluster = r.Cluster; return n }

var (
	supervisorOfVienna = Name{Role: Supervisor, Datacenter: vienna}
	nodeOfVienna       = Name{Role: Node, Datacenter: vienna, ID: n1}
	frontCoordinator   = Name{Role: Coordinator, ID: front}
)

func parse(t *testing.T, chain [][]byte) []*x509.Certificate {
	t.Helper()
	var all []*x509.Certificate
	for _, der := range chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

func issuer(r *identity.Roster, key string, name Name) *Issuer {
	return &Issuer{Key: testKey(key), Name: name.in(r), Now: func() time.Time { return noon }}
}

func own(t *testing.T, i *Issuer) []*x509.Certificate {
	t.Helper()
	c, err := i.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, c.Certificate)
}

func TestEveryRoleIsKnownByTheRosterAlone(t *testing.T) {
	r := testRoster(t)
	v := &Verifier{Roster: r, Now: noon}
	ofVienna := issuer(r, "vienna", supervisorOfVienna)
	for _, want := range []Name{supervisorOfVienna, nodeOfVienna, {Role: Redis, Datacenter: vienna}} {
		chain, err := ofVienna.Issue(want.in(r), public("somebody"), "10.0.0.1", "redis.example.org")
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Is(want, parse(t, chain)); err != nil {
			t.Errorf("%s: %v", want.Role, err)
		}
	}
	if err := v.Is(frontCoordinator, own(t, issuer(r, "front", frontCoordinator))); err != nil {
		t.Error(err)
	}
}

// forged describes a certificate created with some keys, but not by Issuer.
type forged struct {
	root    string // signs the delegation
	of      owner
	key     ed25519.PublicKey // in the delegation, if not the authority's key
	kind    envelope.Kind     // of the delegation
	leaf    func(*x509.Certificate)
	chain   func(chain []*x509.Certificate) []*x509.Certificate
	without bool // omits the delegation
}

// make returns a chain for a name, signed with root's stolen key.
func (f forged) make(t *testing.T, r *identity.Roster, name Name) []*x509.Certificate {
	t.Helper()
	name = name.in(r)
	a, err := newAuthority(testKey(f.root), name.owner(), time.Time{}, noon)
	if err != nil {
		t.Fatal(err)
	}
	of := name.owner()
	if f.of != (owner{}) {
		of = f.of
	}
	key := a.key.Public().(ed25519.PublicKey)
	if f.key != nil {
		key = f.key
	}
	kind := envelope.Authority
	if f.kind != "" {
		kind = f.kind
	}
	signed, err := envelope.Sign(kind, testKey(f.root), delegation{
		Cluster: of.Cluster, Datacenter: of.Datacenter, Coordinator: of.Coordinator, Key: key, From: noon.UnixMilli(), Until: noon.Add(authorityLife).UnixMilli(),
	})
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: serial(), NotBefore: noon, NotAfter: noon.Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	if !f.without {
		template.ExtraExtensions = []pkix.Extension{{Id: delegationOID, Value: signed}}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	ca := parse(t, [][]byte{der})[0]
	leaf := &x509.Certificate{
		SerialNumber: serial(), NotBefore: noon, NotAfter: noon.Add(time.Hour), ExtKeyUsage: usages[name.Role], URIs: []*url.URL{name.URI()}, BasicConstraintsValid: true,
	}
	if f.leaf != nil {
		f.leaf(leaf)
	}
	if der, err = x509.CreateCertificate(rand.Reader, leaf, ca, public("somebody"), a.key); err != nil {
		t.Fatal(err)
	}
	chain := []*x509.Certificate{parse(t, [][]byte{der})[0], ca}
	if f.chain != nil {
		chain = f.chain(chain)
	}
	return chain
}

// The key of one owner, or an unknown key, authenticates no other owner in any form.
//
// Promise: Connections and certificates: A certificate authorises only the role that the key of its owner delegated,
// at one datacenter or coordinator.
// How: The verifier requires one URI, the owner's key in the roster, and the expected role.
// Also: TestIssuerIssuesOnlyForItsOwner, TestANodeAsksItsSupervisorOnly,
// TestNodeLogsInAtTheRedisOfItsDatacenterOnly.
func TestCertificateNeedsItsOwnersDelegation(t *testing.T) {
	r := testRoster(t)
	v := &Verifier{Roster: r, Now: noon}
	stranger := forged{root: "stranger"}
	other := Name{Cluster: identity.ClusterOf(sshsig.SSHKey(public("alice"))), Role: Supervisor, Datacenter: vienna}
	shown := func(f forged, name Name) []*x509.Certificate { return f.make(t, r, name) }
	if err := v.Is(supervisorOfVienna, shown(forged{root: "vienna"}, supervisorOfVienna)); err != nil {
		t.Fatalf("the unchanged certificate is refused: %v", err)
	}
	uri := func(text string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			c.URIs = []*url.URL{u}
		}
	}
	self := supervisorOfVienna.in(r).String()
	ofGraz, supervisorOfGraz, redisOfVienna := owner{Cluster: r.Cluster, Datacenter: graz}, Name{Role: Supervisor, Datacenter: graz}, Name{Role: Redis, Datacenter: vienna}
	for name, tt := range map[string]struct {
		chain []*x509.Certificate
		want  Name
		code  writ.Code
	}{
		"a stranger as supervisor":            {shown(stranger, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"a stranger as node":                  {shown(stranger, nodeOfVienna), nodeOfVienna, writ.CodeCertificateUntrusted},
		"a stranger as coordinator":           {shown(stranger, frontCoordinator), frontCoordinator, writ.CodeCertificateUntrusted},
		"the root's own key as supervisor":    {shown(forged{root: "root"}, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"graz as supervisor of vienna":        {shown(forged{root: "graz"}, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"graz as node of vienna":              {shown(forged{root: "graz"}, nodeOfVienna), nodeOfVienna, writ.CodeCertificateUntrusted},
		"graz as Redis of vienna":             {shown(forged{root: "graz"}, Name{Role: Redis, Datacenter: vienna}), Name{Role: Redis, Datacenter: vienna}, writ.CodeCertificateUntrusted},
		"graz as coordinator":                 {shown(forged{root: "graz"}, frontCoordinator), frontCoordinator, writ.CodeCertificateUntrusted},
		"the coordinator as supervisor":       {shown(forged{root: "front"}, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"vienna's delegation for graz":        {shown(forged{root: "vienna", of: owner{Cluster: r.Cluster, Datacenter: graz}}, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"graz's authority as supervisor":      {shown(forged{root: "graz", of: ofGraz}, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"graz's authority as Redis of vienna": {shown(forged{root: "graz", of: ofGraz}, redisOfVienna), redisOfVienna, writ.CodeCertificateUntrusted},
		"graz's authority as coordinator":     {shown(forged{root: "graz", of: ofGraz}, frontCoordinator), frontCoordinator, writ.CodeCertificateUntrusted},
		"graz with the URI of vienna, too": {shown(forged{root: "graz", leaf: func(c *x509.Certificate) { c.URIs = append(c.URIs, supervisorOfVienna.in(r).URI()) }}, supervisorOfGraz),
			supervisorOfVienna, writ.CodeCertificateUntrusted},
		"graz with the name of vienna":        {shown(forged{root: "graz", leaf: func(c *x509.Certificate) { c.DNSNames = []string{"vienna"} }}, supervisorOfGraz), supervisorOfVienna, writ.CodeCertificateRole},
		"a delegation for another key":        {shown(forged{root: "vienna", key: public("graz")}, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"an envelope of another kind":         {shown(forged{root: "vienna", kind: envelope.Standing}, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"no delegation":                       {shown(forged{root: "vienna", without: true}, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"another cluster":                     {own(t, &Issuer{Key: testKey("vienna"), Name: other, Now: func() time.Time { return noon }}), supervisorOfVienna, writ.CodeWrongCluster},
		"a node as supervisor":                {shown(forged{root: "vienna"}, nodeOfVienna), supervisorOfVienna, writ.CodeCertificateRole},
		"Redis as supervisor":                 {shown(forged{root: "vienna"}, Name{Role: Redis, Datacenter: vienna}), supervisorOfVienna, writ.CodeCertificateRole},
		"graz where vienna is expected":       {shown(forged{root: "graz"}, Name{Role: Supervisor, Datacenter: graz}), supervisorOfVienna, writ.CodeCertificateRole},
		"another node":                        {shown(forged{root: "vienna"}, Name{Role: Node, Datacenter: vienna, ID: front}), nodeOfVienna, writ.CodeCertificateRole},
		"a node's certificate that may serve": {shown(forged{root: "vienna", leaf: func(c *x509.Certificate) { c.ExtKeyUsage = usages[Supervisor] }}, nodeOfVienna), nodeOfVienna, writ.CodeCertificateUntrusted},
		"two URIs":                            {shown(forged{root: "vienna", leaf: func(c *x509.Certificate) { c.URIs = append(c.URIs, nodeOfVienna.in(r).URI()) }}, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"no URI but a name":                   {shown(forged{root: "vienna", leaf: func(c *x509.Certificate) { c.URIs, c.DNSNames = nil, []string{"vienna"} }}, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"a URI with more behind it":           {shown(forged{root: "vienna", leaf: uri(self + "/x")}, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"a URI with a query":                  {shown(forged{root: "vienna", leaf: uri(self + "?a=b")}, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"a URI with a user":                   {shown(forged{root: "vienna", leaf: uri(strings.Replace(self, "://", "://a@", 1))}, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"a URI in another spelling":           {shown(forged{root: "vienna", leaf: uri(strings.Replace(self, "/dc/", "/%64c/", 1))}, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"an authority as leaf":                {shown(forged{root: "vienna", leaf: func(c *x509.Certificate) { c.IsCA = true }}, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"an unknown extension": {shown(forged{root: "vienna", leaf: func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3}, Critical: true, Value: []byte{5, 0}}}
		}}, supervisorOfVienna), supervisorOfVienna, writ.CodeCertificateUntrusted},
		"the leaf alone":                          {shown(forged{root: "vienna"}, supervisorOfVienna)[:1], supervisorOfVienna, writ.CodeCertificateUntrusted},
		"nothing":                                 {nil, supervisorOfVienna, writ.CodeCertificateUntrusted},
		"a leaf that another authority issued":    {[]*x509.Certificate{shown(stranger, supervisorOfVienna)[0], shown(forged{root: "vienna"}, supervisorOfVienna)[1]}, supervisorOfVienna, writ.CodeCertificateUntrusted},
		"a leaf that a node's certificate issued": {byNode(t, r), supervisorOfVienna, writ.CodeCertificateUntrusted},
	} {
		t.Run(name, func(t *testing.T) {
			err := v.Is(tt.want, tt.chain)
			if writ.CodeOf(err) != tt.code {
				t.Errorf("%v (%s), want %s", err, writ.CodeOf(err), tt.code)
			}
			if e := writ.AsError(err); e == nil || e.Hint == "" || e.Code.Info().Exit != writ.ExitDenied {
				t.Errorf("no hint, or another exit code: %v", e)
			}
		})
	}
}

// byNode returns a certificate that a node issued with the key of its own certificate.
func byNode(t *testing.T, r *identity.Roster) []*x509.Certificate {
	t.Helper()
	chain, err := issuer(r, "vienna", supervisorOfVienna).Issue(nodeOfVienna.in(r), public("somebody"))
	if err != nil {
		t.Fatal(err)
	}
	node := parse(t, chain)[0]
	leaf := &x509.Certificate{SerialNumber: serial(), NotBefore: noon, NotAfter: noon.Add(time.Hour), ExtKeyUsage: usages[Supervisor], URIs: []*url.URL{supervisorOfVienna.in(r).URI()}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, node, public("thief"), testKey("somebody"))
	if err != nil {
		t.Fatal(err)
	}
	return []*x509.Certificate{parse(t, [][]byte{der})[0], node}
}

func TestIssuerIssuesOnlyForItsOwner(t *testing.T) {
	r := testRoster(t)
	i := issuer(r, "vienna", supervisorOfVienna)
	for _, name := range []Name{{Role: Supervisor, Datacenter: graz}, frontCoordinator, {Role: Node, Datacenter: vienna}, {Role: "root", Datacenter: vienna}} {
		if _, err := i.Issue(name.in(r), public("somebody")); err == nil {
			t.Errorf("it issued for %s", name.in(r))
		}
	}
}

func TestInvalidCertificateTimeNamesClocks(t *testing.T) {
	r := testRoster(t)
	chain := own(t, issuer(r, "vienna", supervisorOfVienna))
	for _, tt := range []struct {
		now  time.Time
		code writ.Code
		says string
	}{
		{time.Unix(0, 0), writ.CodeCertificateNotYetValid, "1970-01-01 00:00 UTC"},
		{noon.Add(-Backdate - time.Minute), writ.CodeCertificateNotYetValid, "wrong by 1m0s or more"},
		{noon.Add(-Backdate), "", ""},
		{noon.Add(Life - time.Second), "", ""},
		{noon.Add(Life), writ.CodeCertificateExpired, "ended at 2027-02-19 10:00 UTC"},
		{noon.Add(200 * 24 * time.Hour), writ.CodeCertificateExpired, "2027-06-09 10:00 UTC"},
	} {
		err := (&Verifier{Roster: r, Now: tt.now}).Is(supervisorOfVienna, chain)
		if writ.CodeOf(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("at %s: %v", tt.now, err)
		}
	}
}

// Promise: Connections and certificates: Certificates are renewed without a restart, and an error about an expired
// certificate names both clocks.
// How: Renewal starts at two thirds of 90 days.
// Also: TestInvalidCertificateTimeNamesClocks, TestSetClockRenewsCertificates.
func TestCertificateRenewsAtTwoThirdsOfItsLife(t *testing.T) {
	r := testRoster(t)
	now := noon
	i := issuer(r, "vienna", supervisorOfVienna)
	i.Now = func() time.Time { return now }
	first := own(t, i)
	if got := RenewFrom(first[0].NotBefore, first[0].NotAfter); !got.Equal(noon.Add(60 * 24 * time.Hour)) {
		t.Errorf("renewed from %s on", got)
	}
	now = noon.Add(60*24*time.Hour - time.Second)
	if !own(t, i)[0].Equal(first[0]) {
		t.Error("it was renewed too early")
	}
	now = now.Add(time.Second)
	second := own(t, i)
	if second[0].Equal(first[0]) || !second[1].Equal(first[1]) || second[0].PublicKey.(ed25519.PublicKey).Equal(first[0].PublicKey) {
		t.Error("it was not renewed, or not with another key, or by another authority")
	}
	// For years of renewals, no certificate has expired or outlives its authority.
	for range 100 {
		now = now.Add(20 * 24 * time.Hour)
		chain := own(t, i)
		if err := (&Verifier{Roster: r, Now: now}).Is(supervisorOfVienna, chain); err != nil {
			t.Fatalf("at %s: %v", now, err)
		}
		if chain[0].NotAfter.After(chain[1].NotAfter) || chain[0].NotAfter.Sub(now) < Life/3-20*24*time.Hour {
			t.Fatalf("at %s it has until %s, its authority until %s", now, chain[0].NotAfter, chain[1].NotAfter)
		}
	}
}

func TestSetClockRenewsCertificates(t *testing.T) {
	r := testRoster(t)
	for name, step := range map[string]time.Duration{"back": -30 * 24 * time.Hour, "ahead": 50 * 365 * 24 * time.Hour} {
		now := noon
		i := issuer(r, "vienna", supervisorOfVienna)
		i.Now = func() time.Time { return now }
		own(t, i)
		now = now.Add(step)
		v := &Verifier{Roster: r, Now: now}
		if err := v.Is(supervisorOfVienna, own(t, i)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := v.Is(nodeOfVienna, parse(t, issue(t, i, nodeOfVienna.in(r)))); err != nil {
			t.Errorf("%s: the certificate of a node: %v", name, err)
		}
	}
}

func TestRotationRevokesEarlierCertificates(t *testing.T) {
	r := testRoster(t)
	i := issuer(r, "vienna", supervisorOfVienna)
	now := noon
	i.Now = func() time.Time { return now }
	before := own(t, i)
	graz := own(t, issuer(r, "graz", Name{Role: Supervisor, Datacenter: graz}))
	now = noon.Add(time.Minute)
	i.Rotate(now)
	after := own(t, i)
	seen := &Verifier{Roster: r, Now: now, Floors: new(Floors)}
	if err := seen.Is(supervisorOfVienna, before); err != nil {
		t.Errorf("refused before the rotation was seen: %v", err)
	}
	for range 2 {
		if err := seen.Is(supervisorOfVienna, after); err != nil {
			t.Error(err)
		}
		if err := seen.Is(supervisorOfVienna, before); writ.CodeOf(err) != writ.CodeCertificateRevoked {
			t.Errorf("after the rotation: %v", err)
		}
	}
	if _, err := seen.Name(graz); err != nil {
		t.Errorf("the other datacenter's: %v", err)
	}
}

// A floor in the future, for example from a manipulated journal, revokes no new certificate. Neither does a clock that
// is set back.
func TestFloorNeverRevokesNewCertificates(t *testing.T) {
	r := testRoster(t)
	i := issuer(r, "vienna", supervisorOfVienna)
	now := noon
	i.Now = func() time.Time { return now }
	seen := &Verifier{Roster: r, Now: noon.Add(time.Minute), Floors: new(Floors)}
	for name, change := range map[string]func(){
		"a floor in a year":      func() { i.Rotate(noon.AddDate(1, 0, 0)) },
		"a clock that went back": func() { i.Rotate(noon); now = noon.Add(-20 * time.Minute); i.Rotate(time.Time{}) },
	} {
		change()
		if err := seen.Is(supervisorOfVienna, own(t, i)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// After a takeover, or a restart with a corrected clock, the issuer may be behind the clock of the last rotation that
// peers have seen.
func TestFloorOfAFastClockCounts(t *testing.T) {
	r := testRoster(t)
	peer := &Verifier{Roster: r, Now: noon, Floors: new(Floors)}
	ahead := issuer(r, "vienna", supervisorOfVienna)
	ahead.Now = func() time.Time { return noon.Add(5 * time.Minute) }
	ahead.Rotate(noon.Add(5 * time.Minute))
	if err := peer.Is(supervisorOfVienna, own(t, ahead)); err != nil {
		t.Errorf("certificate of the fast clock: %v", err)
	}
	late := issuer(r, "vienna", supervisorOfVienna)
	late.Rotate(noon.Add(5 * time.Minute)) // as read from the journal
	if err := peer.Is(supervisorOfVienna, own(t, late)); err != nil {
		t.Errorf("certificate after the one of the fast clock: %v", err)
	}
}

// A stolen supervisor key can revoke all authorities of future years. The key that replaces it in the roster is not
// affected.
func TestStolenKeyDoesNotLockOutItsSuccessor(t *testing.T) {
	r := testRoster(t)
	thief := issuer(r, "vienna", supervisorOfVienna)
	thief.Now = func() time.Time { return noon }
	thief.floor = noon.AddDate(50, 0, 0)
	kept := map[string]int64{}
	seen := &Verifier{Roster: r, Now: noon.Add(time.Minute), Floors: new(Floors)}
	seen.Floors.Keep(r.Cluster, nil, func(f Floor) { kept[string(f.Key)] = f.Time })
	_ = seen.Is(supervisorOfVienna, own(t, thief))
	for _, floor := range kept {
		if floor > noon.Add(Backdate).UnixMilli() {
			t.Errorf("a floor in %s is kept", time.UnixMilli(floor))
		}
	}
	r.Datacenters[slices.IndexFunc(r.Datacenters, func(d identity.Datacenter) bool { return d.ID == vienna })].SupervisorKey = public("next")
	next := issuer(r, "next", supervisorOfVienna)
	next.Now = func() time.Time { return noon.Add(time.Minute) }
	if err := seen.Is(supervisorOfVienna, own(t, next)); err != nil {
		t.Error(err)
	}
}

func TestIssuerDescribesItsCertificates(t *testing.T) {
	r := testRoster(t)
	i := issuer(r, "vienna", supervisorOfVienna)
	i.Rotate(noon)
	for name, chain := range map[Role][][]byte{Supervisor: nil, Redis: issue(t, i, Name{Role: Redis, Datacenter: vienna}.in(r))} {
		got, err := i.Describe(chain)
		if err != nil {
			t.Fatal(err)
		}
		want := writ.Certificate{
			Of: string(name), Name: Name{Role: name, Datacenter: vienna}.in(r).String(),
			From: noon, Until: noon.Add(Life), Renew: noon.Add(Life * 2 / 3), Authority: noon, Floor: noon,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// issue returns a chain for a new key.
func issue(t *testing.T, i *Issuer, name Name) [][]byte {
	t.Helper()
	chain, err := i.Issue(name, public("any"))
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// Real connections use only TLS 1.3, without resumption, and both sides authenticate each other.
func TestBothSidesOfAConnectionKnowEachOther(t *testing.T) {
	r := testRoster(t)
	super := issuer(r, "vienna", supervisorOfVienna)
	super.Now = nil
	issued, err := super.Issue(nodeOfVienna.in(r), public("n1"))
	if err != nil {
		t.Fatal(err)
	}
	is := func(want Name) func([]*x509.Certificate) error {
		return func(chain []*x509.Certificate) error {
			return (&Verifier{Roster: r, Now: time.Now()}).Is(want, chain)
		}
	}
	node := func() (*tls.Certificate, error) {
		return &tls.Certificate{Certificate: issued, PrivateKey: testKey("n1")}, nil
	}
	server := Server(super.Certificate, is(nodeOfVienna))
	state, err := connect(t, server, Client(is(supervisorOfVienna), node))
	if err != nil || state.Version != tls.VersionTLS13 || len(state.PeerCertificates) != 2 {
		t.Errorf("%v, %x, %d certificates", err, state.Version, len(state.PeerCertificates))
	}
	if state, err = connect(t, server, Client(is(supervisorOfVienna), nil)); err != nil || len(state.PeerCertificates) != 0 {
		t.Errorf("without a certificate: %v", err)
	}
	if _, err = connect(t, server, Client(is(frontCoordinator), node)); writ.CodeOf(err) != writ.CodeCertificateRole {
		t.Errorf("a client that expects a coordinator: %v", err)
	}
	wrong := func() (*tls.Certificate, error) { return super.Certificate() }
	if _, err = connect(t, server, Client(is(supervisorOfVienna), wrong)); err == nil {
		t.Error("a server that expects nodes took a supervisor")
	}
	old := Client(is(supervisorOfVienna), node)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, err = connect(t, server, old); err == nil {
		t.Error("TLS 1.2 was spoken")
	}
	resuming := Client(is(supervisorOfVienna), node)
	resuming.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	for range 3 {
		if state, err = connect(t, server, resuming); err != nil || state.DidResume {
			t.Errorf("resumed %t, %v", state.DidResume, err)
		}
	}
}

// One listener has a certificate for clients of writ and another one for all others. Both kinds of clients use
// HTTP/1.1. A client that offers the wrong protocol gets the other certificate and rejects it.
//
// Promise: Connections and certificates: Browsers and `curl` get the public certificate of a coordinator that has
// one, and writ clients get the certificate that the roster verifies.
// How: writ clients identify themselves by ALPN; a false claim yields a certificate that the client does not trust.
// Also: TestACoordinatorShowsBrowsersACertificateThatTheyKnow.
func TestClientsAndBrowsersGetSeparateCertificates(t *testing.T) {
	r := testRoster(t)
	i := issuer(r, "front", frontCoordinator)
	i.Now = nil
	web, authorities := webCertificate(t, "front.example.org")
	server := WithPublic(Server(i.Certificate, nil), func() (*tls.Certificate, error) { return web, nil })
	writClient := Client(func(chain []*x509.Certificate) error {
		return (&Verifier{Roster: r, Now: time.Now()}).Is(frontCoordinator, chain)
	}, nil)
	browser := &tls.Config{RootCAs: authorities, ServerName: "front.example.org", NextProtos: []string{"h2", "http/1.1"}}
	changed := func(c *tls.Config, protocols ...string) *tls.Config {
		c = c.Clone()
		c.NextProtos = protocols
		return c
	}
	for name, tt := range map[string]struct {
		client   *tls.Config
		protocol string
		trusted  bool
	}{
		"a client of writ":                  {writClient, "http/1.1", true},
		"a browser":                         {browser, "http/1.1", true},
		"a tool without ALPN":               {changed(browser), "", true},
		"a client of writ that hides it":    {changed(writClient, "http/1.1"), "http/1.1", false},
		"a browser with the marker of writ": {changed(browser, Marker, "http/1.1"), "http/1.1", false},
	} {
		state, err := connect(t, server, tt.client)
		if err == nil != tt.trusted || tt.trusted && state.NegotiatedProtocol != tt.protocol {
			t.Errorf("%s: %v, %q", name, err, state.NegotiatedProtocol)
		}
	}
	if _, err := connect(t, Server(i.Certificate, nil), writClient); err != nil {
		t.Errorf("a coordinator without a certificate for browsers: %v", err)
	}
}

// webCertificate returns a certificate for a host by an authority that no roster contains.
func webCertificate(t *testing.T, host string) (*tls.Certificate, *x509.CertPool) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: serial(), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public("web"), testKey("web"))
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AddCert(parse(t, [][]byte{der})[0])
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: testKey("web")}, authorities
}

// connect returns the server's connection state after one byte was sent in each direction.
func connect(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	near, far := net.Pipe()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	served := make(chan error, 1)
	s := tls.Server(far, server)
	go func() {
		defer far.Close()
		err := s.HandshakeContext(ctx)
		if err == nil {
			_, err = s.Write([]byte{1})
		}
		served <- err
	}()
	c := tls.Client(near, client)
	err := c.HandshakeContext(ctx)
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	near.Close()
	if other := <-served; err == nil {
		err = other
	}
	return s.ConnectionState(), err
}

func TestNamesAreReadAsTheyAreWritten(t *testing.T) {
	r := testRoster(t)
	for _, n := range []Name{supervisorOfVienna, nodeOfVienna, frontCoordinator, {Role: Redis, Datacenter: vienna}} {
		if have, ok := parseName(n.in(r).URI()); !ok || have != n.in(r) {
			t.Errorf("%s became %v", n.in(r), have)
		}
	}
	for _, n := range []Name{{}, {Role: Node, Datacenter: vienna}, {Role: Supervisor}, {Role: Coordinator, Datacenter: vienna, ID: front}, {Role: Supervisor, Datacenter: vienna, ID: n1}} {
		if _, ok := parseName(n.in(r).URI()); ok {
			t.Errorf("%s is a name", n.in(r))
		}
	}
}
