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
	"writ/supervisor/journal"
)

// maxSkew is how far a node's clock may be off before it gets no work: it decides whether envelopes have expired.
const maxSkew = 30 * time.Second

// fleet is what the supervisor knows of its nodes at this moment. The journal has what must survive: who they are and what was
// decided about them.
type fleet struct {
	mu    sync.Mutex
	nodes map[writ.NodeID]*member
	keys  map[string]writ.NodeID // of nodes by their signing keys, which never change: strangers may ask about any number of keys
	// silence is after how long without a beat a node is silent, or lost, as the roster in force says. It is counted only while nodes can be heard. One that was
	// not heard since this supervisor began is silent from the beginning, and lost not earlier than others.
	silence identity.Silence
}

// member is a node with its last beat.
type member struct {
	journal.Node
	beat   writ.Beat
	beats  int           // since this supervisor began
	heard  time.Time     // when beat came, by the monotonic clock
	silent time.Duration // since the last beat, while it could be heard
	active map[writ.JobKey]bool
	said   map[writ.JobKey]saying // what was passed on of the progress of its jobs
	anew   bool                   // the jobs that the next beat names count as new
	// outranked says that it obeys a later epoch than that of this supervisor, and so refuses whatever this one sends.
	outranked bool
	// copied is when it was last seen that another machine speaks as this node, by the monotonic clock.
	copied    time.Time
	suspended string    // why it is kept off the queue, "" if it is not
	told      writ.Node // as the last event had it
	// reported names the last report that counted.
	reported writ.ReportID
	// described names what it said last of its machine, and kept is what the journal has of that.
	described writ.ReportID
	kept      journal.Life
	// online is how long it was heard, and listened how long that was listened to it, since that was added to its month last.
	online, listened time.Duration
	// backlog says that calls may wait for room there. It saves looking for them; that it is wrong costs a second, until the watch looks.
	backlog bool
	// served is the project that was sent to it last.
	served writ.ProjectID
}

// saying is what a node said of a job, and when that was passed on, by the monotonic clock.
type saying struct {
	text string
	at   time.Time
}

// progressEvery is how often a run is told at most how far one of its calls is: each time is a write and an event.
const progressEvery = 10 * time.Second

