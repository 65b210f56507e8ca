package identity

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/header"
	"writ/identity/sshsig"
)

func TestRosterKeepsItsValues(t *testing.T) {
	want := testRoster()
	want.Projects[0].Tenant = ""
	text, err := want.Text()
	if err != nil {
		t.Fatal(err)
	}
	have, err := ParseRoster(text)
	if err != nil {
		t.Fatal(err)
	}
	sameKey := cmp.Comparer(func(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) })
	sorted := []cmp.Option{
		cmpopts.SortSlices(func(a, b Principal) bool { return a.Name < b.Name }),
		cmpopts.SortSlices(func(a, b PrincipalKey) bool { return bytes.Compare(a.Key.Marshal(), b.Key.Marshal()) < 0 }),
		cmpopts.SortSlices(func(a, b Binding) bool { return a.Principal+string(a.Role) < b.Principal+string(b.Role) }),
		cmpopts.SortSlices(func(a, b Project) bool { return a.ID < b.ID }),
	}
	if diff := cmp.Diff(want, have, append(sorted, sameKey, cmpopts.IgnoreUnexported(Roster{}))...); diff != "" {
		t.Error(diff)
	}
}

// Each case violates one rule of rosters.
func TestRosterRefusesContradictions(t *testing.T) {
	for name, change := range map[string]func(r *Roster){
		"cluster":             func(r *Roster) { r.Cluster = ClusterOf(testPublic("alice")) },
		"version 0":           func(r *Roster) { r.Version = 0 },
		"version 1 after one": func(r *Roster) { r.Previous = writ.Digest{1} },
		"expires":             func(r *Roster) { r.Expires = r.Created },
		"expires late":        func(r *Roster) { r.Expires = r.Created.Add(maxRosterValidity + time.Second) },
		"no root":             func(r *Roster) { r.Root = nil },
		"root is a cert": func(r *Roster) {
			r.Root = certify(t, "forge", "root", nil).PublicKey()
			r.Cluster = ClusterOf(r.Root)
		},
		"threshold 0":           func(r *Roster) { r.Threshold = 0 },
		"threshold 4":           func(r *Roster) { r.Threshold = 4 },
		"no operator":           func(r *Roster) { r.Operators, r.Threshold = nil, 1 },
		"operator twice":        func(r *Roster) { r.Operators[1] = "alice" },
		"operator unknown":      func(r *Roster) { r.Operators[0] = "zoe" },
		"operator is a machine": func(r *Roster) { r.Operators[0] = "ci/shop" },
		"operator revoked":      func(r *Roster) { r.Operators[0] = "dave" },
		"operator without key":  func(r *Roster) { r.Principals[1].Keys[0].State = Removed },
		"verified role":         func(r *Roster) { r.UserVerification = []Role{"king"} },
		"verified role twice":   func(r *Roster) { r.UserVerification = []Role{Admin, Admin} },
		"principal name": func(r *Roster) {
			r.Principals = append(r.Principals, Principal{Name: "Zoe", Kind: Person, State: Active})
		},
		"principal twice": func(r *Roster) {
			r.Principals = append(r.Principals, Principal{Name: "ci/shop", Kind: CI, State: Removed})
		},
		"principal kind":        func(r *Roster) { r.Principals[7].Kind = "cat" },
		"principal state":       func(r *Roster) { r.Principals[7].State = "" },
		"key state":             func(r *Roster) { r.Principals[7].Keys[0].State = "" },
		"key of two":            func(r *Roster) { r.Principals[7].Keys[0].Key = testPublic("bob") },
		"key twice":             func(r *Roster) { r.Principals[0].Keys[1] = r.Principals[0].Keys[0] },
		"key is a cert":         func(r *Roster) { r.Principals[7].Keys[0].Key = certify(t, "forge", "frank", nil).PublicKey() },
		"no key":                func(r *Roster) { r.Principals[7].Keys[0].Key = nil },
		"authority name":        func(r *Roster) { r.Authorities[0].Name = "The Forge" },
		"authority twice":       func(r *Roster) { r.Authorities[0].Name = "old-forge" },
		"authority state":       func(r *Roster) { r.Authorities[0].State = "" },
		"authority's key":       func(r *Roster) { r.Authorities[0].Key = testPublic("alice") },
		"authority of nobody":   func(r *Roster) { r.Authorities[0].Principals = nil },
		"authority of a person": func(r *Roster) { r.Authorities[0].Principals = []string{"alice"} },
		"authority twice of":    func(r *Roster) { r.Authorities[0].Principals = []string{"ci/shop", "ci/shop"} },
		"tenant id":             func(r *Roster) { r.Tenants[0].ID = "acme" },
		"tenant name":           func(r *Roster) { r.Tenants[0].Name = "" },
		"project id":            func(r *Roster) { r.Projects[0].ID = "mail" },
		"project id twice":      func(r *Roster) { r.Projects[0].ID = r.Projects[1].ID },
		"project name twice":    func(r *Roster) { r.Projects[0].Name = "web-shop" },
		"project's tenant":      func(r *Roster) { r.Projects[0].Tenant = nodeID },
		"binding of a stranger": func(r *Roster) { r.Bindings[0].Principal = "zoe" },
		"binding's role":        func(r *Roster) { r.Bindings[2].Role = "king" },
		"binding's project":     func(r *Roster) { r.Bindings[0].Project = nodeID },
		"binding twice":         func(r *Roster) { r.Bindings[1] = r.Bindings[0] },
		"destructive admin":     func(r *Roster) { r.Bindings[1].Destructive = true },
		"datacenter id":         func(r *Roster) { r.Datacenters[0].ID = "vienna" },
		"datacenter id twice":   func(r *Roster) { r.Datacenters[0].ID = grazID },
		"datacenter name twice": func(r *Roster) { r.Datacenters[0].Name = "graz" },
		"region":                func(r *Roster) { r.Datacenters[0].Region = "" },
		"no supervisor key":     func(r *Roster) { r.Datacenters[0].SupervisorKey = nil },
		"supervisor key twice":  func(r *Roster) { r.Datacenters[0].SupervisorKey = supervisorKey("graz") },
		"label key":             func(r *Roster) { r.Datacenters[0].Labels = map[string]string{"A=B": "c"} },
		"label value":           func(r *Roster) { r.Datacenters[0].Labels = map[string]string{"a": "b c"} },
		"coordinator id":        ofCoordinator(func(c *Coordinator) { c.ID = "front" }),
		"coordinator name":      ofCoordinator(func(c *Coordinator) { c.Name = "Front" }),
		"coordinator twice":     func(r *Roster) { r.Coordinators = append(r.Coordinators, testCoordinator(), testCoordinator()) },
		"coordinator key":       ofCoordinator(func(c *Coordinator) { c.Key = nil }),
		"a supervisor's key":    ofCoordinator(func(c *Coordinator) { c.Key = supervisorKey("graz") }),
		"no URL":                ofCoordinator(func(c *Coordinator) { c.URLs = nil }),
		"URL without TLS":       ofCoordinator(func(c *Coordinator) { c.URLs = []string{"http://front.example.org"} }),
		"URL with a path":       ofCoordinator(func(c *Coordinator) { c.URLs = []string{"https://front.example.org/"} }),
		"URL with a password":   ofCoordinator(func(c *Coordinator) { c.URLs = []string{"https://a:b@front.example.org"} }),
		"URL with a query":      ofCoordinator(func(c *Coordinator) { c.URLs = []string{"https://front.example.org?a"} }),
		"URL in capitals":       ofCoordinator(func(c *Coordinator) { c.URLs = []string{"https://Front.example.org"} }),
		"URL with the port":     ofCoordinator(func(c *Coordinator) { c.URLs = []string{"https://front.example.org:443"} }),
		"URL of nothing":        ofCoordinator(func(c *Coordinator) { c.URLs = []string{"https://"} }),
		"URL with a space":      ofCoordinator(func(c *Coordinator) { c.URLs = []string{"https://front example.org"} }),
		"URL twice":             ofCoordinator(func(c *Coordinator) { c.URLs = append(c.URLs, c.URLs[0]) }),
	} {
		t.Run(name, func(t *testing.T) {
			r := testRoster()
			change(r)
			_, err := r.Text()
			wantCode(t, err, writ.CodePayloadMalformed)
		})
	}
}

