// Package loads holds the load of resources in memory: the last report of their nodes, and samples of a day. It applies
// reports of nodes whose signature and sender were verified before. A restart of the supervisor loses all samples.
package loads

import (
	"slices"
	"sync"
	"time"

	"writ"
	"writ/supervisor/link"
	"writ/supervisor/nodes"
)

const (
	// sampleEvery is the interval of a sample. keepFor is the age at which samples are dropped.
	sampleEvery = 5 * time.Minute
	keepFor     = 24 * time.Hour
	maxSamples  = int(keepFor / sampleEvery)
	// maxHistories limits the resources with samples of a day, some 4 KiB each. Further resources have only their last
	// load.
	maxHistories = 20_000
	// maxOfNode limits the resources of a node, including resources that ended less than a day ago. Beyond this limit,
	// the loads of resources that the last report lacks are dropped.
	maxOfNode = 2 * nodes.MaxLoads
	// mostMilliCPUs and mostMemory limit the load of a resource. A node can report any number.
	mostMilliCPUs = 10_000_000
	mostMemory    = 1 << 50
)

// Book holds the loads of all nodes. Make it with New.
type Book struct {
	mu        sync.Mutex
	nodes     map[writ.NodeID]*node
	histories int
}

// New returns an empty book.
func New() *Book { return &Book{nodes: make(map[writ.NodeID]*node)} }

// node holds the loads that a node reported. A reader of a load names the resource and its node, so reports of other
// nodes about the resource have no effect.
type node struct {
	incarnation, count int64 // of the last report
	heard              time.Time
	resources          map[writ.UID]*history
}

// history holds the load of a resource.
type history struct {
	last    nodes.Load
	at      time.Time
	samples []sample // oldest first; nil if there are too many histories
	open    open
}

// sample is the load of a resource in an interval.
type sample struct {
	number    uint32 // of the interval, since the unix epoch
	milliCPUs uint32 // mean
	memory    uint32 // highest value, in KiB
}

// open accumulates the loads of the current interval.
type open struct {
	number            uint32
	reports, sum, top int64 // number of reports, sum of their milliCPUs, highest memory in bytes
}

// Apply stores a report that arrived at now. It ignores a report that is not newer than the node's last report, or that
// was made for an earlier epoch.
func (b *Book) Apply(r nodes.LoadReport, epoch int64, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.nodes[r.Node]
	if n == nil {
		b.prune(now)
		n = &node{resources: make(map[writ.UID]*history)}
		b.nodes[r.Node] = n
	}
	if r.Epoch < epoch || r.Incarnation < n.incarnation || r.Incarnation == n.incarnation && r.Count <= n.count {
		return
	}
	n.incarnation, n.count, n.heard = r.Incarnation, r.Count, now
	for _, l := range r.Loads[:min(len(r.Loads), nodes.MaxLoads)] {
		if !writ.ValidUUID(string(l.UID)) {
			continue
		}
		h := n.resources[l.UID]
		if h == nil {
			h = new(history)
			if b.histories < maxHistories {
				h.samples = []sample{}
				b.histories++
			}
			n.resources[l.UID] = h
		}
		h.add(bounded(l), now)
	}
	b.forget(n, now.Add(-keepFor))
	if len(n.resources) > maxOfNode {
		b.forget(n, now.Add(-1))
	}
}

// bounded limits the numbers of a load.
func bounded(l nodes.Load) nodes.Load {
	within := func(v, most int64) int64 { return min(max(v, 0), most) }
	l.MilliCPUs, l.Memory = within(l.MilliCPUs, mostMilliCPUs), within(l.Memory, mostMemory)
	l.Restarts = max(l.Restarts, 0)
	return l
}

// add adds a load to the history.
func (h *history) add(l nodes.Load, now time.Time) {
	h.last, h.at = l, now
	if h.samples == nil {
		return
	}
	number := uint32(now.Unix() / int64(sampleEvery/time.Second))
	if number != h.open.number {
		h.close()
		h.open = open{number: number}
	}
	h.open.reports++
	h.open.sum += l.MilliCPUs
	h.open.top = max(h.open.top, l.Memory)
}

// close turns the open interval into a sample.
func (h *history) close() {
	if h.open.reports == 0 {
		return
	}
	h.samples = append(h.samples, h.open.sample())
	if more := len(h.samples) - maxSamples; more > 0 {
		h.samples = slices.Delete(h.samples, 0, more)
	}
}

// sample returns the sample of an interval with reports.
func (o open) sample() sample {
	return sample{number: o.number, milliCPUs: uint32(o.sum / o.reports), memory: uint32(min(o.top>>10, 1<<32-1))}
}

// forget drops the resources of a node that were not reported after the time `since`.
func (b *Book) forget(n *node, since time.Time) {
	for uid, h := range n.resources {
		if !h.at.After(since) {
			if h.samples != nil {
				b.histories--
			}
			delete(n.resources, uid)
		}
	}
}

// prune drops nodes without a report for a day.
func (b *Book) prune(now time.Time) {
	for id, n := range b.nodes {
		if since := now.Add(-keepFor); !n.heard.After(since) {
			b.forget(n, n.heard)
			delete(b.nodes, id)
		}
	}
}

// Answer returns the loads of resources, in the order of the request. A resource without a load has no entry.
func (b *Book) Answer(asked link.Loads, now time.Time) link.LoadList {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := link.LoadList{Loads: []link.Load{}}
	for i, of := range asked.Of {
		n := b.nodes[of.Node]
		if n == nil || i >= link.MaxLoads {
			continue
		}
		h := n.resources[of.UID]
		if h == nil {
			continue
		}
		l := link.Load{
			Node: of.Node, UID: of.UID, At: h.at.UTC(), MilliCPUs: h.last.MilliCPUs, MemoryBytes: h.last.Memory,
			Restarts: h.last.Restarts, Running: h.last.Running,
		}
		if asked.Samples && i < link.MaxSampled {
			l.Samples = h.day(now)
		}
		list.Loads = append(list.Loads, l)
	}
	return list
}

// day returns the samples of the last day, oldest first, with the open interval.
func (h *history) day(now time.Time) []link.LoadSample {
	all := h.samples
	if h.open.reports > 0 {
		all = append(slices.Clip(all), h.open.sample())
	}
	shown := []link.LoadSample{}
	for _, s := range all {
		at := time.Unix(int64(s.number)*int64(sampleEvery/time.Second), 0).UTC()
		if now.Sub(at) < keepFor+sampleEvery {
			shown = append(shown, link.LoadSample{At: at, MilliCPUs: int64(s.milliCPUs), MemoryBytes: int64(s.memory) << 10})
		}
	}
	return shown
}
