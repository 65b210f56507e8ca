package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/chain"
	"writ/identity/sshsig"
	"writ/runner/member"
	"writ/supervisor/nodes"
)

func TestATokenMakesAMemberThatSurvivesRestarts(t *testing.T) {
	s, dir := newFixture(t), t.TempDir()
	first := s.join(dir)
	if first.Admission() != writ.AdmissionApproved || !writ.ValidUUID(string(first.Node())) || first.Datacenter() != s.datacenter {
		t.Fatalf("joined as %s node %q of %s", first.Admission(), first.Node(), first.Datacenter())
	}
	if len(s.claims) != 1 || len(s.claims[0].Proof) == 0 {
		t.Errorf("claims = %+v, want one with a proof of the token", s.claims)
	}

	again, err := member.Join(t.Context(), member.Joining{Dir: dir, API: s})
	must(t, err)
	if again.Node() != first.Node() || !again.PublicKey().Equal(first.PublicKey()) || again.Roster().Version != 1 {
		t.Error("the restarted node has another identity")
	}
	if len(s.claims) != 1 {
		t.Error("a member asked to be admitted again")
	}
	for _, name := range []string{"node.key", "age.key", "member.json"} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want one for its owner only", name, info.Mode().Perm())
		}
	}
}

// A node sends its machine's serial number, signed, but only to an authenticated supervisor that supports it.
func TestJoinReportsSerialNumber(t *testing.T) {
	for name, tt := range map[string]struct {
		takes        bool
		serial, want string
	}{
		"it has one":           {true, "SN-0001", "SN-0001"},
		"it has none":          {true, "", ""},
		"an invalid one":       {true, "Default string", ""},
		"an earlier version":   {false, "SN-0001", ""},
		"one of many machines": {true, "0123456789", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			s.takesSerials = tt.takes
			_, err := member.Join(t.Context(), member.Joining{Dir: t.TempDir(), API: s, Cluster: s.roster.Cluster, Name: "n1", Serial: tt.serial})
			must(t, err)
			if len(s.claims) != 1 || s.claims[0].Serial != tt.want {
				t.Errorf("it claimed %+v", s.claims)
			}
		})
	}
}

// Promise: Admission of nodes: A joining node sends no secret to a wrong supervisor.
// How: The supervisor proves its identity first, up to the pin in the token.
func TestTokenIsUsedAfterSupervisorProof(t *testing.T) {
	token := func(s *fixture) string { return s.token() }
	for name, tt := range map[string]struct {
		token func(s *fixture) string
		spoil func(s *fixture)
		want  writ.Code
	}{
		"another cluster's pin": {
			token: func(*fixture) string {
				return identity.NewToken(identity.ClusterOf(sshsig.NewSigner(newKey()).PublicKey())).String()
			},
			want: writ.CodeWrongCluster,
		},
		"another datacenter's token": {
			token: func(s *fixture) string {
				token, err := identity.NewToken(s.roster.Cluster).For(writ.DatacenterID(writ.NewUUID()), s.roster)
				must(s.TB, err)
				return token.String()
			},
			want: writ.CodeWrongDatacenter,
		},
		"a key that no roster names": {token: token, spoil: func(s *fixture) { s.supervisor = newKey() }, want: writ.CodeSignatureInvalid},
		"an old key, after its roster was replaced": {
			token: token,
			spoil: func(s *fixture) {
				s.amend(func(r *identity.Roster) { r.Datacenters[0].SupervisorKey = publicOf(newKey()) })
			},
			want: writ.CodeSignatureInvalid,
		},
		"a roster of an unknown root": {
			token: token,
			spoil: func(s *fixture) { s.rosters[0][200] ^= 1 },
		},
		"no roster": {token: token, spoil: func(s *fixture) { s.rosters = nil }, want: writ.CodeRosterInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newFixture(t), t.TempDir()
			text := tt.token(s)
			if tt.spoil != nil {
				tt.spoil(s)
			}
			_, err := member.Join(t.Context(), member.Joining{Dir: dir, API: s, Token: text, Name: "n1"})
			if err == nil || tt.want != "" && writ.CodeOf(err) != tt.want {
				t.Errorf("Join = %v, want %s", err, tt.want)
			}
			if len(s.claims) != 0 {
				t.Error("the node sent a claim")
			}
			if _, err := os.Stat(filepath.Join(dir, "member.json")); err == nil {
				t.Error("the node believes that it is a member")
			}
		})
	}
}

func TestInvalidWelcomeIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(m *nodes.Membership)
		want  writ.Code
	}{
		"another datacenter":  {func(m *nodes.Membership) { m.Datacenter = writ.DatacenterID(writ.NewUUID()) }, writ.CodeWrongDatacenter},
		"another cluster":     {func(m *nodes.Membership) { m.Cluster = "x" }, writ.CodeWrongCluster},
		"no node":             {func(m *nodes.Membership) { m.Node = "" }, writ.CodeInternal},
		"a node like a path":  {func(m *nodes.Membership) { m.Node = "../n" }, writ.CodeInternal},
		"another key":         {func(m *nodes.Membership) { m.Key = publicOf(newKey()) }, writ.CodeSignatureInvalid},
		"another question":    {func(m *nodes.Membership) { m.Nonce = make([]byte, 2*identity.NonceSize) }, writ.CodeSignatureInvalid},
		"an epoch of no time": {func(m *nodes.Membership) { m.Epoch = 9e18 }, writ.CodeEpochInvalid},
		"a negative epoch":    {func(m *nodes.Membership) { m.Epoch = -1 }, writ.CodeEpochInvalid},
	} {
		s, dir := newFixture(t), t.TempDir()
		s.spoil = tt.spoil
		_, err := member.Join(t.Context(), member.Joining{Dir: dir, API: s, Token: s.token(), Name: "n1"})
		if writ.CodeOf(err) != tt.want {
			t.Errorf("%s: Join = %v, want %s", name, err, tt.want)
		}
		if member.Joined(dir) {
			t.Errorf("%s: it was stored", name)
		}
	}
}

// through connects to the supervisor through a proxy that can read and modify everything.
func (s *fixture) through(t *testing.T, change func(path string, body []byte) []byte) *nodes.Client {
	t.Helper()
	supervisor := httptest.NewServer(nodes.Handler(s, nil, slog.New(slog.DiscardHandler)))
	t.Cleanup(supervisor.Close)
	to, err := url.Parse(supervisor.URL)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = func(r *http.Response) error {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		body = change(r.Request.URL.Path, body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return nil
	}
	middle := httptest.NewServer(proxy)
	t.Cleanup(middle.Close)
	return &nodes.Client{URL: middle.URL}
}

// welcome makes a proxy modify the answer to a claim.
func welcome(change func(w *nodes.Welcome)) func(path string, body []byte) []byte {
	return func(path string, body []byte) []byte {
		var w nodes.Welcome
		if !strings.HasSuffix(path, "/claim") || json.Unmarshal(body, &w) != nil {
			return body
		}
		change(&w)
		body, _ = json.Marshal(w)
		return body
	}
}

func TestAWelcomeCannotBeChangedInTransit(t *testing.T) {
	t.Run("WhatIsNotSignedDoesNotCount", func(t *testing.T) {
		s, dir := newFixture(t), t.TempDir()
		api := s.through(t, welcome(func(w *nodes.Welcome) {
			w.Node, w.Name, w.Admission, w.Cluster, w.Datacenter, w.Epoch = "x", "evil", writ.AdmissionRemoved, "x", "x", 9_000_000_000_000_000_000
		}))
		m, err := member.Join(t.Context(), member.Joining{Dir: dir, API: api, Token: s.token(), Name: "n1"})
		must(t, err)
		stored, err := os.ReadFile(filepath.Join(dir, "member.json"))
		must(t, err)
		if m.Name() != "n1" || m.Admission() != writ.AdmissionApproved || m.Datacenter() != s.datacenter || strings.Contains(string(stored), "9000000000000000000") {
			t.Errorf("joined as %s, %s; stored %s", m.Name(), m.Admission(), stored)
		}
	})
	t.Run("WithoutSignatureItIsRefused", func(t *testing.T) {
		s, dir := newFixture(t), t.TempDir()
		api := s.through(t, welcome(func(w *nodes.Welcome) { w.Signed = nil }))
		_, err := member.Join(t.Context(), member.Joining{Dir: dir, API: api, Token: s.token(), Name: "n1"})
		if writ.CodeOf(err) != writ.CodeSignatureMalformed || writ.AsError(err).Hint == "" || member.Joined(dir) {
			t.Errorf("Join = %v", err)
		}
	})
	t.Run("ThatOfAnotherJoinIsRefused", func(t *testing.T) {
		s, dir := newFixture(t), t.TempDir()
		var old []byte
		api := s.through(t, welcome(func(w *nodes.Welcome) {
			if old == nil {
				old = w.Signed
			}
			w.Signed = old
		}))
		_, err := member.Join(t.Context(), member.Joining{Dir: t.TempDir(), API: api, Token: s.token(), Name: "n0"})
		must(t, err)
		if _, err := member.Join(t.Context(), member.Joining{Dir: dir, API: api, Token: s.token(), Name: "n1"}); writ.CodeOf(err) != writ.CodeSignatureInvalid || member.Joined(dir) {
			t.Errorf("Join = %v", err)
		}
	})
}

// Withholding the newest roster must not keep an old key valid. If a supervisor adopts a roster during a join, the node
// asks again.
func TestANodeJoinsWithTheNewestRosterOnly(t *testing.T) {
	s, dir := newFixture(t), t.TempDir()
	token := s.token() // created before the second roster, so it does not mention that one
	s.amend(func(*identity.Roster) {})
	held := 0
	api := s.through(t, func(path string, body []byte) []byte {
		var page [][]byte
		if !strings.HasSuffix(path, "/rosters") || json.Unmarshal(body, &page) != nil {
			return body
		}
		held++
		body, _ = json.Marshal(page[:1])
		return body
	})
	ctx, cancel := context.WithCancel(t.Context())
	log := &waitsFor{text: "the supervisor has roster 2", found: cancel}
	_, err := member.Join(ctx, member.Joining{Dir: dir, API: api, Token: token, Name: "n1", Log: slog.New(slog.NewTextHandler(log, nil))})
	if err == nil || member.Joined(dir) || held == 0 {
		t.Errorf("Join = %v with %d rosters held back", err, held)
	}
}

// waitsFor calls found when a text is logged.
type waitsFor struct {
	text  string
	found func()
}

func (w *waitsFor) Write(line []byte) (int, error) {
	if strings.Contains(string(line), w.text) {
		w.found()
	}
	return len(line), nil
}

func TestJoinRetriesUntilNodeAPIAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.closeAPI(2)
		api := &losesFirstAnswer{fixture: s}
		m, err := member.Join(t.Context(), member.Joining{Dir: t.TempDir(), API: api, Token: s.token(), Name: "n1"})
		must(t, err)
		if len(s.claims) != 2 || len(s.members) != 1 {
			t.Errorf("%d claims made %d members, want 2 and 1", len(s.claims), len(s.members))
		}
		if w := s.members[string(m.PublicKey())]; w.Node != m.Node() {
			t.Errorf("the node thinks that it is %s, the supervisor %s", m.Node(), w.Node)
		}
	})
}