func ofCoordinator(change func(c *Coordinator)) func(r *Roster) {
	return func(r *Roster) {
		c := testCoordinator()
		change(&c)
		r.Coordinators = append(r.Coordinators, c)
	}
}

func testCoordinator() Coordinator {
	return Coordinator{ID: nodeID, Name: "front", Key: supervisorKey("front"), URLs: []string{"http://127.0.0.1:7440", "https://[fd00::1]", "https://front.example.org:7440"}}
}

// A roster without new features keeps the format that earlier versions of writ can read.
func TestRosterWithCoordinatorsHasFormatTwo(t *testing.T) {
	r := testRoster()
	r.Coordinators = append(r.Coordinators, testCoordinator())
	text, err := r.Text()
	if err != nil {
		t.Fatal(err)
	}
	have, err := ParseRoster(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.Coordinators, have.Coordinators); diff != "" {
		t.Error(diff)
	}
	if have.Coordinator(nodeID) == nil || have.Coordinators.Of(supervisorKey("front")) == nil || have.Coordinators.Of(supervisorKey("graz")) != nil {
		t.Error("a coordinator is not found by its id and key")
	}
	old := strings.Replace(string(text), "writ-roster: v2", "writ-roster: v1", 1)
	if _, err := ParseRoster([]byte(old)); writ.CodeOf(err) != writ.CodePayloadMalformed {
		t.Errorf("the first format with a coordinator: %v", err)
	}
	signed := signRoster(t, r, "root")
	golden(t, "roster-v2.writ", signed)
	next, err := have.Successor(noon)
	if err != nil {
		t.Fatal(err)
	}
	next.Coordinators, next.History = nil, writ.Digest{}
	if text, err := next.Text(); err != nil || !strings.HasPrefix(string(text), "writ-roster: v1\n") {
		t.Errorf("without coordinators: %.20s, %v", text, err)
	}
}

