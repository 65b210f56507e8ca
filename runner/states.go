package runner

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// states are how resources stand, as of the last look at each, and what of that the supervisor may not know: each is reported until a report
// that has it is acknowledged, and then no more until it changes.
type states struct {
	mu    sync.Mutex
	all   map[writ.ResourceID]state
	epoch int64 // of the supervisor that gets the reports
}

// state is how one resource stands.
type state struct {
	writ.ResourceState
	round int64 // the first report that it was in, 0 for none; it is in all that follow, until one is acknowledged
	acked bool
}

// stateOf is what a driver sees, for the supervisor.
func stateOf(resource writ.ResourceID, seen sal.Observation) writ.ResourceState {
	if !seen.Exists { // it finished what a delete had begun
		return writ.ResourceState{ResourceID: resource, Standing: writ.Standing{State: catalog.Gone}}
	}
	s := writ.ResourceState{ResourceID: resource, UID: seen.UID, Standing: catalog.StandingOf(seen.Values)}
	s.State = clip(cmp.Or(seen.State, s.State), maxSentence)
	s.Address, s.IPv4 = clip(s.Address, maxSentence), clip(s.IPv4, maxSentence)
	return s
}

// note stores how a resource stands.
func (s *states) note(now writ.ResourceState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, known := s.all[now.ResourceID]; known && before.UID == now.UID && before.Standing.Equal(now.Standing) {
		return
	}
	if s.all == nil {
		s.all = make(map[writ.ResourceID]state)
	}
	s.all[now.ResourceID] = state{ResourceState: now}
}

// forget has the next look report how a resource stands, also if that was reported before: its operation failed or answered with something newer.
func (s *states) forget(resource writ.ResourceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, resource)
}

// markGone notes which resources are not there any more, though no operation removed them, and forgets those whose end is acknowledged.
func (s *states) markGone(there map[writ.ResourceID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r, known := range s.all {
		switch gone := known.State == catalog.Gone; {
		case gone && there[r]: // its record is there, and it is not
		case gone && known.acked:
			delete(s.all, r)
		case !gone && !there[r]:
			s.all[r] = state{ResourceState: writ.ResourceState{ResourceID: r, UID: known.UID, Standing: writ.Standing{State: catalog.Gone}}}
		}
	}
}

// count returns how many resources of each kind are in each state.
func (s *states) count() map[Resources]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := make(map[Resources]int)
	for _, known := range s.all {
		n[Resources{known.Kind, known.State}]++
	}
	return n
}

// resources are those that are known.
func (s *states) resources() iter.Seq[writ.ResourceID] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Values(slices.Collect(maps.Keys(s.all)))
}

// unacked returns at most max of what the supervisor of an epoch may not know, for a report. One that began since may have a journal that came
// from a backup, and gets everything.
func (s *states) unacked(round, epoch int64, max int) []writ.ResourceState {
	s.mu.Lock()
	defer s.mu.Unlock()
	anew := epoch != s.epoch
	s.epoch = epoch
	var open []state
	for r, known := range s.all {
		if anew {
			known.acked, known.round = false, 0
			s.all[r] = known
		}
		if !known.acked {
			open = append(open, known)
		}
	}
	slices.SortFunc(open, func(a, b state) int { // those that were in a report first, so that they are in each that follows
		if began := cmp.Compare(min(b.round, 1), min(a.round, 1)); began != 0 {
			return began
		}
		return a.Compare(b.ResourceID)
	})
	var report []writ.ResourceState
	for _, known := range open[:min(len(open), max)] {
		known.round = cmp.Or(known.round, round)
		s.all[known.ResourceID] = known
		report = append(report, known.ResourceState)
	}
	return report
}

// acknowledged notes that the supervisor has a report.
func (s *states) acknowledged(round int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r, known := range s.all {
		if known.round > 0 && known.round <= round {
			known.acked = true
			s.all[r] = known
		}
	}
}