type losesFirstAnswer struct {
	*fixture
	lost bool
}

func (d *losesFirstAnswer) Admit(ctx context.Context, claim nodes.Claim) (nodes.Welcome, error) {
	w, err := d.fixture.Admit(ctx, claim)
	if !d.lost {
		d.lost = true
		return nodes.Welcome{}, writ.Errorf(writ.CodeTimeout, "no answer")
	}
	return w, err
}

func TestWithoutTokenANodeMustKnowItsCluster(t *testing.T) {
	s, dir := newFixture(t), t.TempDir()
	if _, err := member.Join(t.Context(), member.Joining{Dir: dir, API: s, Name: "n1"}); writ.CodeOf(err) != writ.CodeUsage {
		t.Errorf("Join without token and cluster = %v, want %s", err, writ.CodeUsage)
	}
	s.setAdmission(writ.AdmissionPending)
	m, err := member.Join(t.Context(), member.Joining{Dir: dir, API: s, Cluster: s.roster.Cluster, Name: "n1"})
	must(t, err)
	want := member.Place{Admission: writ.AdmissionPending, Name: m.Name(), Datacenter: "home", Fingerprint: sshsig.Fingerprint(m.PublicKey())}
	if got := member.PlaceOf(dir); got != want {
		t.Errorf("place of the data directory = %+v, want %+v", got, want)
	}
	if got := member.PlaceOf(t.TempDir()); got != (member.Place{}) {
		t.Errorf("place of an empty data directory = %+v", got)
	}
	if m.Admission() != writ.AdmissionPending || s.claims[0].Proof != nil {
		t.Errorf("admission %s with proof %x, want pending without one", m.Admission(), s.claims[0].Proof)
	}
	if _, err := member.Join(t.Context(), member.Joining{Dir: dir, API: s, Token: newFixture(t).token()}); writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("Join with a token of another cluster = %v, want %s", err, writ.CodeConflict)
	}
}

