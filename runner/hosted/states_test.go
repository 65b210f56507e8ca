package hosted

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
)

// States beyond the limit of a report follow in later ones, acknowledged or not. A state that was in no acknowledged
// report stays pending.
func TestStatesBeyondOneReportFollowInOthers(t *testing.T) {
	var s States
	id := func(i int) writ.ResourceID {
		return writ.ResourceID{Kind: writ.KindVolume, Name: fmt.Sprintf("v%02d", i)}
	}
	for i := range 10 {
		s.Note(writ.ResourceState{ResourceID: id(10 + i), Standing: writ.Standing{State: "ready"}})
	}
	told := make(map[string]bool)
	tell := func(round int64, acknowledged bool) {
		for _, r := range s.Unacked(round, 1, 4) {
			if acknowledged {
				told[r.Name] = true
			}
		}
		if acknowledged {
			s.Acknowledged(round)
		}
	}
	tell(1, false)
	s.Note(writ.ResourceState{ResourceID: id(1), Standing: writ.Standing{State: "ready"}}) // first by name
	tell(2, true)
	for round := int64(3); round < 6; round++ {
		tell(round, true)
	}
	if len(told) != 11 {
		t.Errorf("reported states = %v", told)
	}
	if rest := s.Unacked(6, 1, 100); len(rest) > 0 {
		t.Errorf("acknowledged states are reported again: %+v", rest)
	}
	if all := s.Unacked(7, 2, 100); len(all) != 11 {
		t.Errorf("%d states for another supervisor, want 11", len(all))
	}
}

// A resource that disappeared without an operation is reported until that is acknowledged, and then no more.
func TestALostResourceIsReportedOnce(t *testing.T) {
	var s States
	id := writ.ResourceID{Kind: writ.KindVolume, Name: "v"}
	s.Note(writ.ResourceState{ResourceID: id, UID: "u", Standing: writ.Standing{State: "ready"}})
	s.Unacked(1, 1, 10)
	s.Acknowledged(1)
	for round := int64(2); round < 5; round++ {
		s.MarkGone(nil)
		want := []writ.ResourceState{{ResourceID: id, UID: "u", Standing: writ.Standing{State: "gone"}}}
		if diff := cmp.Diff(want, s.Unacked(round, 1, 10)); diff != "" {
			t.Errorf("report %d (-want +got):\n%s", round, diff)
		}
	}
	s.Acknowledged(4)
	s.MarkGone(nil)
	if got := s.Unacked(5, 1, 10); len(got) > 0 || len(s.all) > 0 {
		t.Errorf("reported again: %+v, stored: %+v", got, s.all)
	}
	s.Note(writ.ResourceState{ResourceID: id, UID: "w", Standing: writ.Standing{State: "ready"}})
	s.Forget(id) // a delete removed it
	s.MarkGone(nil)
	if got := s.Unacked(6, 1, 10); len(got) > 0 {
		t.Errorf("deleted resource is reported: %+v", got)
	}
}

// A missing resource with a record is also reported once, while that does not change.
func TestALostResourceWithARecordIsReportedOnce(t *testing.T) {
	var s States
	id := writ.ResourceID{Kind: writ.KindVolume, Name: "v"}
	there := map[writ.ResourceID]bool{id: true}
	for round := int64(1); round < 4; round++ {
		s.Note(writ.ResourceState{ResourceID: id, UID: "u", Standing: writ.Standing{State: "gone"}})
		s.MarkGone(there)
		if got := s.Unacked(round, 1, 10); (len(got) == 1) != (round == 1) {
			t.Errorf("report %d = %+v", round, got)
		}
		s.Acknowledged(round)
	}
	s.MarkGone(nil)
	if len(s.all) > 0 {
		t.Errorf("it is remembered after its record: %+v", s.all)
	}
}
