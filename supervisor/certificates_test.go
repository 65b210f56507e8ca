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

// issued records each rotation of the certificates.
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

// A person who may admit nodes ends certificates. A restarted supervisor, or the standby that replaces it, reads the
// time from the journal.
func TestEndedCertificatesStayEnded(t *testing.T) {
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
			t.Errorf("certificates ended at %v, want none", got)
		}
		st := s.statement(subject, identity.DecisionRotate)
		signed := s.sign(st)
		for range 2 { // the second is a repeat
			if _, err := s.Decide(t.Context(), signed); err != nil {
				t.Fatal(err)
			}
		}
		got := first.rotated()
		if len(got) != 1 {
			t.Fatalf("certificates ended at %v, want once", got)
		}
		s.halt()
		next := new(issued)
		s.certificates = next
		s.start()
		if again := next.rotated(); len(again) != 1 || !again[0].Equal(got[0].Truncate(time.Microsecond)) {
			t.Errorf("the next supervisor ends certificates before %v, want %v", again, got)
		}
		err := s.journal.Read(t.Context(), func(tx *journal.Tx) error {
			floor, err := tx.CertificateFloor()
			if !floor.Equal(got[0].Truncate(time.Microsecond)) {
				t.Errorf("floor in the journal = %v", floor)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
