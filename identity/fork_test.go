package identity

import (
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/identity/chain"
	"writ/identity/sshsig"
)

// versions applies changes to the first roster, one after the other, verifies the versions and returns all of them.
func versions(t *testing.T, changes ...func(next *Roster)) []*Roster {
	t.Helper()
	first, err := VerifyRoster(nil, signRoster(t, testRoster(), "root"), noon)
	if err != nil {
		t.Fatal(err)
	}
	all := []*Roster{first}
	for _, change := range changes {
		last := all[len(all)-1]
		next, err := last.Successor(noon)
		if err != nil {
			t.Fatal(err)
		}
		change(next)
		verified, err := VerifyRoster(last, signRoster(t, next, "root"), noon)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, verified)
	}
	return all
}

// A text names the roster that its signer has seen. A verifier whose chain has another roster of that version rejects
// the text and reports the fork once.
//
// Promise: Signatures and rosters: A fork of the roster is detected: a text signed under another roster of the same
// version is refused and both digests are logged.
// How: A signed text names the version and digest of its signer's roster; a verifier with another digest answers
// `ROSTER_FORK`.
func TestTextSignedUnderAForkIsRejected(t *testing.T) {
	project := func(name string) func(*Roster) {
		return func(next *Roster) {
			next.Projects = append(next.Projects, Project{ID: writ.ProjectID(writ.NewUUID()), Name: name})
		}
	}
	recovery := func(next *Roster) { next.Previous, next.Version = writ.Digest{}, next.Version+2 }
	here := versions(t, project("a"), project("b"), recovery) // 1, 2, 3, 6
	there := versions(t, project("c"), project("d"), project("e"), project("f"))
	digest := func(r *Roster) writ.Digest {
		d, err := r.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for name, tt := range map[string]struct {
		verifier, seen *Roster
		want           writ.Code
	}{
		"the newest":          {here[3], here[3], ""},
		"an earlier one":      {here[3], here[1], ""},
		"the first":           {here[3], here[0], ""},
		"another newest":      {here[1], there[1], writ.CodeRosterFork},
		"another earlier one": {here[3], there[1], writ.CodeRosterFork},
		"a skipped version":   {here[3], there[4], writ.CodeRosterFork},
		"a newer one":         {here[1], there[2], writ.CodeRosterTooOld},
	} {
		t.Run(name, func(t *testing.T) {
			var told []error
			var forks chain.Forks
			v := testVerifier(t)
			v.Roster = tt.verifier
			v.Forked = func(signer string, err error) {
				if signer != "alice" {
					t.Errorf("the signer is %q", signer)
				}
				if forks.First(err) {
					told = append(told, err)
				}
			}
			p := testPayload()
			p.Roster, p.RosterDigest = tt.seen.Version, digest(tt.seen)
			for range 3 {
				_, err := v.Submission(signText(t, testSigner("alice"), sshsig.ScriptNamespace, p))
				wantCode(t, err, tt.want)
			}
			if forked := tt.want == writ.CodeRosterFork; forked != (len(told) == 1) {
				t.Errorf("told %d times", len(told))
			} else if forked && !strings.Contains(told[0].Error(), digest(tt.seen).String()) {
				t.Errorf("no evidence in %v", told[0])
			}
		})
	}
	if !slices.Equal([]int{1, 2, 3, 6}, []int{here[0].Version, here[1].Version, here[2].Version, here[3].Version}) {
		t.Error("the chain has unexpected versions")
	}
}

// A forged text does not report a fork.
func TestOnlyTheRostersKeysReportAFork(t *testing.T) {
	v := testVerifier(t)
	v.Forked = func(signer string, err error) { t.Errorf("%s: %v", signer, err) }
	p := testPayload()
	p.RosterDigest = writ.DigestOf([]byte("another"))
	_, err := v.Submission(signText(t, testSigner("mallory"), sshsig.ScriptNamespace, p))
	wantCode(t, err, writ.CodeSignerUnknown)
	v.Now = func() time.Time { return noon }
	_, err = v.SubmissionAt(signText(t, testSigner("mallory"), sshsig.ScriptNamespace, p), noon)
	wantCode(t, err, writ.CodeSignerUnknown)
}