func TestManualApprovalsHaveFormatTwo(t *testing.T) {
	r := testRoster()
	r.Datacenters[0].ManualApproval = true
	text, err := r.Text()
	if err != nil || !strings.HasPrefix(string(text), "writ-roster: v2\n") {
		t.Fatalf("%.20s, %v", text, err)
	}
	have, err := ParseRoster(text)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range r.Datacenters {
		if got := have.Datacenter(d.ID).ManualApproval; got != (i == 0) {
			t.Errorf("%s: %v", d.Name, got)
		}
	}
	line := "manual-approval: " + string(r.Datacenters[0].ID) + "\n"
	for name, bad := range map[string]string{
		"of another datacenter": strings.Replace(string(text), line, "manual-approval: "+nodeID+"\n", 1),
		"twice":                 strings.Replace(string(text), line, line+line, 1),
		"in the first format":   strings.Replace(string(text), "writ-roster: v2", "writ-roster: v1", 1),
	} {
		if _, err := ParseRoster([]byte(bad)); writ.CodeOf(err) != writ.CodePayloadMalformed || bad == string(text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseRosterRefusesMalformedText(t *testing.T) {
	text, _ := testRoster().Text()
	good := string(text)
	vienna := string(ssh.MarshalAuthorizedKey(testPublic("vienna")))
	cert := string(ssh.MarshalAuthorizedKey(certify(t, "forge", "vienna", nil).PublicKey()))
	token := string(ssh.MarshalAuthorizedKey(securityKey("vienna").key))
	for name, bad := range map[string]string{
		"empty":               "",
		"supervisor by cert":  strings.Replace(good, strings.TrimSpace(vienna), strings.TrimSpace(cert), 1),
		"supervisor by token": strings.Replace(good, strings.TrimSpace(vienna), strings.TrimSpace(token), 1),
		"keys of nobody":      regexp.MustCompile(`(?m)^principal: .*\n`).ReplaceAllString(good, ""),
		"other version":       strings.Replace(good, "writ-roster: v1", "writ-roster: v2", 1),
		"order":               strings.Replace(good, "operator: alice\noperator: bob\n", "operator: bob\noperator: alice\n", 1),
		"unknown line":        good + "more: 1\n",
		"empty line":          good + "\n",
		"no line feed":        strings.TrimSuffix(good, "\n"),
		"key type lies":       strings.Replace(good, "key: bob active ssh-ed25519", "key: bob active sk-ssh-ed25519@openssh.com", 1),
		"key of nobody":       strings.Replace(good, "key: bob active", "key: zoe active", 1),
		"key not base64":      strings.Replace(good, "ssh-ed25519 AAAA", "ssh-ed25519 !AAA", 1),
		"key not a key":       strings.Replace(good, "ssh-ed25519 AAAAC3", "ssh-ed25519 AAAAC4", 1),
		"few words":           strings.Replace(good, "binding: alice admin * no -", "binding: alice admin * no", 1),
		"many words":          strings.Replace(good, "binding: alice admin * no -", "binding: alice admin * no - -", 1),
		"binding time":        strings.Replace(good, "2026-11-21T10:01:00Z", "tomorrow", 1),
		"previous":            strings.Replace(good, "previous: -", "previous: x", 1),
	} {
		t.Run(name, func(t *testing.T) {
			if bad == good {
				t.Fatal("the case does not change the text")
			}
			_, err := ParseRoster([]byte(bad))
			wantCode(t, err, writ.CodePayloadMalformed)
		})
	}
}

func TestRosterSuccession(t *testing.T) {
	first := testVerifier(t).Roster
	for name, tt := range map[string]struct {
		signers []string
		change  func(r *Roster)
		want    writ.Code
	}{
		"two operators":         {[]string{"alice", "bob"}, nil, ""},
		"two and a stranger":    {[]string{"alice", "mallory", "bob"}, nil, ""},
		"the root alone":        {[]string{"root"}, nil, ""},
		"one operator":          {[]string{"alice"}, nil, writ.CodeRosterInvalid},
		"nobody":                {nil, nil, writ.CodeSignatureMalformed},
		"one person, two keys":  {[]string{"alice", "alice at home"}, nil, writ.CodeRosterInvalid},
		"one person, twice":     {[]string{"alice", "alice"}, nil, writ.CodeRosterInvalid},
		"a removed key":         {[]string{"bob", "alice old"}, nil, writ.CodeRosterInvalid},
		"a revoked key":         {[]string{"bob", "alice stolen"}, nil, writ.CodeRosterInvalid},
		"not an operator":       {[]string{"bob", "frank"}, nil, writ.CodeRosterInvalid},
		"an operator to be":     {[]string{"bob", "frank"}, func(r *Roster) { r.Operators = append(r.Operators, "frank") }, writ.CodeRosterInvalid},
		"a lower bar to be":     {[]string{"bob"}, func(r *Roster) { r.Threshold = 1 }, writ.CodeRosterInvalid},
		"another cluster":       {[]string{"alice", "bob"}, func(r *Roster) { r.Root = testPublic("x"); r.Cluster = ClusterOf(r.Root) }, writ.CodeRosterInvalid},
		"the same version":      {[]string{"root"}, func(r *Roster) { r.Version, r.Previous = 1, writ.Digest{} }, writ.CodeRosterInvalid},
		"a version left out":    {[]string{"alice", "bob"}, func(r *Roster) { r.Version = 3 }, writ.CodeRosterInvalid},
		"another predecessor":   {[]string{"root"}, func(r *Roster) { r.Previous = writ.Digest{1} }, writ.CodeRosterInvalid},
		"recovery":              {[]string{"root"}, func(r *Roster) { r.Version, r.Previous = 9, writ.Digest{} }, ""},
		"recovery by operators": {[]string{"alice", "bob"}, func(r *Roster) { r.Previous = writ.Digest{} }, writ.CodeRosterInvalid},
		"recovery to the past":  {[]string{"root"}, func(r *Roster) { r.Version, r.Previous = 1, writ.Digest{} }, writ.CodeRosterInvalid},
		"expired":               {[]string{"root"}, func(r *Roster) { r.Created, r.Expires = noon.Add(-2*time.Hour), noon.Add(-time.Hour) }, writ.CodeRosterInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			next, err := first.Successor(noon)
			if err != nil {
				t.Fatal(err)
			}
			if tt.change != nil {
				tt.change(next)
			}
			_, err = VerifyRoster(first, signRoster(t, next, tt.signers...), noon)
			wantCode(t, err, tt.want)
		})
	}
}

func TestRosterSignaturesMustBeProper(t *testing.T) {
	next, err := testVerifier(t).Roster.Successor(noon)
	if err != nil {
		t.Fatal(err)
	}
	first := testVerifier(t).Roster
	good := signRoster(t, next, "alice", "bob")
	text, _ := next.Text()
	asStatement, _ := testSigner("root").Sign(sshsig.StatementNamespace, text)
	for name, tt := range map[string]struct {
		signed []byte
		want   writ.Code
	}{
		"namespace":  {sshsig.Join(text, asStatement), writ.CodeSignatureNamespace},
		"text":       {bytes.Replace(good, []byte("bob deployer"), []byte("bob operator"), 1), writ.CodeSignatureInvalid},
		"cut":        {good[:len(good)-2], writ.CodeSignatureMalformed},
		"between":    {bytes.Replace(good, []byte("END SSH SIGNATURE-----\n"), []byte("END SSH SIGNATURE-----\nx"), 1), writ.CodeSignatureMalformed},
		"after":      {append(bytes.Clone(good), 'x'), writ.CodeSignatureMalformed},
		"too long":   {append(bytes.Clone(good), bytes.Repeat([]byte("x"), sshsig.MaxSigned)...), writ.CodeTooLarge},
		"long text":  {append(bytes.Repeat([]byte("x"), header.MaxText+1), append([]byte("\n"), asStatement...)...), writ.CodeTooLarge},
		"no roster":  {signBytes(t, testSigner("root"), sshsig.RosterNamespace, []byte("hello\n")), writ.CodePayloadMalformed},
		"first of 2": {signRoster(t, next, "root"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := VerifyRoster(first, tt.signed, noon)
			wantCode(t, err, tt.want)
		})
	}
}

func TestSignRosterPassesErrorsOn(t *testing.T) {
	broken := testRoster()
	broken.Threshold = 0
	_, err := SignRoster(broken, testSigner("root"))
	wantCode(t, err, writ.CodePayloadMalformed)
	_, err = SignRoster(testRoster(), removedKey{testSigner("root")})
	wantCode(t, err, writ.CodeKeyUnusable)
}

// removedKey is a signer whose token was removed.
type removedKey struct{ sshsig.Signer }

func (removedKey) Sign(sshsig.Namespace, []byte) ([]byte, error) {
	return nil, writ.Errorf(writ.CodeKeyUnusable, "no token")
}

func TestFirstRosterIsSignedByItsRoot(t *testing.T) {
	_, err := VerifyRoster(nil, signRoster(t, testRoster(), "alice", "bob"), noon)
	wantCode(t, err, writ.CodeRosterInvalid)
	second := testRoster()
	second.Version = 2
	_, err = VerifyRoster(nil, signRoster(t, second, "root"), noon)
	wantCode(t, err, writ.CodeRosterInvalid)
	_, err = VerifyRoster(nil, signRoster(t, testRoster(), "root"), testRoster().Expires.Add(time.Second))
	wantCode(t, err, writ.CodeRosterInvalid)
	if says := "the clock of this machine shows " + header.FormatTime(testRoster().Expires.Add(time.Second)); err != nil && !strings.Contains(err.Error(), says) {
		t.Errorf("the error does not name the clock: %v", err)
	}
	if _, err = VerifyRoster(nil, signRoster(t, testRoster(), "root"), time.Time{}); err != nil {
		t.Errorf("reading back: %v", err)
	}
}

// Promise: Signatures and rosters: A roster is accepted only if its chain of signatures starts at the root key.
// How: The operators of the previous roster or the root key sign each roster from version 1 on.
func TestRosterChainLeadsFromThePin(t *testing.T) {
	first := testRoster()
	first.Created, first.Expires = noon.Add(-200*24*time.Hour), noon.Add(-100*24*time.Hour) // expired long ago
	chain := [][]byte{signRoster(t, first, "root")}
	second, err := first.Successor(noon)
	if err != nil {
		t.Fatal(err)
	}
	second.Operators = []string{"alice", "frank", "carol"}
	chain = append(chain, signRoster(t, second, "alice", "bob"))
	third, err := second.Successor(noon)
	if err != nil {
		t.Fatal(err)
	}
	chain = append(chain, signRoster(t, third, "alice", "frank"))
	have, err := VerifyRosters(testCluster(), chain, noon)
	if err != nil {
		t.Fatal(err)
	}
	if have.Version != 3 {
		t.Errorf("version %d", have.Version)
	}
	for name, tt := range map[string]struct {
		pin   writ.ClusterID
		chain [][]byte
		now   time.Time
		want  writ.Code
	}{
		"another pin": {ClusterOf(testPublic("x")), chain, noon, writ.CodeWrongCluster},
		"none":        {testCluster(), nil, noon, writ.CodeRosterInvalid},
		"no first":    {testCluster(), chain[1:], noon, writ.CodeRosterInvalid},
		"gap":         {testCluster(), [][]byte{chain[0], chain[2]}, noon, writ.CodeRosterInvalid},
		"swapped":     {testCluster(), [][]byte{chain[0], chain[2], chain[1]}, noon, writ.CodeRosterInvalid},
		"expired":     {testCluster(), chain, third.Expires.Add(time.Second), writ.CodeRosterInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := VerifyRosters(tt.pin, tt.chain, tt.now)
			wantCode(t, err, tt.want)
		})
	}
}

func TestRosterFinds(t *testing.T) {
	r := testRoster()
	if d := r.Datacenters.Of(supervisorKey("graz")); d == nil || d.ID != grazID {
		t.Errorf("DatacenterOf = %v", d)
	}
	if d := r.Datacenters.Named("vienna"); d == nil || d.ID != viennaID {
		t.Errorf("DatacenterNamed = %v", d)
	}
	if p := r.Projects.Named("mail"); len(p) != 1 || p[0].ID != mailID {
		t.Errorf("ProjectsNamed = %v", p)
	}
	if r.Datacenters.Of(nil) != nil || r.Datacenters.Named("x") != nil || r.Datacenter("") != nil || r.Project("") != nil || r.Principal("") != nil {
		t.Error("found a missing entry")
	}
}

func TestRights(t *testing.T) {
	r := testRoster()
	for _, tt := range []struct {
		principal string
		action    Action
		project   writ.ProjectID
		want      writ.Code
	}{
		{"alice", ActionSubmit, shopID, ""},
		{"alice", ActionDestroy, mailID, ""},
		{"alice", ActionCreateTokens, "", ""},
		{"alice", ActionAdmitNodes, "", ""},
		{"alice", ActionGovern, "", ""},
		{"bob", ActionRead, shopID, ""},
		{"bob", ActionSubmit, shopID, ""},
		{"bob", ActionControlRuns, shopID, ""},
		{"bob", ActionDestroy, shopID, writ.CodeDestructiveDenied},
		{"bob", ActionSubmit, mailID, writ.CodeRoleMissing},
		{"bob", ActionSubmit, "", writ.CodeRoleMissing},
		{"bob", ActionScheduleNodes, "", writ.CodeRoleMissing},
		{"bob", ActionDestroy, mailID, writ.CodeRoleMissing},
		{"carol", ActionScheduleNodes, "", ""},
		{"carol", ActionControlRuns, mailID, ""},
		{"carol", ActionSubmit, mailID, writ.CodeRoleMissing},
		{"carol", ActionAdmitNodes, "", writ.CodeRoleMissing},
		{"frank", ActionSubmit, shopID, ""},
		{"frank", ActionGovern, "", writ.CodeRoleMissing},
		{"dave", ActionSubmit, shopID, writ.CodeSignerRevoked},
		{"eve", ActionSubmit, shopID, writ.CodeSignerUnknown},
		{"zoe", ActionRead, shopID, writ.CodeSignerUnknown},
	} {
		t.Run(tt.principal+" "+string(tt.action), func(t *testing.T) {
			wantCode(t, r.Allows(tt.principal, tt.action, tt.project, noon), tt.want)
		})
	}
	wantCode(t, r.Allows("frank", ActionSubmit, shopID, noon.Add(time.Minute)), writ.CodeRoleMissing)
}

// The error for a missing role names the required role and the command that binds it.
func TestMissingRoleIsNamed(t *testing.T) {
	r := testRoster()
	for _, tt := range []struct {
		who     string
		action  Action
		project writ.ProjectID
		want    string
	}{
		{"carol", ActionSubmit, mailID, "deployer allows it; a root operator binds a role: writ user add carol --role deployer --project mail"},
		{"bob", ActionDestroy, mailID, "deployer allows it; a root operator binds a role: writ user add bob --role deployer --destructive --project mail"},
		{"bob", ActionDestroy, shopID, "a root operator can allow it: writ user add bob --role deployer --destructive --project web-shop"},
		{"bob", ActionScheduleNodes, "", "operator or admin allows it; a root operator binds a role: writ user add bob --role operator --project '*'"},
	} {
		if err := writ.AsError(r.Allows(tt.who, tt.action, tt.project, noon)); err.Hint != tt.want {
			t.Errorf("%s may not %s: %v, %s", tt.who, tt.action, err, err.Hint)
		}
	}
}
