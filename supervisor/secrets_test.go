package supervisor_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/secret"
	"writ/internal/test/testenv"
	"writ/supervisor/journal"
)

const canary = "canary-5f1d0c7b93e8"

// change returns a statement that sets a secret, or removes it if value is empty.
func (s *sim) change(name string, version int, value string) *identity.Statement {
	s.t.Helper()
	statement := s.statement("", "")
	c := identity.SecretChange{Project: theProject, Name: name, Version: version}
	if value != "" {
		c.Ciphertext = s.encrypt(value, secret.Label{Cluster: s.Pin, Datacenter: theDatacenter, Project: theProject, Name: name, Version: version})
	}
	c.Statement(statement)
	return statement
}

func (s *sim) encrypt(value string, label secret.Label) []byte {
	s.t.Helper()
	to, err := secret.ForSupervisor(s.key.Public().(ed25519.PublicKey))
	if err != nil {
		s.t.Fatal(err)
	}
	ciphertext, err := secret.Encrypt(value, label, to)
	if err != nil {
		s.t.Fatal(err)
	}
	return ciphertext
}

// set sets a secret.
func (s *sim) set(name string, version int, value string) {
	s.t.Helper()
	if _, err := s.Decide(s.t.Context(), s.sign(s.change(name, version, value))); err != nil {
		s.t.Fatal(err)
	}
}

// submitWith submits a script whose header names secrets.
func (s *sim) submitWith(script string, secrets ...string) (writ.Run, error) {
	s.t.Helper()
	p := s.payload(script)
	p.Secrets = secrets
	return s.Submit(s.t.Context(), s.signPayload(p))
}

// openSecrets decrypts the secrets of a job with the key of the node.
func (n *testNode) openSecrets(job writ.Job) (map[string]string, error) {
	values := map[string]string{}
	for ref, ciphertext := range job.Secrets {
		name, version, _ := strings.Cut(ref, "@")
		value, err := secret.Open(ciphertext, secret.Label{
			Cluster: job.Cluster, Datacenter: job.Datacenter, Project: job.Project, Name: name, Version: int(version[0] - '0'),
		}, n.age)
		if err != nil {
			return nil, err
		}
		values[ref] = value
	}
	return values, nil
}

const secretScript = `
herodb := import("herodb")
run := import("run")
herodb.create("store", {memory_mib: 64, password: run.secret("db-password")}, {retries: 1})
`

func TestSecretReachesOnlyItsNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		var n *testNode
		var seen []string
		n = s.join("n1", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				values, err := n.openSecrets(job)
				if err != nil {
					t.Error(err)
				}
				seen = append(seen, values["db-password@2"])
				if job.Attempt == 1 {
					return writ.Result{Error: writ.Errorf(writ.CodeDriverFailed, "try again")}
				}
				return succeed(ctx, job)
			}
		})
		s.set("db-password", 1, "an older one")
		s.set("db-password", 2, canary)
		time.Sleep(2 * time.Second)
		run, err := s.submitWith(secretScript, "db-password@2")
		if err != nil {
			t.Fatal(err)
		}
		s.wantState(run.ID, writ.RunSucceeded)
		if !slices.Equal(seen, []string{canary, canary}) {
			t.Errorf("secrets read by the node = %q", seen)
		}
		mark := map[string]any{"secret": "db-password@2"}
		if got, _ := n.jobs[0].Args["password"].(map[string]any); got["secret"] != mark["secret"] {
			t.Errorf("arguments of the job = %v", n.jobs[0].Args)
		}
		s.halt()
		for _, file := range []string{"journal.db", "journal.db-wal"} {
			text, err := os.ReadFile(filepath.Join(s.dir, file))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte(canary)) {
				t.Errorf("%s contains the secret", file)
			}
		}
	})
}

func TestRunsWithoutSecretsCarryNone(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		s.set("db-password", 1, canary)
		s.wantState(s.submit(webScript), writ.RunSucceeded)
		for _, job := range n.jobs {
			if job.Secrets != nil {
				t.Errorf("job %s has %d secrets, want none", job.Operation, len(job.Secrets))
			}
		}
	})
}

func TestMissingSecretsAreRefusedAtOnce(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		s.set("db-password", 1, canary)
		s.set("api-key", 1, canary)
		s.set("api-key", 2, canary)
		if _, err := s.Decide(t.Context(), s.sign(s.change("api-key", 1, ""))); err != nil {
			t.Fatal(err)
		}
		for ref, want := range map[string]writ.Code{
			"db-password@2": writ.CodeSecretUnknown, // never existed
			"db-passwort@1": writ.CodeSecretUnknown,
			"api-key@1":     writ.CodeSecretUnknown, // removed
		} {
			if _, err := s.submitWith(secretScript, ref); writ.CodeOf(err) != want {
				t.Errorf("%s: %v, want %s", ref, err, want)
			}
		}
		other := s.payload(secretScript)
		other.Project, other.Secrets = theProject, []string{"db-password@1"}
		if _, err := s.Submit(t.Context(), s.signPayload(other)); err != nil {
			t.Errorf("existing version: %v", err)
		}
	})
}

