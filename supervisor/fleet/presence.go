package fleet

import (
	"cmp"
	"sync"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

// Presence tracks the beats of nodes: whether they are ready, silent or lost, and which jobs they work on.
type Presence struct {
	members *Members

	mu    sync.Mutex
	nodes map[writ.NodeID]*presence
	// silence holds the times without a beat after which a node is silent or lost, from the roster in force. A node that
	// sends beats at longer intervals is silent after three of its intervals at the earliest. Time counts only while this
	// supervisor can receive beats. A node without a beat since this supervisor started is silent from the beginning; it
	// becomes lost after the same time as other nodes.
	silence identity.Silence
}

// presence holds the last beat of a node, its silence and its faults.
type presence struct {
	beat     writ.Beat
	beats    int           // since this supervisor started
	heard    time.Time     // arrival of beat, by the monotonic clock
	silent   time.Duration // time without a beat while this supervisor could receive beats
	ready    bool          // the node is neither silent nor lost
	active   map[writ.JobKey]bool
	progress progress
	anew     bool // treat all jobs in the next beat as newly started
	// outranked is set if the node obeys an epoch later than this supervisor's. The node then rejects all messages of
	// this supervisor.
	outranked bool
	// copied is the last time at which another machine sent a beat under the node's identity, by the monotonic clock.
	copied    time.Time
	suspended string // reason for its suspension from the queue, else ""
}

// of returns the presence of a node. The caller holds mu.
func (p *Presence) of(id writ.NodeID) *presence {
	seen := p.nodes[id]
	if seen == nil {
		seen = new(presence)
		p.nodes[id] = seen
	}
	return seen
}

// Beat applies a beat that arrived while this supervisor had the given epoch. now and heard are the time of its arrival
// by the wall clock and by the monotonic clock. It returns the jobs that the previous beat did not name, and the new
// progress of jobs. If the node may have missed an order to stop some of its jobs, Beat returns all jobs. The caller
// can then repeat the order. If the beat is not newer than the last beat, or the node is unknown, fresh is false and
// the beat is not applied.
func (p *Presence) Beat(
	b writ.Beat, epoch int64, now, heard time.Time,
) (started []writ.JobKey, progress []writ.Progress, fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.nodes[b.Node] == nil && !isKnown(p.members, b.Node) {
		return nil, nil, false
	}
	seen := p.of(b.Node)
	if !isNewer(b, seen.beat) {
		return nil, nil, false
	}
	b = bound.Beat(b)
	b.Every = min(max(b.Every, 0), nodes.MaxBeatSeconds)
	started = seen.apply(b, epoch, heard)
	p.members.update(b.Node, func(n *journal.Node) {
		n.Liveness, n.LastBeat, n.Health = writ.LivenessReady, now, b.Health
		countStart(&n.HostFacts, b.Boot)
		n.Fault = cmp.Or(seen.fault(n.Name, now, heard), n.Fault)
	})
	return started, seen.progress.news(b.Progress, heard), true
}

// apply stores a beat and returns the jobs that count as newly started.
func (seen *presence) apply(b writ.Beat, epoch int64, heard time.Time) (started []writ.JobKey) {
	anew := seen.anew || b.Incarnation != seen.beat.Incarnation // a new process may not know which jobs were given up
	active := make(map[writ.JobKey]bool, len(b.Active))
	for _, key := range b.Active {
		active[key] = true
		if anew || !seen.active[key] {
			started = append(started, key)
		}
	}
	seen.beat, seen.heard, seen.active, seen.silent, seen.anew = b, heard, active, 0, false
	seen.beats++
	seen.ready, seen.outranked = true, b.Epoch > epoch
	return started
}

// isNewer reports whether b was made after a. It compares incarnations, which the node counts on disk, and not boot
// ids, which have no order.
func isNewer(b, a writ.Beat) bool {
	return cmp.Or(cmp.Compare(b.Incarnation, a.Incarnation), cmp.Compare(b.Sequence, a.Sequence)) > 0
}

// tick adds the time `listened` to the silence of all nodes and updates their liveness. It returns the nodes that have
// become lost.
func (p *Presence) tick(now time.Time, listened time.Duration) (lost []writ.NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members.forEach(func(n *journal.Node) {
		seen := p.of(n.ID)
		seen.silent += min(listened, now.Sub(seen.heard)) // time before the last beat is not silence
		switch {
		case seen.silent >= p.silence.Lost:
			if n.Liveness != writ.LivenessLost {
				lost = append(lost, n.ID)
				seen.active = nil // a node that returns must learn which jobs were given up
			}
			n.Liveness = writ.LivenessLost
		// a lost node stays lost until its next beat, even under a longer limit
		case seen.silent >= p.silentAfter(seen) && n.Liveness == writ.LivenessReady:
			n.Liveness = writ.LivenessSilent
		}
		seen.ready = n.Liveness == writ.LivenessReady
	})
	return lost
}

// silentAfter returns the time without a beat after which a node is silent. The caller holds mu.
func (p *Presence) silentAfter(seen *presence) time.Duration {
	return max(p.silence.Silent, 3*time.Duration(seen.beat.Every)*time.Second)
}

// SetSilence replaces the limits of silence. It reports whether they changed.
func (p *Presence) SetSilence(silence identity.Silence) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	changes := p.silence != silence
	p.silence = silence
	return changes
}

