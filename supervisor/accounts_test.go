package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/identity/secret"
	"writ/runner/queue"
	"writ/supervisor/nodes"
)

// memoryAccounts implements the accounts of a queue in memory.
type memoryAccounts struct {
	mu       sync.Mutex
	has      map[writ.NodeID]string
	err      error
	restarts int
	applies  int // calls of Apply

	found   []queue.Finding // findings of the next survey
	failed  error           // error of each survey
	cleared []writ.NodeID
}

func (d *memoryAccounts) User(node writ.NodeID) string { return "user-" + string(node) }

func (d *memoryAccounts) Apply(_ context.Context, passwords map[writ.NodeID]string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.applies++
	if d.err == nil {
		d.has = maps.Clone(passwords)
	}
	return d.err
}

func (d *memoryAccounts) Instance(context.Context) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if errors.Is(d.err, errors.ErrUnsupported) {
		return "", nil
	}
	return fmt.Sprint(d.restarts), d.err
}

func (d *memoryAccounts) Survey(context.Context) ([]queue.Finding, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.found
	d.found = nil
	return found, d.failed
}

func (d *memoryAccounts) Clear(_ context.Context, node writ.NodeID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cleared = append(d.cleared, node)
	return nil
}

// addFinding adds a finding to the next survey.
func (d *memoryAccounts) addFinding(f queue.Finding) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = append(d.found, f)
}

// set deletes all accounts and makes later calls of Apply return err.
func (d *memoryAccounts) set(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil && err == nil {
		d.restarts++
	}
	d.has, d.err = nil, err
}

func (d *memoryAccounts) password(node writ.NodeID) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.has[node]
}

// accountRequest returns the signed account request of a node.
func (s *sim) accountRequest(n *testNode) []byte {
	s.t.Helper()
	asked, err := envelope.Sign(envelope.AccountRequest, n.key, nodes.AccountRequest{Node: n.id, Scripts: nodes.ScriptsLoaded})
	if err != nil {
		s.t.Fatal(err)
	}
	return asked
}

// account sends an account request to the node API and decrypts the answer.
func (s *sim) account(n *testNode) (user, password string, err error) {
	s.t.Helper()
	signed, err := s.Account(s.t.Context(), n.id, s.accountRequest(n))
	if err != nil {
		return "", "", err
	}
	records, _, err := envelope.Open[nodes.Account](envelope.Account, signed, envelope.Only(s.roster.Datacenters[0].SupervisorKey))
	if err != nil || records[0].Node != n.id {
		s.t.Fatalf("account of %s = %+v, %v", n.id, records, err)
	}
	if records[0].User == "" {
		return "", "", nil
	}
	password, err = secret.Open(records[0].Secret, secret.AccountLabel(s.Pin, theDatacenter, n.id), n.age)
	return records[0].User, password, err
}

func TestAccountRequestNamesAndIsSignedByItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimAt(t, filepath.Join(t.TempDir(), "journal.db"), &memoryAccounts{})
		n, other := s.join("n1"), s.join("n2")
		for name, asked := range map[string][]byte{"not signed": nil, "of another node": s.accountRequest(other)} {
			if _, err := s.Account(t.Context(), n.id, asked); err == nil {
				t.Errorf("request %s: got an account, want an error", name)
			}
		}
		asked, err := envelope.Sign(envelope.AccountRequest, n.key, nodes.AccountRequest{Node: other.id, Scripts: nodes.ScriptsLoaded})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Account(t.Context(), n.id, asked); writ.CodeOf(err) != writ.CodeBadRequest {
			t.Errorf("request for another node: %v, want BAD_REQUEST", err)
		}
	})
}