// Coordinators report the newest version to signers, and may lie.
func TestOldVersionOfSecretIsRefused(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.join("n1")
		s.set("db-password", 1, "leaked long ago")
		before := s.payload(secretScript)
		before.Secrets = []string{"db-password@1"}
		time.Sleep(2 * time.Second)
		s.set("db-password", 2, canary)
		time.Sleep(2 * time.Second)
		if _, err := s.submitWith(secretScript, "db-password@1"); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("version 1, signed after version 2 was set: %v, want CONFLICT", err)
		}
		if _, err := s.Submit(t.Context(), s.signPayload(before)); err != nil {
			t.Errorf("version 1, signed before version 2 was set: %v", err)
		}
	})
}

// Promise: Secrets: A secret cannot be swapped, moved or rolled back in transit.
// How: Signature and ciphertext both contain project, name and version; only the next version is created and only the
// newest is signed.
// Also: TestOldVersionOfSecretIsRefused.
func TestOnlyAdminsSetSecrets(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		label := secret.Label{Cluster: s.Pin, Datacenter: theDatacenter, Project: theProject, Name: "db-password", Version: 1}
		with := func(change func(l *secret.Label)) *identity.Statement {
			wrong := label
			change(&wrong)
			statement := s.statement("", "")
			identity.SecretChange{Project: theProject, Name: "db-password", Version: 1, Ciphertext: s.encrypt(canary, wrong)}.Statement(statement)
			return statement
		}
		stranger := s.statement("", "")
		to, err := secret.ForSupervisor(newKey(t).Public().(ed25519.PublicKey))
		if err != nil {
			t.Fatal(err)
		}
		ciphertext, err := secret.Encrypt(canary, label, to)
		if err != nil {
			t.Fatal(err)
		}
		identity.SecretChange{Project: theProject, Name: "db-password", Version: 1, Ciphertext: ciphertext}.Statement(stranger)
		for name, tt := range map[string]struct {
			statement *identity.Statement
			want      writ.Code
		}{
			"of another secret":         {with(func(l *secret.Label) { l.Name = "api-key" }), writ.CodeSecretUnreadable},
			"of another project":        {with(func(l *secret.Label) { l.Project = "01920000-0000-7000-8000-000000000003" }), writ.CodeSecretUnreadable},
			"of another version":        {with(func(l *secret.Label) { l.Version = 2 }), writ.CodeSecretUnreadable},
			"of another datacenter":     {with(func(l *secret.Label) { l.Datacenter = "01920000-0000-7000-8000-000000000003" }), writ.CodeSecretUnreadable},
			"of another cluster":        {with(func(l *secret.Label) { l.Cluster = "c" }), writ.CodeSecretUnreadable},
			"for another supervisor":    {stranger, writ.CodeSecretUnreadable},
			"a version out of order":    {s.change("db-password", 2, canary), writ.CodeConflict},
			"removing a missing secret": {s.change("db-password", 1, ""), writ.CodeSecretUnknown},
		} {
			if _, err := s.Decide(t.Context(), s.sign(tt.statement)); writ.CodeOf(err) != tt.want {
				t.Errorf("%s: %v, want %s", name, err, tt.want)
			}
		}

		// A coordinator may delay the first statement or repeat both, but cannot choose the newest version. A refused
		// statement stays refused, because its signer may already have the proof.
		later := s.change("db-password", 2, canary)
		s.see(later)
		later.Seen.Revision = 1
		early := s.sign(later)
		first := s.sign(s.change("db-password", 1, "first"))
		if _, err := s.Decide(t.Context(), early); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("second version before the first: %v, want CONFLICT", err)
		}
		later.Nonce = identity.NewNonce()
		second := s.sign(later)
		for _, signed := range [][]byte{first, first, second, first, second} {
			if _, err := s.Decide(t.Context(), signed); err != nil {
				t.Errorf("statements in order and repeated: %v", err)
			}
		}
		if _, err := s.Decide(t.Context(), early); writ.CodeOf(err) != writ.CodeConflict || !testenv.Mentions(err.Error(), "0") {
			t.Errorf("statement that was refused before: %v, want CONFLICT", err)
		}
		if _, err := s.Decide(t.Context(), s.sign(s.change("db-password", 1, "late"))); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("first version again: %v, want CONFLICT", err)
		}
		swapped := bytes.Replace(second, []byte("secret/db-password"), []byte("secret/db-passwort"), 1)
		if _, err := s.Decide(t.Context(), swapped); writ.CodeOf(err) != writ.CodeSignatureInvalid {
			t.Errorf("statement under another name: %v, want SIGNATURE_INVALID", err)
		}
		s.wantVersions("db-password", 2)
	})
}

