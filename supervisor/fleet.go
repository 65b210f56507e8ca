package supervisor

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/identity"
	"writ/identity/envelope"
	"writ/supervisor/bound"
	"writ/supervisor/journal"
)

// fleet holds the current state of the nodes in memory. Facts that must survive a restart, such as identities and
// decisions, are in the journal.
type fleet struct {
	mu    sync.Mutex
	nodes map[writ.NodeID]*member
	// node by signing key. A key never changes. The index is needed because strangers may ask about any number of keys.
	keys map[string]writ.NodeID
	// silence holds the times without a beat after which a node is silent or lost, from the roster in force. Time
	// counts only while nodes can be heard. A node without a beat since this supervisor started is silent from the
	// beginning; it becomes lost after the same time as other nodes.
	silence identity.Silence
}

// member is a node with its last beat.
type member struct {
	journal.Node
	beat   writ.Beat
	beats  int           // since this supervisor started
	heard  time.Time     // arrival of beat, by the monotonic clock
	silent time.Duration // time without a beat while nodes could be heard
	active map[writ.JobKey]bool
	said   map[writ.JobKey]saying // the last progress passed to runs, by job
	anew   bool                   // treat all jobs in the next beat as newly started
	// outranked is set if the node obeys an epoch later than this supervisor's. It then rejects all messages of this
	// supervisor.
	outranked bool
	// copied is the last time at which another machine sent a beat under this identity, by the monotonic clock.
	copied    time.Time
	suspended string    // reason for its suspension from the queue, else ""
	told      writ.Node // as in the last event
	// reported identifies the last report that was applied.
	reported writ.ReportID
	// described identifies the last report about the node's machine; kept is the machine's record in the journal.
	described writ.ReportID
	kept      journal.Life
	// online is the time with beats. listened is the time during which the supervisor could receive beats. Both count
	// since they were last added to the node's month.
	online, listened time.Duration
	// backlog is set if calls may wait for room on the node. It saves a search. A wrong false delays calls by a second,
	// until the next round of the watch.
	backlog bool
	// served is the project of the last call that was sent to the node.
	served writ.ProjectID
}

// saying is the progress text of a job, with the time at which it was passed on, by the monotonic clock.
type saying struct {
	text string
	at   time.Time
}

// progressEvery is the minimum time between two progress texts of a call, because each is a write and an event.
const progressEvery = 10 * time.Second

func loadFleet(ctx context.Context, j *journal.Journal, now time.Time) (*fleet, error) {
	f := &fleet{nodes: make(map[writ.NodeID]*member), keys: make(map[string]writ.NodeID)}
	err := j.Read(ctx, func(tx *journal.Tx) error {
		nodes, err := tx.Nodes()
		for _, n := range nodes {
			n.Liveness = writ.LivenessSilent // until its first beat
			n.Revision = n.Decisions         // earlier versions did not store it for display
			f.nodes[n.ID] = &member{Node: *n, backlog: true}
			f.keys[string(n.PublicKey)] = n.ID
		}
		if err != nil {
			return err
		}
		lives, err := tx.Lives()
		f.restoreMachines(lives, now)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load nodes: %w", err)
	}
	return f, nil
}

// put adds or updates a node after its commit to the journal. It ignores a record with fewer decisions than the current
// one.
func (f *fleet) put(n journal.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.nodes[n.ID]
	if m == nil {
		n.Liveness = writ.LivenessSilent
		f.nodes[n.ID] = &member{Node: n}
		f.keys[string(n.PublicKey)] = n.ID
		return
	}
	if n.Decisions < m.Decisions {
		return
	}
	m.Decisions, m.Revision = n.Decisions, n.Decisions
	m.Admission, m.Gone, m.Scheduling, m.Labels, m.Decided, m.Token = n.Admission, n.Gone, n.Scheduling, n.Labels, n.Decided, n.Token
	m.Serial, m.Batch = n.Serial, n.Batch
	// The other fields come from the node's own reports. A removed node reports only its answer to the fence order.
	if n.Gone {
		m.Lost = n.Lost
		m.Fence, m.Orphans, m.Superseded, m.FenceAnswer, m.FenceRound = n.Fence, n.Orphans, n.Superseded, n.FenceAnswer, n.FenceRound
	}
}

// Get returns a node. If the node is unknown, it returns false and a lost node with only an id.
func (f *fleet) Get(id writ.NodeID) (writ.Node, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok := f.nodes[id]
	if !ok {
		return writ.Node{ID: id, Liveness: writ.LivenessLost}, false
	}
	return m.Node.Node, true
}

// isMember reports whether a node is approved, so that jobs may be sent to it.
func (f *fleet) isMember(id writ.NodeID) bool {
	n, known := f.Get(id)
	return known && n.Admission == writ.AdmissionApproved
}

// Away returns a node and the reason why no job can be sent to it now. The reason is empty if jobs can be sent.
func (f *fleet) Away(id writ.NodeID) (n writ.Node, why writ.Reason) {
	n, ok := f.Get(id)
	switch {
	case !ok || n.Liveness != writ.LivenessReady:
		why = writ.Reason{Code: writ.ReasonNode, Node: n.Name, State: string(n.Liveness)}
	case n.Admission != writ.AdmissionApproved:
		why = writ.Reason{Code: writ.ReasonNode, Node: n.Name, State: string(n.Admission)}
	case n.Fault != "":
		why = writ.Reason{Code: writ.ReasonNode, Node: n.Name, Text: n.Fault}
	}
	return n, why
}

// Record returns a node with its keys, or nil if it is unknown.
func (f *fleet) Record(id writ.NodeID) *journal.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok := f.nodes[id]
	if !ok {
		return nil
	}
	n := m.Node
	return &n
}