// Promise: Nodes and Redis: Only the node can decrypt its Redis password, and a removed node is disconnected at once.
// How: The supervisor draws the password, encrypts it for the node and signs it; Redis stores the hash.
// Also: TestANodeAsksForItsAccountWhenItNeedsOne, TestApplyMakesExactlyTheAccounts.
func TestOnlyApprovedNodeOpensItsAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := &memoryAccounts{}
		s := newSimAt(t, filepath.Join(t.TempDir(), "journal.db"), keeper)
		n, other := s.join("n1"), s.join("n2")
		user, password, err := s.account(n)
		if err != nil || user != keeper.User(n.id) || password == "" || password != keeper.password(n.id) {
			t.Fatalf("account = %q, %q, %v; the queue has %q", user, password, err, keeper.password(n.id))
		}
		if _, theirs, err := s.account(other); err != nil || theirs == password || theirs != keeper.password(other.id) {
			t.Errorf("password of the other node = %q, %v", theirs, err)
		}
		signed, err := s.Account(t.Context(), n.id, s.accountRequest(n))
		if err != nil {
			t.Fatal(err)
		}
		records, _, err := envelope.Open[nodes.Account](envelope.Account, signed, envelope.Only(s.roster.Datacenters[0].SupervisorKey))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := secret.Open(records[0].Secret, secret.AccountLabel(s.Pin, theDatacenter, n.id), other.age); err == nil {
			t.Errorf("another node decrypted the password: %q", got)
		}

		keeper.set(nil) // Redis restarted without accounts
		time.Sleep(2 * time.Second)
		if got := keeper.password(n.id); got != password {
			t.Errorf("password after the queue lost its accounts = %q, want %q", got, password)
		}

		s.halt()
		s.start()
		time.Sleep(2 * time.Second)
		if _, again, err := s.account(n); err != nil || again == password || again != keeper.password(n.id) {
			t.Errorf("password after a restart of the supervisor = %q, %v; before %q, the queue has %q", again, err, password, keeper.password(n.id))
		}

		if _, err := s.Decide(t.Context(), s.sign(s.statement("node/"+string(n.id), "remove"))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the account is removed without any delay
		if got := keeper.password(n.id); got != "" {
			t.Errorf("a removed node has the password %q", got)
		}
		if _, _, err := s.account(n); writ.CodeOf(err) != writ.CodeNodeRejected {
			t.Errorf("account of a removed node: %v", err)
		}
		if _, err := s.Account(t.Context(), "0192f6c2-0000-7000-8000-0000000000ff", nil); writ.CodeOf(err) != writ.CodeNotFound {
			t.Errorf("account of an unknown node: %v", err)
		}
	})
}

// Somebody deletes an account at the queue, which is not restarted.
//
// Promise: Nodes and Redis: A node's deleted account at Redis is restored within seconds.
// How: The supervisor compares all accounts every 3 s, and at once after a restart of Redis.
func TestDeletedAccountIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := &memoryAccounts{}
		s := newSimAt(t, filepath.Join(t.TempDir(), "journal.db"), keeper)
		n := s.join("n1")
		time.Sleep(10 * time.Second)
		keeper.mu.Lock()
		keeper.has, keeper.applies = nil, 0
		keeper.mu.Unlock()
		time.Sleep(20 * time.Second)
		if keeper.password(n.id) == "" {
			t.Error("the account is missing")
		}
		keeper.mu.Lock()
		defer keeper.mu.Unlock()
		if keeper.applies > 8 {
			t.Errorf("%d comparisons of all accounts in 20 s", keeper.applies)
		}
	})
}

func TestNodesWithoutAccountsUseGivenAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := &memoryAccounts{err: fmt.Errorf("this queue: %w", errors.ErrUnsupported)}
		s := newSimAt(t, filepath.Join(t.TempDir(), "journal.db"), keeper)
		n := s.join("n1")
		if user, _, err := s.account(n); err != nil || user != "" {
			t.Errorf("account = %q, %v, want none", user, err)
		}
		keeper.set(nil) // an operator permits the supervisor to create accounts
		time.Sleep(2 * time.Second)
		if user, password, err := s.account(n); err != nil || user == "" || password != keeper.password(n.id) {
			t.Errorf("account = %q, %q, %v", user, password, err)
		}
		keeper.set(writ.Errorf(writ.CodeQueueUnavailable, "Redis is away"))
		if _, _, err := s.account(n); err != nil {
			t.Errorf("while the queue is unavailable: %v, want the last account", err)
		}
		next := s.join("n2")
		if _, _, err := s.account(next); writ.CodeOf(err) != writ.CodeQueueUnavailable {
			t.Errorf("new node while the queue is unavailable: %v, want QUEUE_UNAVAILABLE", err)
		}
	})
}
