package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity"
	"writ/runner"
	"writ/supervisor/nodes"
)

func TestATokenMakesAMemberThatSurvivesRestarts(t *testing.T) {
	s, dir := newSite(t), t.TempDir()
	first := s.join(dir)
	if first.Admission() != writ.AdmissionApproved || !writ.ValidUUID(string(first.Node())) || first.Datacenter() != s.datacenter {
		t.Fatalf("joined as %s node %q of %s", first.Admission(), first.Node(), first.Datacenter())
	}
	if len(s.claims) != 1 || len(s.claims[0].Proof) == 0 {
		t.Errorf("claims = %+v, want one that proves the token", s.claims)
	}

	again, err := runner.Join(t.Context(), runner.Joining{Dir: dir, Door: s})
	must(t, err)
	if again.Node() != first.Node() || !again.PublicKey().Equal(first.PublicKey()) || again.Roster().Version != 1 {
		t.Error("the restarted node is somebody else")
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

func TestTheTokenIsUsedOnlyAfterTheSupervisorProvedItself(t *testing.T) {
	token := func(s *site) string { return s.token() }
	for name, tt := range map[string]struct {
		token func(s *site) string
		spoil func(s *site)
		want  writ.Code
	}{
		"another cluster's pin": {
			token: func(*site) string {
				return identity.NewToken(identity.ClusterOf(identity.NewSigner(newKey()).PublicKey())).String()
			},
			want: writ.CodeWrongCluster,
		},
		"a key that no roster names": {token: token, spoil: func(s *site) { s.supervisor = newKey() }, want: writ.CodeSignatureInvalid},
		"an old key, after its roster was replaced": {
			token: token,
			spoil: func(s *site) {
				s.amend(func(r *identity.Roster) { r.Datacenters[0].SupervisorKey = publicOf(newKey()) })
			},
			want: writ.CodeSignatureInvalid,
		},
		"a roster of nobody's making": {
			token: token,
			spoil: func(s *site) { s.rosters[0][200] ^= 1 },
		},
		"no roster": {token: token, spoil: func(s *site) { s.rosters = nil }, want: writ.CodeRosterInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newSite(t), t.TempDir()
			text := tt.token(s)
			if tt.spoil != nil {
				tt.spoil(s)
			}
			_, err := runner.Join(t.Context(), runner.Joining{Dir: dir, Door: s, Token: text, Name: "n1"})
			if err == nil || tt.want != "" && writ.CodeOf(err) != tt.want {
				t.Errorf("Join = %v, want %s", err, tt.want)
			}
			if len(s.claims) != 0 {
				t.Error("the node said something that its token made")
			}
			if _, err := os.Stat(filepath.Join(dir, "member.json")); err == nil {
				t.Error("the node believes that it is a member")
			}
		})
	}
}

func TestAWelcomeThatCannotBeIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		lie  func(w *nodes.Welcome)
		want writ.Code
	}{
		"another datacenter": {func(w *nodes.Welcome) { w.Datacenter = writ.DatacenterID(writ.NewUUID()) }, writ.CodeWrongDatacenter},
		"another cluster":    {func(w *nodes.Welcome) { w.Cluster = "x" }, writ.CodeWrongDatacenter},
		"no node":            {func(w *nodes.Welcome) { w.Node = "" }, writ.CodeInternal},
		"a node like a path": {func(w *nodes.Welcome) { w.Node = "../n" }, writ.CodeInternal},
	} {
		s := newSite(t)
		door := lyingDoor{s, tt.lie}
		_, err := runner.Join(t.Context(), runner.Joining{Dir: t.TempDir(), Door: door, Token: s.token(), Name: "n1"})
		if writ.CodeOf(err) != tt.want {
			t.Errorf("%s: Join = %v, want %s", name, err, tt.want)
		}
	}
}

type lyingDoor struct {
	nodes.Backend
	lie func(*nodes.Welcome)
}

func (d lyingDoor) Admit(ctx context.Context, claim nodes.Claim) (nodes.Welcome, error) {
	w, err := d.Backend.Admit(ctx, claim)
	d.lie(&w)
	return w, err
}

func TestJoinWaitsForTheDoorAndAsksAgainForALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.closeDoor(2)
		door := &losesFirstAnswer{site: s}
		m, err := runner.Join(t.Context(), runner.Joining{Dir: t.TempDir(), Door: door, Token: s.token(), Name: "n1"})
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
	*site
	lost bool
}

func (d *losesFirstAnswer) Admit(ctx context.Context, claim nodes.Claim) (nodes.Welcome, error) {
	w, err := d.site.Admit(ctx, claim)
	if !d.lost {
		d.lost = true
		return nodes.Welcome{}, writ.Errorf(writ.CodeTimeout, "no answer")
	}
	return w, err
}

func TestWithoutTokenANodeMustKnowItsCluster(t *testing.T) {
	s, dir := newSite(t), t.TempDir()
	if _, err := runner.Join(t.Context(), runner.Joining{Dir: dir, Door: s, Name: "n1"}); writ.CodeOf(err) != writ.CodeUsage {
		t.Errorf("Join without token and cluster = %v, want %s", err, writ.CodeUsage)
	}
	s.setAdmission(writ.AdmissionPending)
	m, err := runner.Join(t.Context(), runner.Joining{Dir: dir, Door: s, Cluster: s.roster.Cluster, Name: "n1"})
	must(t, err)
	if m.Admission() != writ.AdmissionPending || s.claims[0].Proof != nil {
		t.Errorf("admission %s with proof %x, want pending without one", m.Admission(), s.claims[0].Proof)
	}
	if _, err := runner.Join(t.Context(), runner.Joining{Dir: dir, Door: s, Token: newSite(t).token()}); writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("Join with a token of another cluster = %v, want %s", err, writ.CodeConflict)
	}
}

// Whoever holds an old key of a supervisor must not lead a node back to the roster in which it counted.
func TestANodeDoesNotGoBackToAnOlderRoster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := newSite(t), t.TempDir()
		s.setAdmission(writ.AdmissionPending)
		s.amend(func(*identity.Roster) {})
		_, err := runner.Join(t.Context(), runner.Joining{Dir: dir, Door: s, Cluster: s.roster.Cluster, Name: "n1"})
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
