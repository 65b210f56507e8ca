package journal

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/internal/sqldb"
)

var theKey = []byte("a key that no database has, of 32")

// openProtected opens a journal, protects it and begins an epoch.
func openProtected(t *testing.T, path string, p Protection) (*Journal, error) {
	t.Helper()
	j, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	if err := j.Protect(p); err != nil {
		t.Fatal(err)
	}
	_, err = j.BeginEpoch(t.Context(), time.Now())
	return j, err
}

func mustWrite(t *testing.T, j *Journal, do func(tx *Tx) error) {
	t.Helper()
	if err := j.Write(t.Context(), do); err != nil {
		t.Fatal(err)
	}
}

// Each new column of a table must be covered by the code of its rows, or listed with a reason.
//
// Promise: Failures: A hostile database cannot add, change, move or copy a deciding record; such a record is refused
// and logged once.
// How: HMAC-SHA256 of key and columns, under a key derived from the supervisor's; a test compares the covered columns
// with the schema.
// Also: TestForgedRowIsRefusedAndLoggedOnce, TestCallsOfAnotherRunAreRefused,
// TestASpentTokenIsProtected, TestEveryValueCarriesACodeOrDoesNoHarm, TestForgedMetaValueIsRefused,
// TestForgedNodeGetsNoWork,
// TestSwappedSecretReachesNoNode, TestScriptReadsNoForgedResult,
// TestForgedCallIsNotSent, TestForgedRunIsNotExecuted,
// TestRestoredTokenRowStaysSpent, TestSwappedStatementAnswerIsRejected.
func TestEveryColumnIsCoveredOrDoesNoHarm(t *testing.T) {
	j, err := Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	known := make(map[string]covered)
	for _, c := range coveredTables {
		known[c.table] = c
	}
	err = j.Read(t.Context(), func(tx *Tx) error {
		rows, err := tx.someRows(2, `SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c
			WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' AND m.name NOT LIKE 'goose%' ORDER BY m.name`)
		seen := make(map[string][]string)
		for _, row := range rows {
			table, column := row[0].(string), row[1].(string)
			seen[table] = append(seen[table], column)
			c, isCovered := known[table]
			switch {
			case !isCovered && freeTables[table] == "":
				t.Errorf("table %s is in neither list of codes", table)
			case isCovered && freeTables[table] != "":
				t.Errorf("table %s is in both lists of codes", table)
			case isCovered && column != "mac" && !slices.Contains(c.key, column) && !slices.Contains(c.columns, column) && c.free[column] == "":
				t.Errorf("the code of %s does not cover %s, without a reason", table, column)
			}
		}
		for table, c := range known {
			for _, column := range slices.Concat(c.key, c.columns) {
				if !slices.Contains(seen[table], column) || c.free[column] != "" {
					t.Errorf("%s has no column %s to cover, or it is free, too", table, column)
				}
			}
			for column := range c.free {
				if !slices.Contains(seen[table], column) {
					t.Errorf("%s has no column %s that is free", table, column)
				}
			}
		}
		for table := range freeTables {
			if seen[table] == nil {
				t.Errorf("unknown table %s", table)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// fill writes a row into every covered table.
func fill(t *testing.T, j *Journal) {
	t.Helper()
	digest := writ.DigestOf([]byte("x"))
	for _, name := range []string{"1", "2"} {
		mustWrite(t, j, func(tx *Tx) error {
			run := &Run{Run: writ.Run{ID: writ.RunID("run-" + name), Payload: writ.DigestOf([]byte(name)), State: writ.RunAccepted, Project: "p"}}
			if _, _, err := tx.AddRun(run, 1, []byte(name)); err != nil {
				return err
			}
			call := &Call{Call: writ.Call{Seq: 1, Operation: "volume.create", Kind: "volume", Name: "v" + name, State: writ.CallQueued, Node: "n", Attempt: 2, Delivery: 1, Planned: tx.Now}}
			call.In(run)
			call.Sent = &Delivery{Attempt: 1, Delivery: 1, Node: "n", Job: digest, At: tx.Now}
			if err := tx.AddDelivery(call, digest, 1); err != nil {
				return err
			}
			if err := tx.PutCall(call); err != nil {
				return err
			}
			if _, err := tx.AddResult(call, 1, &Frame{Digest: digest, Signed: []byte("x")}); err != nil {
				return err
			}
			if err := tx.PutResource(&Resource{Resource: writ.Resource{ResourceID: writ.ResourceID{Project: "p", Kind: "volume", Name: "v" + name}, Node: "n"}}); err != nil {
				return err
			}
			gone := &Resource{Resource: writ.Resource{ResourceID: writ.ResourceID{Project: "p", Kind: "volume", Name: "gone" + name}, UID: writ.UID(name), Node: "n"}}
			if err := Depart(tx, gone); err != nil {
				return err
			}
			if err := tx.PutNode(&Node{Node: writ.Node{ID: writ.NodeID("node-" + name), Name: "n" + name}, PublicKey: []byte(name)}); err != nil {
				return err
			}
			if err := tx.AddToken(Token{ID: "t" + name, Key: []byte(name), CreatedBy: "alice", Expires: tx.Now.Add(time.Hour)}); err != nil {
				return err
			}
			if err := tx.AddToken(Token{ID: "m" + name, Key: []byte(name), CreatedBy: "alice", Expires: tx.Now.Add(time.Hour), Uses: 3}); err != nil {
				return err
			}
			if err := tx.AddBootToken(&BootToken{ID: "boot" + name, Key: []byte(name), CreatedBy: "alice", Expires: tx.Now.Add(time.Hour)}); err != nil {
				return err
			}
			if err := tx.PutNodeBatch(&NodeBatch{ID: "b" + name, Signed: []byte(name), Until: tx.Now}); err != nil {
				return err
			}
			if err := tx.AddSecret(&Secret{Secret: writ.Secret{Project: "p", Name: "s" + name, Version: 1, SetBy: "alice", Set: tx.Now}, Ciphertext: []byte(name), Statement: digest}); err != nil {
				return err
			}
			text := Text{Digest: writ.DigestOf([]byte(name)), Signer: "alice", Signed: []byte("signed"), Expires: tx.Now}
			if err := tx.AddStatement(text, []byte("{}")); err != nil {
				return err
			}
			text.Digest = writ.DigestOf([]byte("refused " + name))
			if err := tx.AddRefusal(text, []byte("{}")); err != nil {
				return err
			}
			if err := tx.putHolds(int64(name[0]-'0'), identity.Holds{{Held: true, Revision: 1}}, 1); err != nil {
				return err
			}
			return tx.SetRevision("p", "d"+name, 3)
		})
	}
}

// readAll reads one row of every covered table, and returns the tables whose row was refused.
func readAll(t *testing.T, j *Journal) (refused []string) {
	t.Helper()
	err := j.Read(t.Context(), func(tx *Tx) error {
		digest := writ.DigestOf([]byte("x"))
		call := &Call{Call: writ.Call{Run: "run-1", Seq: 1}}
		for _, read := range []struct {
			table string
			of    func() (found bool, err error)
		}{
			{"runs", func() (bool, error) { r, err := tx.Run("run-1"); return r != nil && r.ID == "run-1", err }},
			{"calls", func() (bool, error) { c, err := tx.Calls("run-1"); return len(c) == 1, err }},
			{"nodes", func() (bool, error) { n, err := tx.Node("node-1"); return n != nil && n.ID == "node-1", err }},
			{"nodes", func() (bool, error) { all, err := tx.Nodes(); return len(all) == 2, err }},
			{"resources", func() (bool, error) {
				r, err := tx.Resource(writ.ResourceID{Project: "p", Kind: "volume", Name: "v1"})
				return r != nil && r.Name == "v1", err
			}},
			{"resources", func() (bool, error) { all, err := tx.Resources(); return len(all) == 2, err }},
			{"departed", func() (bool, error) { d, err := tx.Departed("1", "n"); return d != nil && d.Name == "gone1", err }},
			{"tokens", func() (bool, error) { k, err := tx.Token("t1"); return k != nil && string(k.Key) == "1", err }},
			{"token_uses", func() (bool, error) { k, err := tx.Token("m1"); return k != nil && k.Uses == 3, err }},
			{"boot_tokens", func() (bool, error) { k, err := tx.BootToken("boot1"); return k != nil && string(k.Key) == "1", err }},
			{"boot_tokens", func() (bool, error) { all, err := tx.BootTokens(10); return len(all) == 2, err }},
			{"batches", func() (bool, error) { b, err := tx.NodeBatch("b1"); return b != nil && string(b.Signed) == "1", err }},
			{"batches", func() (bool, error) { all, err := tx.NodeBatches(10); return len(all) == 2, err }},
			{"secrets", func() (bool, error) {
				s, err := tx.Secret("p", "s1", 1)
				return s != nil && string(s.Ciphertext) == "1", err
			}},
			{"secrets", func() (bool, error) { s, err := tx.NewestSecret("p", "s1"); return s != nil, err }},
			{"secrets", func() (bool, error) { all, err := tx.Secrets("p"); return len(all) == 2, err }},
			{"statements", func() (bool, error) { a, err := tx.StatementAnswer(writ.DigestOf([]byte("1"))); return a != nil, err }},
			{"refusals", func() (bool, error) { a, err := tx.Refusal(writ.DigestOf([]byte("refused 1"))); return a != nil, err }},
			{"deployments", func() (bool, error) { r, err := tx.Revision("p", "d1"); return r == 3, err }},
			{"holds", func() (bool, error) { all, revision, err := tx.Holds(); return len(all) == 1 && revision == 1, err }},
			{"deliveries", func() (bool, error) { return tx.WasSent(call, 1, "n", digest) }},
			{"results", func() (bool, error) { _, err := tx.ResultsDigest("run-1", nil); return true, err }},
		} {
			found, err := read.of()
			if err != nil && !isForged(err) {
				return fmt.Errorf("read %s: %w", read.table, err)
			}
			if !found || err != nil {
				refused = append(refused, read.table)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Compact(refused)
}

// bothEngines runs a test on a file and on PostgreSQL.
func bothEngines(t *testing.T, test func(t *testing.T, path string)) {
	t.Run("file", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "journal.db")) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, StoreForTest(t)) })
}

// StoreForTest creates an empty store on PostgreSQL; the external test package sets it.
var StoreForTest func(t testing.TB) string

func TestForgedRowIsRefusedAndLoggedOnce(t *testing.T) {
	bothEngines(t, func(t *testing.T, path string) {
		told := 0
		j, err := openProtected(t, path, Protection{Key: theKey, Refused: func(*writ.Error) { told++ }})
		if err != nil {
			t.Fatal(err)
		}
		fill(t, j)
		if refused := readAll(t, j); refused != nil {
			t.Fatalf("unchanged rows of %q are refused", refused)
		}
		exec := func(query string, args ...any) {
			t.Helper()
			if err := j.db.Write(t.Context(), func(tx *sqldb.Tx) error { _, err := tx.Exec(query, args...); return err }); err != nil {
				t.Fatalf("%s: %v", query, err)
			}
		}
		first := map[string]string{ // the row that readAll reads
			"runs": "id = 'run-1'", "calls": "run = 'run-1'", "nodes": "id = 'node-1'", "resources": "name = 'v1'", "departed": "uid = '1'", "tokens": "id = 't1'", "token_uses": "token = 'm1'", "boot_tokens": "id = 'boot1'", "batches": "id = 'b1'", "secrets": "name = 's1'",
			"statements":  "digest = '" + writ.DigestOf([]byte("1")).String() + "'",
			"refusals":    "digest = '" + writ.DigestOf([]byte("refused 1")).String() + "'",
			"deployments": "name = 'd1'", "deliveries": "run = 'run-1'", "results": "run = 'run-1'", "holds": "id = 1",
		}
		second := strings.NewReplacer("run-1", "run-2", "node-1", "node-2", "'v1'", "'v2'", "uid = '1'", "uid = '2'", "'t1'", "'t2'", "'m1'", "'m2'", "'boot1'", "'boot2'", "'b1'", "'b2'", "'s1'", "'s2'", "'d1'", "'d2'", "id = 1", "id = 2",
			writ.DigestOf([]byte("1")).String(), writ.DigestOf([]byte("2")).String(),
			writ.DigestOf([]byte("refused 1")).String(), writ.DigestOf([]byte("refused 2")).String())
		for _, c := range coveredTables {
			code := "mac"
			if c.inBody() {
				code = "body"
			}
			var kept any // the code or body of the row
			if err := j.db.QueryRow(t.Context(), fmt.Sprintf("SELECT %s FROM %s WHERE %s", code, c.table, first[c.table])).Scan(&kept); err != nil {
				t.Fatal(err)
			}
			changes := []string{fmt.Sprintf("%s = (SELECT %s FROM %s WHERE %s)", code, code, c.table, second.Replace(first[c.table]))} // copied
			if c.inBody() {
				changes = append(changes, "body = $1")
			} else {
				changes = append(changes, "mac = NULL")
				for _, column := range c.columns {
					changes = append(changes, changed(column))
				}
			}
			for _, change := range changes {
				var was []any
				columns := append(slices.Clone(c.columns), code)
				err := j.Read(t.Context(), func(tx *Tx) error {
					rows, err := tx.someRows(len(columns), fmt.Sprintf("SELECT %s FROM %s WHERE %s", strings.Join(columns, ", "), c.table, first[c.table]))
					was = rows[0]
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				args := []any{}
				if strings.Contains(change, "$1") {
					args = append(args, other(kept))
				}
				before := told
				exec(fmt.Sprintf("UPDATE %s SET %s WHERE %s", c.table, change, first[c.table]), args...)
				if refused := readAll(t, j); !slices.Equal(refused, []string{c.table}) {
					t.Errorf("%s: with %s, %q are refused", c.table, change, refused)
				}
				readAll(t, j)
				if now := told - before; now > 1 {
					t.Errorf("%s: change of %s reported %d times, want at most 1", c.table, change, now)
				}
				for i, column := range columns {
					exec(fmt.Sprintf("UPDATE %s SET %s = $1 WHERE %s", c.table, column, first[c.table]), was[i])
				}
			}
		}
		if refused := readAll(t, j); refused != nil {
			t.Errorf("restored rows of %q are refused", refused)
		}
		if told != len(coveredTables) {
			t.Errorf("%d changed rows were reported %d times", len(coveredTables), told)
		}
	})
}

// changed returns an SQL expression for another value of a column.
func changed(column string) string {
	switch column {
	case "uses", "used", "expires", "spent", "set_at", "removed", "revision", "epoch", "sent":
		return column + " = " + column + " + 1"
	case "key", "sealed", "answer":
		return column + " = (SELECT body FROM nodes WHERE id = 'node-2')"
	}
	return column + " = 'x'"
}

// other returns a body with one bit changed.
func other(body any) []byte {
	b := slices.Clone(body.([]byte))
	b[len(b)-1] ^= 1
	return b
}

// Rows without a code are refused, also in a journal without the mark of its key.
//
// Promise: Failures: The journal rejects records without an authentication code.
// How: Each read of a record verifies its code, and a mark shows with which key the codes were made.
// Also: TestAJournalWithoutItsMarkIsProtectedStill.
func TestRowsWithoutACodeAreRefused(t *testing.T) {
	bothEngines(t, func(t *testing.T, path string) {
		plain, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		mustWrite(t, plain, func(tx *Tx) error { // an attacker adds an approved node
			return tx.PutNode(&Node{Node: writ.Node{ID: "evil", Name: "evil", Admission: writ.AdmissionApproved}, PublicKey: []byte("evil")})
		})
		plain.Close()
		j, err := openProtected(t, path, Protection{Key: theKey})
		if err != nil {
			t.Fatal(err)
		}
		err = j.Read(t.Context(), func(tx *Tx) error { _, err := tx.Node("evil"); return err })
		if !isForged(err) {
			t.Errorf("the node is read: %v", err)
		}
		release(t, j)
		if _, err := openProtected(t, path, Protection{Key: []byte("another key")}); !isForged(err) {
			t.Errorf("with another key: %v", err)
		}
	})
}

// Deleting the mark of the key does not help an attacker.
func TestAJournalWithoutItsMarkIsProtectedStill(t *testing.T) {
	bothEngines(t, func(t *testing.T, path string) {
		j, err := openProtected(t, path, Protection{Key: theKey})
		if err != nil {
			t.Fatal(err)
		}
		fill(t, j)
		mustWrite(t, j, func(tx *Tx) error { return tx.exec(`DELETE FROM meta WHERE name = 'protected'`) })
		release(t, j)
		j, err = openProtected(t, path, Protection{Key: theKey})
		if err != nil || readAll(t, j) != nil {
			t.Error(err)
		}
		release(t, j)
	})
}

// Two runs with the same number must not read each other's calls.
func TestCallsOfAnotherRunAreRefused(t *testing.T) {
	j, err := openProtected(t, ":memory:", Protection{Key: theKey})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, j)
	mustWrite(t, j, func(tx *Tx) error {
		if err := tx.exec(`DROP INDEX runs_number`); err != nil {
			return err
		}
		if err := tx.exec(`UPDATE run_counter SET number = number - 64`); err != nil {
			return err
		}
		_, _, err := tx.AddRun(&Run{Run: writ.Run{ID: "run-3", Payload: writ.DigestOf([]byte("3")), State: writ.RunAccepted}}, 1, []byte("3"))
		return err
	})
	err = j.Read(t.Context(), func(tx *Tx) error {
		_, err := tx.Calls("run-3")
		return err
	})
	if !isForged(err) {
		t.Errorf("the calls of run-1 under the number of run-3: %v", err)
	}
}

// Spending a token is permanent, and an attacker with write access to the database cannot change which node spent it.
func TestASpentTokenIsProtected(t *testing.T) {
	j, err := openProtected(t, ":memory:", Protection{Key: theKey})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, j)
	mustWrite(t, j, func(tx *Tx) error {
		spent, err := tx.SpendToken("t1", envelope.KeyID("a"))
		if err == nil && !spent {
			t.Error("it is not spent")
		}
		return err
	})
	mustWrite(t, j, func(tx *Tx) error { return tx.exec(`UPDATE tokens SET spent = 0, spent_key = ''`) })
	err = j.Write(t.Context(), func(tx *Tx) error {
		spent, err := tx.SpendToken("t1", envelope.KeyID("b"))
		if spent {
			t.Error("it is spent twice")
		}
		return err
	})
	if !isForged(err) {
		t.Errorf("SpendToken = %v", err)
	}
}

// A forged token is missing in the list of tokens, which shows the others.
func TestForgedTokenEndsNoList(t *testing.T) {
	for name, forge := range map[string]string{
		"token": `UPDATE tokens SET created_by = 'mallory' WHERE id = 't1'`,
		"uses":  `UPDATE token_uses SET used = used + 1 WHERE token = 'm1'`,
	} {
		t.Run(name, func(t *testing.T) {
			j, err := openProtected(t, ":memory:", Protection{Key: theKey})
			if err != nil {
				t.Fatal(err)
			}
			fill(t, j)
			var before, after []*Token
			mustWrite(t, j, func(tx *Tx) (err error) { before, err = tx.Tokens(100); return err })
			mustWrite(t, j, func(tx *Tx) error { return tx.exec(forge) })
			mustWrite(t, j, func(tx *Tx) (err error) { after, err = tx.Tokens(100); return err })
			if len(before) < 2 || len(after) != len(before)-1 {
				t.Errorf("%d tokens of %d", len(after), len(before))
			}
		})
	}
}

func release(t *testing.T, j *Journal) {
	t.Helper()
	if err := j.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	j.Close()
}

// BenchmarkCode measures the code of a row with a body of a call's size.
func BenchmarkCode(b *testing.B) {
	j := new(Journal)
	if err := j.Protect(Protection{Key: theKey}); err != nil {
		b.Fatal(err)
	}
	tx := &Tx{codes: j.codes.Load()}
	body := make([]byte, 400)
	for b.Loop() {
		if _, err := tx.withCode("calls", body, int64(4097)); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTheListOfChangedRowsIsBounded(t *testing.T) {
	told := 0
	c := &codes{Protection: Protection{Refused: func(*writ.Error) { told++ }}, told: make(map[string]bool)}
	for i := range 3 * maxRefusedRows {
		if err := c.refuse("nodes", []any{i}); !isForged(err) {
			t.Fatal(err)
		}
	}
	if told != 3*maxRefusedRows || len(c.told) != maxRefusedRows {
		t.Errorf("reported %d rows, remembered %d, want %d and %d", told, len(c.told), 3*maxRefusedRows, maxRefusedRows)
	}
}

func (c *covered) inBody() bool { return c.columns[0] == "body" }
