package runner_test

import (
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"

	"writ"
	"writ/identity/envelope"
	"writ/identity/secret"
	"writ/supervisor/nodes"
)

func TestANodeAsksForItsAccountWhenItNeedsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		m := s.join(t.TempDir())
		reader := func() age.Recipient {
			r, err := secret.ForNode(s.claims[len(s.claims)-1].Hello.AgeKey)
			must(t, err)
			return r
		}()
		password, forNode, label, key := "first", m.Node(), secret.AccountLabel(s.roster.Cluster, s.datacenter, m.Node()), s.supervisor
		s.account = func(writ.NodeID) ([]byte, error) {
			signed, err := secret.Encrypt(password, label, reader)
			must(t, err)
			return envelope.Sign(envelope.Account, key, nodes.Account{Node: forNode, User: "user", Secret: signed})
		}
		login := m.Login(s)
		get := func(refused bool, want string) {
			t.Helper()
			if name, got, err := login(t.Context(), refused); err != nil || name != "user" || got != want {
				t.Errorf("login = %q, %q, %v; want %q", name, got, err, want)
			}
		}
		get(false, "first")
		get(false, "first")
		if s.accountsAsked != 1 {
			t.Errorf("asked %d times for one account", s.accountsAsked)
		}

		password = "second"
		began := time.Now()
		get(true, "second")
		if waited := time.Since(began); waited < time.Second {
			t.Errorf("repeated the request after %s, want at least 1 s", waited)
		}

		// Accounts that are not from the supervisor, for this node and about this node are rejected.
		for name, forge := range map[string]func(){
			"another key":   func() { key = newKey() },
			"another node":  func() { forNode = writ.NodeID(writ.NewUUID()) },
			"another label": func() { label.Name = "account/x" },
		} {
			key, forNode, label = s.supervisor, m.Node(), secret.AccountLabel(s.roster.Cluster, s.datacenter, m.Node())
			forge()
			if user, got, err := login(t.Context(), true); err == nil {
				t.Errorf("%s: taken for %q, %q", name, user, got)
			}
		}
		key, forNode, label = s.supervisor, m.Node(), secret.AccountLabel(s.roster.Cluster, s.datacenter, m.Node())
		s.away = 1
		if _, _, err := login(t.Context(), false); writ.CodeOf(err) != writ.CodeUnreachable {
			t.Errorf("while it is closed: %v", err)
		}
		get(false, "second")
	})
}