func loadFleet(ctx context.Context, j *journal.Journal, now time.Time) (*fleet, error) {
	f := &fleet{nodes: make(map[writ.NodeID]*member), keys: make(map[string]writ.NodeID)}
	err := j.Read(ctx, func(tx *journal.Tx) error {
		nodes, err := tx.Nodes()
		for _, n := range nodes {
			n.Liveness = writ.LivenessSilent // until it beats
			n.Revision = n.Decisions         // earlier versions did not keep it for those who look
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

// put takes a node over from the journal, new or changed.
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
	// The rest is what the node says of itself. One that is gone says nothing any more but how it obeys.
	if n.Gone {
		m.Lost = n.Lost
		m.Fence, m.Orphans, m.Superseded, m.FenceAnswer, m.FenceRound = n.Fence, n.Orphans, n.Superseded, n.FenceAnswer, n.FenceRound
	}
}

// Get returns a node, the zero value and false if there is none.
func (f *fleet) Get(id writ.NodeID) (writ.Node, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok := f.nodes[id]
	if !ok {
		return writ.Node{ID: id, Liveness: writ.LivenessLost}, false
	}
	return m.Node.Node, true
}

// isMember reports whether jobs may be sent to a node.
func (f *fleet) isMember(id writ.NodeID) bool {
	n, known := f.Get(id)
	return known && n.Admission == writ.AdmissionApproved
}

// Away returns a node and why no job can be sent to it now. The reason is empty if jobs can be sent.
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

// Record returns a node with its keys, nil if there is none.
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

// joinedWith returns the names of the nodes that have joined with a token, in order.
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

// byKey returns the node with this signing key, nil if there is none.
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

// admitted returns the node that is admitted under a name, nil if there is none.
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

// Name returns what people call a node, its id if it is not known.
func (f *fleet) Name(id writ.NodeID) string {
	if n, ok := f.Get(id); ok {
		return n.Name
	}
	return string(id)
}

// List returns all nodes, by name.
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

// serving returns the nodes that may take part.
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

// draining returns the nodes that are to become drained.
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

// key finds the key of an approved node for opening an envelope.
func (f *fleet) key(node writ.NodeID) func(envelope.KeyID) (ed25519.PublicKey, error) {
	return func(id envelope.KeyID) (ed25519.PublicKey, error) {
		n := f.Record(node)
		if n == nil || n.Admission != writ.AdmissionApproved || envelope.IDOf(n.PublicKey) != id {
			return nil, fmt.Errorf("key %s is not the key of node %s", id, node)
		}
		return n.PublicKey, nil
	}
}

// beat takes a node's beat, that came to the supervisor of an epoch now by the wall clock and heard by the monotonic one. It returns the keys that the node did not name
// before, or all if it may not know what was given up, what is new of the progress of jobs, and false if the beat is an old one.
func (f *fleet) beat(b writ.Beat, epoch int64, now, heard time.Time) (started []writ.JobKey, progress []writ.Progress, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.nodes[b.Node]
	if m == nil || !newer(b, m.beat) {
		return nil, nil, false
	}
	b = moderate(b)
	m.anew = m.anew || b.Incarnation != m.beat.Incarnation // another process, that may not know which of them were given up
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
	if late := now.Sub(time.UnixMilli(b.Clock)); late.Abs() > maxSkew {
		m.Fault = skewed(late)
	}
	if m.outranked = b.Epoch > epoch; m.outranked {
		m.Fault = fmt.Sprintf("%s: the node is newer than this journal: it obeys a later supervisor, or one that began while the clock ran ahead."+
			" Start this one again after %s, or remove the node (writ node remove %s) and let it join anew", writ.CodeEpochAhead, time.UnixMilli(b.Epoch).UTC().Format(time.DateTime), m.Name)
	}
	if heard.Sub(m.copied) < copiedStays && !m.copied.IsZero() {
		m.Fault = errCopied.Error()
	}
	if m.suspended != "" { // it was on its way
		m.Fault = m.suspended
	}
	return started, m.advance(b.Progress, heard), true
}

// skewed says how a node's clock is off that is late by so much, or early if that is less than 0.
func skewed(late time.Duration) string {
	way := "behind"
	if late < 0 {
		way = "ahead of"
	}
	return fmt.Sprintf("%s: its clock is %s %s that of its supervisor", writ.CodeClockSkew, late.Abs().Round(time.Second), way)
}

// advance takes what a node says of its jobs, and returns what is to be passed on now.
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

// newer reports whether b was made after a. A boot id tells nothing about order, but incarnations are counted on disk.
func newer(b, a writ.Beat) bool {
	return cmp.Or(cmp.Compare(b.Incarnation, a.Incarnation), cmp.Compare(b.Sequence, a.Sequence)) > 0
}

// tick lets time pass for all nodes, until now by the monotonic clock: as much as they were listened to. wall says to which month that counts. It
// returns the nodes that are lost since.
func (f *fleet) tick(now, wall time.Time, listened time.Duration) (lost []writ.NodeID) {
	month := wall.UTC().Format(onlineMonth)
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, m := range f.nodes {
		m.silent += min(listened, now.Sub(m.heard)) // what was before its beat is no silence
		switch {
		case m.silent >= f.silence.Lost:
			if m.Liveness != writ.LivenessLost {
				lost = append(lost, id)
				m.active = nil // when it is back it learns what was given up
			}
			m.Liveness = writ.LivenessLost
		case m.silent >= f.silence.Silent && m.Liveness == writ.LivenessReady: // one that is lost stays so until it is heard, also if it would not be by now
			m.Liveness = writ.LivenessSilent
		}
		m.passed(month, listened)
	}
	return lost
}

// setSilence has another silence apply from now on, and reports whether it is another one.
func (f *fleet) setSilence(silence identity.Silence) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	changes := f.silence != silence
	f.silence = silence
	return changes
}

// repeatGivenUp has the nodes told once more which of the jobs that they work on were given up.
func (f *fleet) repeatGivenUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.nodes {
		m.anew = true
	}
}

// Busy reports whether a node works on as many jobs as it can.
func (f *fleet) Busy(id writ.NodeID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.nodes[id]
	return m != nil && len(m.active) >= max(m.Slots, 1)
}

// Works reports what a node said last about a job: whether it works on it, whether the node is there and obeys, and how many beats it has
// sent.
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

// Serve records that a call of a project goes to a node.
func (f *fleet) Serve(id writ.NodeID, project writ.ProjectID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.nodes[id]; m != nil {
		m.served = project
	}
}

// lastServed returns the project that was sent to a node last, "" if none was yet.
func (f *fleet) lastServed(id writ.NodeID) writ.ProjectID {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.nodes[id]; m != nil {
		return m.served
	}
	return ""
}

// changes returns the nodes that look different from what was told of them last.
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

// announceAll has every node announced again.
func (f *fleet) announceAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.nodes {
		m.told = writ.Node{}
	}
}

// announced records that nodes were told of.
func (f *fleet) announced(nodes []writ.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range nodes {
		if m := f.nodes[n.ID]; m != nil {
			m.told = n
		}
	}
}
