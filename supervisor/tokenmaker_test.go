package supervisor_test

import (
	"slices"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/link"
)

// TestTokenEndsWithTheRightOfItsMaker removes the right to create tokens from a person with open tokens, as after the
// theft of a key. The tokens admit no node and no boot server. Nodes admitted before stay.
func TestTokenEndsWithTheRightOfItsMaker(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		token, ofBoot := s.tokenFor(3), s.bootToken(time.Hour)
		admitted := &testNode{sim: s, name: "n1", key: newKey(t)}
		if _, err := admitted.claim(token); err != nil {
			t.Fatal(err)
		}
		waits := &testNode{sim: s, name: "n2", key: newKey(t)}
		if _, err := waits.claim(identity.Token{}); err != nil {
			t.Fatal(err)
		}
		s.changeRoster(func(r *identity.Roster) {
			r.Bindings = slices.DeleteFunc(r.Bindings, func(b identity.Binding) bool { return b.Principal == "alice" && b.Role == identity.Admin })
		})
		for _, thief := range []*testNode{waits, {sim: s, name: "n3", key: newKey(t)}} {
			if _, err := thief.claim(token); writ.CodeOf(err) != writ.CodeTokenInvalid {
				t.Errorf("claim of %s: %v, want TOKEN_INVALID", thief.name, err)
			}
		}
		if _, err := s.send(s.reportWith(ofBoot, theDatacenter, reportOf("52:54:00:77:00:50"))); writ.CodeOf(err) != writ.CodeTokenInvalid {
			t.Errorf("report of a boot server: %v, want TOKEN_INVALID", err)
		}
		if again, err := admitted.claim(token); err != nil || again.Admission != writ.AdmissionApproved {
			t.Errorf("claim of the admitted node: %+v, %v", again, err)
		}
		answer, err := s.Ask(t.Context(), link.VerbTokens, link.Tokens{})
		list, _ := answer.([]writ.JoinToken)
		if err != nil || len(list) != 2 {
			t.Fatalf("list of tokens = %+v, %v", answer, err)
		}
		for _, one := range list {
			if one.Expires.After(s.clock.now()) {
				t.Errorf("token %s is listed as open until %s", one.ID, one.Expires)
			}
		}
	})
}
