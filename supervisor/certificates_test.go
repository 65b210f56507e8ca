package supervisor_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
)

// issued are certificates that note how often they were replaced.
type issued struct {
	mu     sync.Mutex
	floors []time.Time
}

func (i *issued) List() ([]writ.Certificate, error) {
	return []writ.Certificate{{Of: "supervisor"}}, nil
}

func (i *issued) Rotate(floor time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.floors = append(i.floors, floor)
}

func (i *issued) rotated() []time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.floors)
}

// Whoever may admit nodes ends certificates. A supervisor that comes back, or stands in for the one that did it, knows of it.
func TestCertificatesAreEndedForGood(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		first := new(issued)
		s.halt()
		s.certificates = first
		s.start()
		subject := "datacenter/" + string(theDatacenter)
		for name, change := range map[string]func(*identity.Statement){
			"under the name of another": func(st *identity.Statement) { st.Seen.Name = "other" },
			"of another datacenter":     func(st *identity.Statement) { st.Subject = "datacenter/" + writ.NewUUID() },
		} {
			st := s.statement(subject, identity.DecisionRotate)
			s.see(st)
			change(st)
			if _, err := s.Decide(t.Context(), s.sign(st)); writ.CodeOf(err) != writ.CodeConflict {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := first.rotated(); len(got) > 0 {
			t.Errorf("certificates were ended at %v", got)
		}
		st := s.statement(subject, identity.DecisionRotate)
		signed := s.sign(st)
		for range 2 { // the second is the same statement
			if _, err := s.Decide(t.Context(), signed); err != nil {
				t.Fatal(err)
			}
		}
		got := first.rotated()
		if len(got) != 1 {
			t.Fatalf("certificates were ended at %v", got)
		}
		s.halt()
		next := new(issued)
		s.certificates = next
		s.start()
		if again := next.rotated(); len(again) != 1 || !again[0].Equal(got[0].Truncate(time.Microsecond)) {
			t.Errorf("the next supervisor ends those before %v instead of %v", again, got)
		}
		err := s.journal.Read(t.Context(), func(tx *journal.Tx) error {
			floor, err := tx.CertificateFloor()
			if !floor.Equal(got[0].Truncate(time.Microsecond)) {
				t.Errorf("the journal has %v", floor)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
