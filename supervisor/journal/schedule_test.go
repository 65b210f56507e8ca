package journal_test

import (
	"testing"

	"writ"
	"writ/internal/test/metricspage"
	"writ/supervisor/journal"
)

func TestUnconfirmedEventsAreCounted(t *testing.T) {
	j := open(t, ":memory:")
	write(t, j, func(tx *journal.Tx) error {
		tx.AddEvents(make([]writ.Event, 5)...)
		return nil
	})
	if err := j.Feed("http://here").Acknowledge(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	err := j.Read(t.Context(), func(tx *journal.Tx) error {
		open, all, err := tx.Unconfirmed()
		if all != 5 || len(open) != 1 || open["http://here"] != 2 {
			t.Errorf("of %d events are not confirmed: %v", all, open)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	page := metricspage.Read(t, j.Metrics)
	writes, failed := page.Value("writ_supervisor_journal_write_seconds"), page.Value("writ_supervisor_journal_failures_total")
	if writes < 2 || failed != 0 {
		t.Errorf("%g writes, and %g that failed", writes, failed)
	}
}
