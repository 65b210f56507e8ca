package identity

import (
	"strings"
	"testing"

	"writ"
	"writ/identity/sshsig"
)

// A signer without a right in the project that he claims to have seen, or without read access to the run's real
// project, gets no information about the run. The answer is the same for an existing and a missing run.
//
// Promise: Readers and roles: A statement reveals neither the content nor the existence of a run that its signer may
// not read.
// How: The supervisor checks the right in the signed project before it looks up the run.
// Also: TestAnswersHideRunsOfOtherProjects.
func TestStatementRevealsNoRunOfAnotherProject(t *testing.T) {
	missing := writ.RunIDOf(writ.Digest{2})
	for name, tt := range map[string]struct {
		seen writ.ProjectID // the signer's claim; the run is in shop
		role Role           // of the signer, in mail only
		want writ.Code
	}{
		"a guess, without a role":                   {shopID, "", writ.CodeRoleMissing},
		"a guess, with a role in another":           {shopID, Deployer, writ.CodeRoleMissing},
		"in the own project, with read rights only": {mailID, Viewer, writ.CodeRoleMissing},
		"in the own project, with all its right":    {mailID, Deployer, writ.CodeNotFound},
	} {
		v := testVerifier(t)
		v.Roster.Bindings, v.Roster.Operators = nil, []string{"alice"}
		if tt.role != "" {
			v.Roster.Bindings = []Binding{{Principal: "bob", Role: tt.role, Project: mailID}}
		}
		answer := map[writ.RunID]string{}
		for _, run := range []writ.RunID{testRun, missing} {
			s := testStatement()
			s.Subject, s.Signer, s.Seen.Project = "run/"+string(run), "bob", tt.seen
			if p := v.Roster.Project(tt.seen); p != nil {
				s.Seen.ProjectName = p.Name
			}
			v.ProjectOf = func(id writ.RunID) (writ.ProjectID, error) {
				if id == testRun {
					return shopID, nil
				}
				return "", writ.Errorf(writ.CodeNotFound, "the journal has no run %s", id).WithHint("ask later")
			}
			_, err := v.Statement(signText(t, testSigner("bob"), sshsig.StatementNamespace, s))
			if writ.CodeOf(err) != tt.want {
				t.Errorf("%s: %v", name, err)
				continue
			}
			answer[run] = writ.AsError(err).Message + writ.AsError(err).Hint
		}
		if hidden, absent := answer[testRun], answer[missing]; tt.want == writ.CodeRoleMissing && hidden != absent ||
			tt.want == writ.CodeNotFound && hidden != strings.Replace(absent, string(missing), string(testRun), 1) {
			t.Errorf("%s: answer for an existing run %q, for a missing run %q", name, hidden, absent)
		}
	}

	// A signer with read access to both projects learns the run's project.
	v := testVerifier(t)
	v.Roster.Bindings = []Binding{{Principal: "bob", Role: Deployer, Project: mailID}, {Principal: "bob", Role: Viewer, Project: shopID}}
	s := testStatement()
	s.Signer, s.Seen.Project, s.Seen.ProjectName = "bob", mailID, "mail"
	if _, err := v.Statement(signText(t, testSigner("bob"), sshsig.StatementNamespace, s)); writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("by a reader of both: %v", err)
	}
}
