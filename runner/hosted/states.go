package hosted

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync"

	"writ"
	"writ/internal/clip"
	"writ/sal"
	"writ/sal/catalog"
)

// maxStateText limits each text of a state, in bytes.
const maxStateText = 500

// States holds the state of each resource as of its last scan. Each state is reported until a report that contains it
// is acknowledged, and again when it changes.
type States struct {
	mu    sync.Mutex
	all   map[writ.ResourceID]state
	epoch int64 // epoch of the supervisor that receives the reports
}

// state is the state of one resource.
type state struct {
	writ.ResourceState
	round int64 // first report with this state, or 0; later reports repeat it until one is acknowledged
	acked bool
}

// StateOf converts a driver's observation of a resource to the resource's state.
func StateOf(resource writ.ResourceID, seen sal.Observation) writ.ResourceState {
	if !seen.Exists { // the driver completed an interrupted delete
		return writ.ResourceState{ResourceID: resource, Standing: writ.Standing{State: catalog.Gone}}
	}
	s := writ.ResourceState{ResourceID: resource, UID: seen.UID, Standing: catalog.StandingOf(seen.Values)}
	s.State = clip.OneLine(cmp.Or(seen.State, s.State), maxStateText)
	s.Health = clip.OneLine(s.Health, maxStateText)
	s.Address, s.IPv4 = clip.OneLine(s.Address, maxStateText), clip.OneLine(s.IPv4, maxStateText)
	return s
}

// Note stores the state of a resource.
func (s *States) Note(now writ.ResourceState) {
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

// Forget makes the next scan report the state of a resource even if it is unchanged, because an operation failed or
// returned a newer state.
func (s *States) Forget(resource writ.ResourceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, resource)
}

// MarkGone marks known resources that are not in `there` as gone. It drops a resource once the supervisor has
// acknowledged that it is gone.
func (s *States) MarkGone(there map[writ.ResourceID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r, known := range s.all {
		switch gone := known.State == catalog.Gone; {
		case gone && there[r]: // the driver's record exists, but the resource does not
		case gone && known.acked:
			delete(s.all, r)
		case !gone && !there[r]:
			s.all[r] = state{ResourceState: writ.ResourceState{
				ResourceID: r, UID: known.UID, Standing: writ.Standing{State: catalog.Gone},
			}}
		}
	}
}

// List returns all states, in no order.
func (s *States) List() (all []writ.ResourceState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.all {
		all = append(all, known.ResourceState)
	}
	return all
}

// Resources returns the known resources.
func (s *States) Resources() iter.Seq[writ.ResourceID] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Values(slices.Collect(maps.Keys(s.all)))
}

// Unacked returns at most max states that the supervisor of this epoch may not have received, for report `round`. The
// supervisor of a new epoch gets all states, because its journal may come from a backup.
func (s *States) Unacked(round, epoch int64, max int) []writ.ResourceState {
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
	// States of earlier reports come first, so that each later report contains them.
	slices.SortFunc(open, func(a, b state) int {
		return cmp.Or(cmp.Compare(min(b.round, 1), min(a.round, 1)), a.Compare(b.ResourceID))
	})
	var report []writ.ResourceState
	for _, known := range open[:min(len(open), max)] {
		known.round = cmp.Or(known.round, round)
		s.all[known.ResourceID] = known
		report = append(report, known.ResourceState)
	}
	return report
}

// Acknowledged marks the states in the reports up to `round` as received by the supervisor.
func (s *States) Acknowledged(round int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r, known := range s.all {
		if known.round > 0 && known.round <= round {
			known.acked = true
			s.all[r] = known
		}
	}
}
