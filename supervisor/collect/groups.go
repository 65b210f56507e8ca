package collect

import (
	"slices"
	"sync"

	"writ"
	"writ/runner/queue"
	"writ/supervisor/nodes"
)

// maxGroup limits the nodes of one group. Whenever a message arrives in one stream of a blocked read, Redis checks all
// streams of the read. In a measurement with 50 to 200 nodes in one read, each node added 1 µs to the time per message.
// With 64 nodes in a read, a message takes 1.5 times as long as with one node.
const maxGroup = 64

// groups divides the nodes into groups. Each group has its own reader, because a read of many streams is expensive. A
// node stays in its group, so a stream never has two readers.
//
// The first group has the first nodes. Each other group has nodes that send their beats at the same time, so one read
// receives many beats.
type groups struct {
	mu      sync.Mutex
	start   func(*group)  // starts the reader of a group; must not block
	serving []writ.NodeID // the nodes at the last call of divide
	all     []*group      // never empty
	rounds  int64         // see Collector.Rounds
}

// group is a set of nodes with one reader.
type group struct {
	phase   int // nodes.BeatPhase of its nodes, or anyPhase
	nodes   []writ.NodeID
	streams []queue.Stream
	done    int64 // round that the reader has completed
}

// anyPhase is the phase of the first group.
const anyPhase = -1

// newGroups returns groups without nodes.
func newGroups() *groups { return &groups{all: []*group{{phase: anyPhase}}} }

// run starts the reader of each group. Readers of groups that are made later are started with the same function.
func (g *groups) run(start func(*group)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.start = start
	for _, one := range g.all {
		start(one)
	}
}

// completed returns the number of completed rounds.
func (g *groups) completed() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.rounds
}

// streams returns the streams of a group, after it has added new nodes to groups and removed the nodes that no longer
// serve. It returns nil if the group has no nodes. The caller must not change the streams.
//
// The list of nodes is read with the lock, so that no reader brings an older list than the last one. With an older list,
// a node could leave its group and join another one while the first reader waits for its messages.
func (g *groups) streams(of *group, listServing func() []writ.NodeID) []queue.Stream {
	g.mu.Lock()
	defer g.mu.Unlock()
	if serving := listServing(); !isSame(serving, g.serving) {
		g.divide(serving)
	}
	return of.streams
}

// isSame reports whether two lists of nodes are one slice, which is cheaper than a comparison of their nodes.
func isSame(a, b []writ.NodeID) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// divide removes the nodes that do not serve from their groups, and adds each new node to the first group with room
// for it. The caller holds mu.
func (g *groups) divide(serving []writ.NodeID) {
	grouped := make(map[writ.NodeID]bool, len(serving))
	for _, one := range g.all {
		one.nodes = slices.DeleteFunc(one.nodes, func(node writ.NodeID) bool {
			_, serves := slices.BinarySearch(serving, node)
			grouped[node] = serves
			return !serves
		})
	}
	for _, node := range serving {
		if grouped[node] {
			continue
		}
		phase, _ := nodes.BeatPhase(node)
		at := slices.IndexFunc(g.all, func(one *group) bool {
			return len(one.nodes) < maxGroup && (one.phase == phase || one.phase == anyPhase)
		})
		if at < 0 {
			at = len(g.all)
			g.all = append(g.all, &group{phase: phase, done: g.rounds})
			g.start(g.all[at])
		}
		g.all[at].nodes = append(g.all[at].nodes, node)
	}
	for _, one := range g.all {
		one.streams = make([]queue.Stream, len(one.nodes))
		for i, node := range one.nodes {
			one.streams[i] = queue.Stream{Node: node, Direction: queue.Out}
		}
	}
	g.serving = serving
}

// complete records that the reader of a group has handled the messages of one read. A round ends when the readers of
// all groups have done so.
func (g *groups) complete(one *group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one.done = g.rounds + 1
	for _, other := range g.all {
		if other.done <= g.rounds {
			return
		}
	}
	g.rounds++
}
