package runner

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/internal/clip"
)

// repairs holds the repairs of this incarnation until the supervisor acknowledges them, and counts all of them.
type repairs struct {
	mu     sync.Mutex
	counts map[writ.ResourceID]repairCount // of existing resources
	open   []repair                        // unacknowledged, oldest first
	total  int64
}

// repairCount counts the repairs of a resource.
type repairCount struct {
	uid   writ.UID
	count int64
}

// repair is a repair that the supervisor may not have received.
type repair struct {
	writ.NodeMending
	round int64 // first report with this repair, or 0; later reports repeat it until one is acknowledged
}

func newRepairs() *repairs { return &repairs{counts: make(map[writ.ResourceID]repairCount)} }

// add stores a repair. Beyond maxMendings per resource or maxFound in total, it drops the oldest repair, which stays
// counted.
func (r *repairs) add(resource writ.ResourceID, uid writ.UID, what string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total++
	now := r.counts[resource]
	if now.uid != uid {
		now = repairCount{uid: uid}
	}
	now.count++
	r.counts[resource] = now
	r.open = append(r.open, repair{NodeMending: writ.NodeMending{
		ResourceID: resource, UID: uid, Count: now.count, Time: at.UnixMilli(), What: clip.OneLine(what, maxSentence),
	}})
	its := func(other repair) bool { return other.UID == uid }
	same := 0
	for _, other := range r.open {
		if its(other) {
			same++
		}
	}
	switch {
	case same > maxMendings:
		i := slices.IndexFunc(r.open, its)
		r.open = slices.Delete(r.open, i, i+1)
	case len(r.open) > maxFound:
		r.open = slices.Delete(r.open, 0, 1)
	}
}

// count returns the number of all repairs of this incarnation.
func (r *repairs) count() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// unacked returns the repairs that the supervisor may not have received, for a report.
func (r *repairs) unacked(round int64) (mendings []writ.NodeMending, total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.open {
		one := &r.open[i]
		one.round = cmp.Or(one.round, round)
		mendings = append(mendings, one.NodeMending)
	}
	return mendings, r.total
}

// acknowledge drops the repairs that the reports up to this round contained.
func (r *repairs) acknowledge(round int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = slices.DeleteFunc(r.open, func(one repair) bool { return one.round > 0 && one.round <= round })
}

// resources lists the resources that were repaired.
func (r *repairs) resources() []writ.ResourceID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.counts))
}

// keepOnly forgets the counts of resources that do not exist any more.
func (r *repairs) keepOnly(there map[writ.ResourceID]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.counts, func(resource writ.ResourceID, _ repairCount) bool { return !there[resource] })
}
