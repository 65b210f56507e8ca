package journal_test

import (
	"strconv"
	"testing"
	"testing/fstest"
	"time"

	"writ"
	"writ/internal/sqldb"
	"writ/internal/test/testenv"
	"writ/supervisor/journal"
)

// ofVersion returns the migrations of the journal up to a version.
func ofVersion(t *testing.T, last string) fstest.MapFS {
	t.Helper()
	earlier := make(fstest.MapFS)
	for _, name := range journal.MigrationsForTest() {
		if name[:len(last)] > last {
			break
		}
		text, err := journal.MigrationForTest(name)
		if err != nil {
			t.Fatal(err)
		}
		earlier[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return earlier
}

// on migrates a database to a version and runs statements on it.
func on(t *testing.T, path string, migrations fstest.MapFS, statements ...string) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), path, migrations)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, text := range statements {
		if err := db.Write(t.Context(), func(tx *sqldb.Tx) error { _, err := tx.Exec(text); return err }); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAServedJournalIsNotUpgraded(t *testing.T) {
	path, earlier := server.Store(t), ofVersion(t, "0010")
	until := sqldb.Micros(time.Now().Add(time.Hour))
	on(t, path, earlier, "INSERT INTO meta (name, value) VALUES ('lease', '"+strconv.FormatInt(until, 10)+"')")
	_, err := journal.Open(t.Context(), path)
	if writ.CodeOf(err) != writ.CodeStoreUnavailable || !testenv.Mentions(writ.AsError(err).Hint, "stop") {
		t.Fatalf("opening a journal that an earlier version serves with: %v", err)
	}
	on(t, path, earlier, "UPDATE meta SET value = '0' WHERE name = 'lease'") // still of the earlier version
	j, err := journal.Open(t.Context(), path)
	if err != nil {
		t.Fatalf("open an unserved journal: %v", err)
	}
	j.Close()
}

func TestAProgramOlderThanTheJournalDoesNotServe(t *testing.T) {
	path := server.Store(t)
	j := open(t, path)
	if _, err := j.BeginEpoch(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := j.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	on(t, path, ofVersion(t, "9999"), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, TRUE)")
	if _, err := j.BeginEpoch(t.Context(), time.Now()); writ.CodeOf(err) != writ.CodeConflict {
		t.Errorf("an epoch on a journal that a later version has upgraded: %v", err)
	}
}

func TestNoTwoRunsHaveOneNumber(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		write(t, j, func(tx *journal.Tx) error { return accept(tx, "ra") })
		err := j.Write(t.Context(), func(tx *journal.Tx) error { // as a program without numbers writes
			_, err := tx.Exec(`INSERT INTO runs (id, state, open, project, deployment, revision, accepted, due, body, number)
				SELECT 'rb', state, open, project, deployment, revision, accepted, due, body, number FROM runs WHERE id = 'ra'`)
			return err
		})
		if err == nil {
			t.Error("two runs have one number")
		}
	})
}

func TestEarlierJournalAcceptsBatches(t *testing.T) {
	path := server.Store(t)
	on(t, path, ofVersion(t, "0018"))
	j, err := journal.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	made := journal.NodeBatch{ID: "aaaaaaaaaaaaa", Signed: []byte("signed"), Until: time.Now().UTC().Truncate(time.Microsecond), Admitted: []string{"SN-0001"}}
	if err := j.Write(t.Context(), func(tx *journal.Tx) error { return tx.PutNodeBatch(&made) }); err != nil {
		t.Fatal(err)
	}
	err = j.Read(t.Context(), func(tx *journal.Tx) error {
		b, err := tx.NodeBatch(made.ID)
		if err == nil && (b == nil || !b.Used("SN-0001") || !b.Until.Equal(made.Until)) {
			t.Errorf("the batch is kept as %+v", b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// An earlier journal counts whole CPUs.
func TestEarlierReservationsOfCPUsStay(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		on(t, path, ofVersion(t, "0022"), "INSERT INTO loads (node, planned, queued, running, cpus, memory_mib, disk_gib) VALUES ('n1', 1, 0, 0, 3, 512, 1)")
		j := open(t, path)
		err := j.Read(t.Context(), func(tx *journal.Tx) error {
			l, err := tx.Load("n1")
			if want := (writ.Capacity{CPUs: 3, MemoryMiB: 512, DiskGiB: 1}); l.Reserved != want {
				t.Errorf("reserved are %+v, want %+v", l.Reserved, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
