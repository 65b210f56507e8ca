package runner

import (
	"fmt"
	"testing"

	"writ"
)

// More than a report has room for is told in several, each acknowledged or not; nothing is taken for told that was in none of those.
func TestStatesThatDoNotFitIntoOneReportAreToldInOthers(t *testing.T) {
	var s states
	id := func(i int) writ.ResourceID {
		return writ.ResourceID{Kind: writ.KindVolume, Name: fmt.Sprintf("v%02d", i)}
	}
	for i := range 10 {
		s.note(writ.ResourceState{ResourceID: id(10 + i), State: "ready"})
	}
	told := make(map[string]bool)
	tell := func(round int64, acknowledged bool) {
		for _, r := range s.untold(round, 1, 4) {
			if acknowledged {
				told[r.Name] = true
			}
		}
		if acknowledged {
			s.acknowledged(round)
		}
	}
	tell(1, false)
	s.note(writ.ResourceState{ResourceID: id(1), State: "ready"}) // comes before the others by name
	tell(2, true)
	for round := int64(3); round < 6; round++ {
		tell(round, true)
	}
	if len(told) != 11 {
		t.Errorf("told are %v", told)
	}
	if rest := s.untold(6, 1, 100); len(rest) > 0 {
		t.Errorf("what was told is told again: %+v", rest)
	}
	if all := s.untold(7, 2, 100); len(all) != 11 {
		t.Errorf("another supervisor is told of %d", len(all))
	}
	s.keep(map[writ.ResourceID]bool{id(1): true})
	if rest := s.untold(8, 3, 100); len(rest) != 1 {
		t.Errorf("what is gone is told: %+v", rest)
	}
}