// joinedWith returns the names of the nodes that joined with a token, sorted.
func (f *fleet) joinedWith(token string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, m := range f.nodes {
		if m.Token == token {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// byKey returns the node with this signing key, or nil.
func (f *fleet) byKey(key ed25519.PublicKey) *journal.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, ok := f.keys[string(key)]
	if !ok {
		return nil
	}
	n := f.nodes[id].Node
	return &n
}

// admitted returns the approved node with this name, or nil.
func (f *fleet) admitted(name string) *writ.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.nodes {
		if m.Name == name && m.Admission == writ.AdmissionApproved {
			n := m.Node.Node
			return &n
		}
	}
	return nil
}

// Name returns the name of a node, or the id of an unknown node.
func (f *fleet) Name(id writ.NodeID) string {
	if n, ok := f.Get(id); ok {
		return n.Name
	}
	return string(id)
}

// List returns all nodes, sorted by name.
func (f *fleet) List() []writ.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	nodes := make([]writ.Node, 0, len(f.nodes))
	for _, m := range f.nodes {
		nodes = append(nodes, m.Node.Node)
	}
	slices.SortFunc(nodes, func(a, b writ.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// serving returns the ids of the approved nodes, sorted.
func (f *fleet) serving() []writ.NodeID {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []writ.NodeID
	for id, m := range f.nodes {
		if m.Admission == writ.AdmissionApproved {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// draining returns the nodes that are being drained.
func (f *fleet) draining() []writ.NodeID {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []writ.NodeID
	for id, m := range f.nodes {
		if m.Scheduling == writ.SchedulingDraining {
			ids = append(ids, id)
		}
	}
	return ids
}

// key returns a lookup function for opening envelopes of node. It accepts only the key of that node, and only if the
// node is approved.
func (f *fleet) key(node writ.NodeID) func(envelope.KeyID) (ed25519.PublicKey, error) {
	return func(id envelope.KeyID) (ed25519.PublicKey, error) {
		n := f.Record(node)
		if n == nil || n.Admission != writ.AdmissionApproved || envelope.IDOf(n.PublicKey) != id {
			return nil, fmt.Errorf("key %s is not the key of node %s", id, node)
		}
		return n.PublicKey, nil
	}
}

// beat applies a beat that arrived at this supervisor's epoch, at now by the wall clock and heard by the monotonic
// clock. It returns the jobs that the previous beat did not name, and the new progress of jobs. It returns all jobs if
// the node may not know which jobs were given up. If the beat is not newer than the last one, or the node is unknown,
// fresh is false and the beat is not applied.
func (f *fleet) beat(
	b writ.Beat, epoch int64, now, heard time.Time,
) (started []writ.JobKey, progress []writ.Progress, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.nodes[b.Node]
	if m == nil || !newer(b, m.beat) {
		return nil, nil, false
	}
	b = bound.Beat(b)
	m.anew = m.anew || b.Incarnation != m.beat.Incarnation // a new process may not know which jobs were given up
	active := make(map[writ.JobKey]bool, len(b.Active))
	for _, key := range b.Active {
		active[key] = true
		if m.anew || !m.active[key] {
			started = append(started, key)
		}
	}
	m.beat, m.heard, m.active, m.silent, m.anew = b, heard, active, 0, false
	m.beats++
	m.Liveness, m.LastBeat = writ.LivenessReady, now
	m.Health = b.Health
	m.started(b.Boot)
	if late := now.Sub(time.UnixMilli(b.Clock)); late.Abs() > bound.MaxSkew {
		m.Fault = skewed(late)
	}
	if m.outranked = b.Epoch > epoch; m.outranked {
		m.Fault = fmt.Sprintf("%s: the node is newer than this journal: it obeys a later supervisor, or one that began while the clock ran ahead."+
			" Start this one again after %s, or remove the node (writ node remove %s) and let it join anew", writ.CodeEpochAhead,
			time.UnixMilli(b.Epoch).UTC().Format(time.DateTime), m.Name)
	}
	if heard.Sub(m.copied) < copiedStays && !m.copied.IsZero() {
		m.Fault = errCopied.Error()
	}
	if m.suspended != "" { // the beat was sent before the suspension
		m.Fault = m.suspended
	}
	return started, m.advance(b.Progress, heard), true
}

// skewed formats the clock fault of a node. late is the age of the beat by the node's clock; it is negative if that
// clock is ahead.
func skewed(late time.Duration) string {
	way := "behind"
	if late < 0 {
		way = "ahead of"
	}
	return fmt.Sprintf("%s: its clock is %s %s that of its supervisor", writ.CodeClockSkew, late.Abs().Round(time.Second),
		way)
}

// advance records the progress of jobs from a beat. It returns the texts to pass on now: the first text of a job at
// once, changes at most every progressEvery.
func (m *member) advance(all []writ.Progress, heard time.Time) (news []writ.Progress) {
	said := make(map[writ.JobKey]saying, len(all))
	for _, p := range all {
		last, known := m.said[p.JobKey]
		if !known || p.Text != last.text && heard.Sub(last.at) >= progressEvery {
			last, news = saying{p.Text, heard}, append(news, p)
		}
		said[p.JobKey] = last
	}
	m.said = said
	return news
}

// newer reports whether b was made after a. Boot ids have no order, but incarnations are counted on disk.
func newer(b, a writ.Beat) bool {
	return cmp.Or(cmp.Compare(b.Incarnation, a.Incarnation), cmp.Compare(b.Sequence, a.Sequence)) > 0
}

// tick adds listened to the silence of all nodes and updates their liveness. listened is the time during which the
// supervisor could receive beats. now is the monotonic time; the time counts for the month that contains wall. It
// returns the nodes that have become lost.
func (f *fleet) tick(now, wall time.Time, listened time.Duration) (lost []writ.NodeID) {
	month := wall.UTC().Format(bound.OnlineMonth)
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, m := range f.nodes {
		m.silent += min(listened, now.Sub(m.heard)) // time before the last beat is not silence
		switch {
		case m.silent >= f.silence.Lost:
			if m.Liveness != writ.LivenessLost {
				lost = append(lost, id)
				m.active = nil // a node that returns must learn which jobs were given up
			}
			m.Liveness = writ.LivenessLost
		// a lost node stays lost until its next beat, even under a longer limit
		case m.silent >= f.silence.Silent && m.Liveness == writ.LivenessReady:
			m.Liveness = writ.LivenessSilent
		}
		m.passed(month, listened)
	}
	return lost
}

// setSilence replaces the limits of silence. It reports whether they changed.
func (f *fleet) setSilence(silence identity.Silence) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	changes := f.silence != silence
	f.silence = silence
	return changes
}

// repeatGivenUp makes the next beat of each node count all its jobs as new, so that the node is again sent the jobs
// that were given up.
func (f *fleet) repeatGivenUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.nodes {
		m.anew = true
	}
}

// Busy reports whether all slots of a node are in use.
func (f *fleet) Busy(id writ.NodeID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.nodes[id]
	return m != nil && len(m.active) >= max(m.Slots, 1)
}

// Works reports whether the last beat of a node named a job as active, whether the node is ready and obeys this
// supervisor, and the number of its beats since this supervisor started.
func (f *fleet) Works(node writ.NodeID, key writ.JobKey) (active, ready bool, beats int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.nodes[node]
	if m == nil {
		return false, false, 0
	}
	return m.active[key], m.Liveness == writ.LivenessReady && !m.outranked, m.beats
}

// SetBacklog records whether calls wait for room on a node.
func (f *fleet) SetBacklog(id writ.NodeID, backlog bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.nodes[id]; m != nil {
		m.backlog = backlog
	}
}

// HasBacklog reports whether calls may wait for room on a node.
func (f *fleet) HasBacklog(id writ.NodeID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.nodes[id]
	return m != nil && m.backlog
}

// Serve records the project of a call that is sent to a node.
func (f *fleet) Serve(id writ.NodeID, project writ.ProjectID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.nodes[id]; m != nil {
		m.served = project
	}
}

// lastServed returns the project of the last call that was sent to a node, "" if none was sent.
func (f *fleet) lastServed(id writ.NodeID) writ.ProjectID {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.nodes[id]; m != nil {
		return m.served
	}
	return ""
}

// changes returns the nodes that differ from their last event. The time of the last beat is not compared.
func (f *fleet) changes(loads map[writ.NodeID]journal.Load) []writ.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	var changed []writ.Node
	for _, id := range slices.Sorted(maps.Keys(f.nodes)) {
		m := f.nodes[id]
		m.Used = loads[id].Reserved
		now := m.Node.Node
		now.LastBeat, m.told.LastBeat = time.Time{}, time.Time{}
		if !reflect.DeepEqual(now, m.told) {
			changed = append(changed, m.Node.Node)
		}
	}
	return changed
}

// announceAll causes an event for every node.
func (f *fleet) announceAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.nodes {
		m.told = writ.Node{}
	}
}

// announced records that events for nodes were written.
func (f *fleet) announced(nodes []writ.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range nodes {
		if m := f.nodes[n.ID]; m != nil {
			m.told = n
		}
	}
}