// An attacker with an old key of a supervisor must not revert a node to the roster in which that key was valid.
func TestANodeDoesNotGoBackToAnOlderRoster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := newFixture(t), t.TempDir()
		s.setAdmission(writ.AdmissionPending)
		s.amend(func(*identity.Roster) {})
		_, err := member.Join(t.Context(), member.Joining{Dir: dir, API: s, Cluster: s.roster.Cluster, Name: "n1"})
		must(t, err)
		newest := s.rosters
		s.setRosters(newest[:1])
		s.setAdmission(writ.AdmissionApproved)
		n := s.start(dir, newHost(), nil)
		quiet(time.Minute)
		if n.member.Admission() != writ.AdmissionPending || n.member.Roster().Version != 2 {
			t.Errorf("the node is %s with roster %d", n.member.Admission(), n.member.Roster().Version)
		}
		s.setRosters(newest)
		quiet(time.Minute)
		if n.member.Admission() != writ.AdmissionApproved {
			t.Errorf("the node is %s when all is well again", n.member.Admission())
		}
	})
}

// Each version is one more digest of 32 bytes. JSON needs four bytes for three of them.
//
// Promise: Signatures and rosters: A node stores, and a daemon reads at its start, few roster versions and 32 bytes for
// each other one.
// How: A chain has the texts of the versions that change operators and of the newest, and the digests of the others.
// Also: TestSupervisorStartReadsFewRosters, TestCoordinatorStartReadsFewRosters, TestOldRosterFilesAreCompacted.
func TestMemberFileHoldsFewRosters(t *testing.T) {
	s, dir := newFixture(t), t.TempDir()
	m := s.join(dir)
	sizes := map[int]int64{}
	for _, version := range []int{2, 3, 10, 2000} {
		next, err := m.Roster().Successor(time.Now())
		must(t, err)
		var skipped []writ.Digest
		for v := next.Version; v < version; v++ {
			skipped = append(skipped, writ.DigestOf(fmt.Append(nil, "version ", v)))
		}
		if len(skipped) > 0 {
			next.Version, next.Previous = version, skipped[len(skipped)-1]
			next.History = chain.History(next.History, skipped...)
		}
		signed, err := identity.SignRoster(next, s.root)
		must(t, err)
		must(t, m.Adopt([][]byte{chain.Join(skipped, signed)}))
		m, err = member.Join(t.Context(), member.Joining{Dir: dir, API: s, Name: "n1"}) // reads the file
		must(t, err)
		if n := len(m.State().Rosters); n != 2 || m.Roster().Version != version {
			t.Errorf("with %d versions, the file has %d texts up to version %d, want 2", version, n, m.Roster().Version)
		}
		file, err := os.Stat(filepath.Join(dir, "member.json"))
		must(t, err)
		sizes[version] = file.Size()
	}
	if most := sizes[10] + 1990*43; sizes[2000] > most {
		t.Errorf("the file has %d bytes with 10 versions and %d with 2000, want at most %d", sizes[10], sizes[2000], most)
	}
}

// awayAPI is an unreachable node API, with one error after the other.
type awayAPI struct {
	nodes.Backend
	reasons []string
	asked   []time.Duration
	began   time.Time
	enough  func()
}

func (a *awayAPI) Greet(context.Context, nodes.Hello) (nodes.Proof, error) {
	n := len(a.asked)
	a.asked = append(a.asked, time.Since(a.began))
	if n+1 == len(a.reasons) {
		a.enough()
	}
	return nodes.Proof{}, writ.Errorf(writ.CodeUnreachable, "%s", a.reasons[n])
}

// A node asks less often after it failed to join twice with the same error. It logs that error twice, with the pause,
// and logs again when the error changes.
func TestFailedJoinIsRetriedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		api := &awayAPI{reasons: []string{"refused", "refused", "refused", "no route", "no route", "no route"}, began: time.Now(), enough: stop}
		var said bytes.Buffer
		_, err := member.Join(ctx, member.Joining{
			Dir: t.TempDir(), API: api, Cluster: writ.ClusterID(strings.Repeat("0a", 32)), Name: "n1", Log: slog.New(slog.NewTextHandler(&said, nil)),
		})
		if err == nil {
			t.Error("it joins")
		}
		seconds := []time.Duration{0, 5, 35, 65, 70, 100}
		for i, at := range api.asked {
			if at != seconds[i]*time.Second {
				t.Errorf("it asks after %s for the time %d, want %d s", at, i+1, seconds[i])
			}
		}
		var lines []string
		for line := range strings.Lines(said.String()) {
			_, line, _ = strings.Cut(strings.TrimSpace(line), " again=")
			lines = append(lines, line)
		}
		want := []string{`5s err="send hello to the supervisor: refused"`, `30s err="send hello to the supervisor: refused"`, `5s err="send hello to the supervisor: no route"`, `30s err="send hello to the supervisor: no route"`}
		if strings.Join(lines, "\n") != strings.Join(want, "\n") {
			t.Errorf("it says\n%s", said.String())
		}
	})
}