// wantVersions fails the test unless a secret has exactly want versions.
func (s *sim) wantVersions(name string, want int) {
	s.t.Helper()
	var all []writ.Secret
	err := s.journal.Read(s.t.Context(), func(tx *journal.Tx) (err error) {
		all, err = tx.Secrets(theProject)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(v writ.Secret) bool { return v.Name != name })
	if len(all) != want || all[want-1].Version != want || all[0].SetBy != "alice" || all[0].Set.IsZero() {
		s.t.Errorf("versions = %+v, want %d", all, want)
	}
}

func TestDeployerCannotSetSecrets(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		next, err := s.roster.Successor(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		next.Bindings = slices.DeleteFunc(next.Bindings, func(b identity.Binding) bool { return b.Role == identity.Admin })
		s.adopt(next)
		if _, err := s.AdoptRosters(t.Context(), s.rosters); err != nil {
			t.Fatal(err)
		}
		for _, statement := range []*identity.Statement{s.change("db-password", 1, canary), s.change("db-password", 1, "")} {
			if _, err := s.Decide(t.Context(), s.sign(statement)); writ.CodeOf(err) != writ.CodeRoleMissing {
				t.Errorf("%s by a deployer: %v, want ROLE_MISSING", statement.Decision, err)
			}
		}
	})
}

// A secret is removed while a call waits for it. The call fails, and its dependents fail as well instead of waiting.
func TestRemovedSecretReachesNoNode(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		release := make(chan struct{})
		n := s.join("n1", func(n *testNode) {
			n.act = func(ctx context.Context, job writ.Job) writ.Result {
				if job.Name == "first" {
					<-release
				}
				return succeed(ctx, job)
			}
		})
		s.set("db-password", 1, canary)
		run, err := s.submitWith(`
herodb := import("herodb")
volume := import("volume")
run := import("run")
volume.create("first", {size_gib: 1}).path
store := herodb.create("store", {memory_mib: 64, password: run.secret("db-password")})
herodb.backup(store, {backup: "b"})
`, "db-password@1")
		if err != nil {
			t.Fatal(err)
		}
		s.awaitCall(run.ID, 1, writ.CallQueued)
		if _, err := s.Decide(t.Context(), s.sign(s.change("db-password", 1, ""))); err != nil {
			t.Fatal(err)
		}
		close(release)
		_, calls := s.wantState(run.ID, writ.RunFailed)
		if calls[1].Error.Code != writ.CodeSecretUnknown || calls[2].Error.Code != writ.CodeDependencyFailed {
			t.Errorf("errors of the calls = %+v and %+v", calls[1].Error, calls[2].Error)
		}
		for _, job := range n.jobs {
			if len(job.Secrets) > 0 {
				t.Errorf("job %s has the secret", job.Operation)
			}
		}
		if _, err := s.Decide(t.Context(), s.sign(s.change("db-password", 1, canary))); writ.CodeOf(err) != writ.CodeConflict {
			t.Errorf("version 1 again: %v, want CONFLICT", err)
		}
		s.set("db-password", 2, canary)
		s.wantVersions("db-password", 2)
	})
}

// A node without a valid key cannot receive secrets: the call fails and is not retried.
func TestNodeWithoutKeyGetsNoSecret(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1")
		s.halt()
		j, err := journal.Open(t.Context(), s.place)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Protect(journal.Protection{Key: s.key.Seed()}); err != nil {
			t.Fatal(err)
		}
		err = j.Write(t.Context(), func(tx *journal.Tx) error {
			node, err := tx.Node(n.id)
			if err != nil {
				return err
			}
			node.AgeKey = "lost"
			return tx.PutNode(node)
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		s.start()
		s.set("db-password", 1, canary)
		run, err := s.submitWith(secretScript, "db-password@1")
		if err != nil {
			t.Fatal(err)
		}
		_, calls := s.wantState(run.ID, writ.RunFailed)
		if calls[0].Error.Code != writ.CodeSecretUnreadable || calls[0].Attempt != 1 {
			t.Errorf("attempt %d failed with %+v", calls[0].Attempt, calls[0].Error)
		}
	})
}