// RepeatGivenUp makes the next beat of each node count all its jobs as newly started. The supervisor then orders the
// node again to stop the jobs that were given up.
func (p *Presence) RepeatGivenUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, seen := range p.nodes {
		seen.anew = true
	}
}

// Busy reports whether all slots of a node are in use.
func (p *Presence) Busy(id writ.NodeID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.nodes[id]
	return seen != nil && len(seen.active) >= max(seen.beat.Slots, 1)
}

// Works reports whether the last beat of a node named a job as active, and whether the node is ready and obeys this
// supervisor. It also returns the number of its beats since this supervisor started.
func (p *Presence) Works(id writ.NodeID, key writ.JobKey) (active, ready bool, beats int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.nodes[id]
	if seen == nil {
		return false, false, 0
	}
	return seen.active[key], seen.ready && !seen.outranked, seen.beats
}

// ForEachActive calls do for each job in the last beats of ready nodes that obey this supervisor.
func (p *Presence) ForEachActive(do func(id writ.NodeID, key writ.JobKey)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, seen := range p.nodes {
		if !seen.ready || seen.outranked {
			continue
		}
		for key := range seen.active {
			do(id, key)
		}
	}
}

// Last returns the last beat of a node and the number of its beats since this supervisor started.
func (p *Presence) Last(id writ.NodeID) (b writ.Beat, beats int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last(id)
}

// last is Last for a caller that holds mu. Until the caller releases mu, no newer beat is applied.
func (p *Presence) last(id writ.NodeID) (b writ.Beat, beats int) {
	if seen := p.nodes[id]; seen != nil {
		return seen.beat, seen.beats
	}
	return writ.Beat{}, 0
}

const (
	// progressEvery is the minimum time between two progress texts of a call, because each text costs a write and an
	// event.
	progressEvery = 10 * time.Second
	// progressAtOnce is the number of progress texts of a call that are passed on without this pause. The replacement of
	// a container has three: it waits for its image, for its health and for the end of the previous process.
	progressAtOnce = 4
)

// progress holds the progress texts of a node's jobs that were passed on last.
type progress map[writ.JobKey]progressText

type progressText struct {
	text  string
	at    time.Time // by the monotonic clock
	count int       // texts of the job that were passed on
}

// news records the progress of jobs from a beat and forgets other jobs. It returns the texts to pass on now: the first
// progressAtOnce texts of a job at once, later changes at most every progressEvery.
func (p *progress) news(all []writ.Progress, heard time.Time) (news []writ.Progress) {
	next := make(progress, len(all))
	for _, job := range all {
		last, known := (*p)[job.JobKey]
		soon := last.count < progressAtOnce || heard.Sub(last.at) >= progressEvery
		if !known || job.Text != last.text && soon {
			last, news = progressText{job.Text, heard, last.count + 1}, append(news, job)
		}
		next[job.JobKey] = last
	}
	*p = next
	return news
}
