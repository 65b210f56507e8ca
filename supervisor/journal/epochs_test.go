package journal_test

import (
	"path/filepath"
	"testing"
	"time"

	"writ"
	"writ/supervisor/journal"
)

func TestRestoredJournalStartsReconciling(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	j := open(t, path)
	begun := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	begin := func(j *journal.Journal, at time.Time) {
		t.Helper()
		if _, err := j.BeginEpoch(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	begin(j, begun)
	if got := j.ReconcilesUntil(); !got.IsZero() {
		t.Errorf("a new journal is reconciled until %s", got)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	first := begun.Add(time.Hour)
	for _, at := range []time.Time{first, first.Add(time.Hour)} { // a later start keeps the first time
		j := open(t, path)
		if at.Equal(first) {
			j.CameFromBackup()
		}
		begin(j, at)
		if got := j.ReconcilesUntil(); !got.Equal(first) {
			t.Errorf("it is reconciled until %s, want %s", got, first)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A coordinator that claims false events could otherwise make every run wait for answers of dead nodes.
func TestNoCoordinatorStartsAReconciliation(t *testing.T) {
	for _, tt := range []struct {
		name    string
		seq     int64
		late    time.Duration // added to the time of the coordinator's last event
		forgets int64
	}{
		{name: "all", seq: 3},
		{name: "less than is kept", seq: 0, forgets: 2},
		{name: "more than there was", seq: 4},
		{name: "far more", seq: 1 << 60},
		{name: "something else", seq: 2, late: time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stores(t, func(t *testing.T, path string) {
				j := open(t, path)
				for range 3 {
					write(t, j, func(tx *journal.Tx) error { tx.AddEvents(writ.Event{}); return nil })
				}
				told, err := j.Events(t.Context(), 0, 10)
				if err != nil {
					t.Fatal(err)
				}
				at := time.Time{}
				if tt.seq > 0 {
					at = told[min(tt.seq, 3)-1].Time.Add(tt.late)
				}
				write(t, j, func(tx *journal.Tx) error {
					_, err := tx.ExecContext(t.Context(), `DELETE FROM events WHERE seq <= $1`, tt.forgets)
					return err
				})
				_ = j.Feed("c").Agree(t.Context(), j.ID(), tt.seq, at) // it returns an error if a new generation begins
				if got := j.ReconcilesUntil(); !got.IsZero() {
					t.Errorf("it is reconciled until %s", got)
				}
			})
		})
	}
}

func TestLyingCoordinatorGetsFewGenerations(t *testing.T) {
	stores(t, func(t *testing.T, path string) {
		j := open(t, path)
		write(t, j, func(tx *journal.Tx) error { tx.AddEvents(writ.Event{}); return nil })
		ids := map[string]bool{}
		liar, honest := j.Feed("liar"), j.Feed("honest")
		for range 50 {
			if err := liar.Agree(t.Context(), liar.ID(), 1<<60, time.Time{}); err == nil {
				t.Fatal("it agreed with a lie")
			}
			ids[liar.ID()] = true
		}
		if len(ids) > 3 {
			t.Errorf("%d new generations", len(ids))
		}
		if honest.ID() != j.ID() {
			t.Error("an honest coordinator got a new generation as well")
		}
		if err := honest.Agree(t.Context(), honest.ID(), 0, time.Time{}); err != nil {
			t.Errorf("agree with an honest coordinator: %v", err)
		}
		if err := j.MarkRestored(t.Context()); err != nil || liar.ID() != j.ID() || open(t, path).Feed("liar").ID() != j.ID() {
			t.Errorf("%v; generation after a restore = %s, want %s", err, liar.ID(), j.ID())
		}
	})
}

func TestJournalKnowsItsEpochs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	var gave []int64
	for range 3 {
		j := open(t, path)
		epoch, err := j.BeginEpoch(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		gave = append(gave, epoch)
		for _, e := range gave {
			if !j.Gave(e) || j.Gave(e+1) {
				t.Errorf("epochs %v: Gave(%d) = %v, of the next = %v", gave, e, j.Gave(e), j.Gave(e+1))
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Hour)
	}
}

func TestRunsFromBeforeARestoreAreReconciled(t *testing.T) {
	until := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name             string
		signed, accepted time.Duration // relative to until
		want             bool
	}{
		{"open in the backup", -2 * time.Hour, -time.Hour, true},
		{"handed in again", -time.Hour, time.Hour, true},
		{"signed by a clock that is fast", time.Minute, time.Hour, true},
		{"signed since", 2 * time.Minute, time.Hour, false},
	} {
		run := &journal.Run{Signed: until.Add(tt.signed)}
		run.Accepted = until.Add(tt.accepted)
		if got := run.Reconciles(until, time.Minute); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
		if run.Reconciles(time.Time{}, time.Minute) {
			t.Errorf("%s: reconciles without a restore", tt.name)
		}
	}
}
