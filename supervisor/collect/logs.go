package collect

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/internal/limit"
	"writ/supervisor/bound"
	"writ/supervisor/link"
	"writ/supervisor/misuse"
	"writ/supervisor/nodes"
)

const (
	// logsHeard limits the parts of a node's log that are accepted per second, and logsHeardOnce limits a burst. Parts
	// are answers to queries, and warnings, which a node sends at most twice a minute.
	logsHeard     = 5
	logsHeardOnce = 30
)

// Logs receives parts of the logs of nodes. It holds the open queries, and the last warnings that nodes sent by
// themselves, in memory only.
type Logs struct {
	site Site
	asks limit.Names // rate limit of queries, by node
	rate limit.Names // rate limit of received parts, by node

	mu       sync.Mutex
	open     map[string]openQuery // by query id
	warnings map[writ.NodeID]lastWarnings
}

// openQuery is a query without an answer.
type openQuery struct {
	node   writ.NodeID
	answer chan<- nodes.LogReport // capacity 1
}

// lastWarnings holds the last warnings of a node and their arrival.
type lastWarnings struct {
	nodes.LogReport
	at time.Time
}

// NewLogs returns a receiver of logs.
func NewLogs(site Site) *Logs {
	return &Logs{
		site: site, asks: limit.Names{PerSecond: logsAsked, AtOnce: logsAskedOnce},
		rate: limit.Names{PerSecond: logsHeard, AtOnce: logsHeardOnce}, open: make(map[string]openQuery),
		warnings: make(map[writ.NodeID]lastWarnings),
	}
}

// Receive handles a part of a node's log. A part for an earlier epoch is ignored.
func (l *Logs) Receive(_ context.Context, node writ.NodeID, r *nodes.LogReport) {
	if r.Node != node {
		l.site.Warnings.Refused(node, "node sent the log of another node", misuse.OfAnother(r.Node))
		l.site.Misuse.Count(node, misuse.ExtraReports, 1)
		return
	}
	if _, ok := l.rate.Reserve(string(node), 1, 0); !ok {
		l.site.Misuse.Count(node, misuse.ExtraReports, 1)
		l.site.Warnings.Refused(node, "node sends its log too often; some lines are dropped",
			misuse.TooOften("at most %d parts per second are accepted", logsHeard))
		return
	}
	if r.Epoch >= l.site.Epoch {
		l.deliver(bound.Log(*r), l.site.Now())
	}
}

// deliver passes an answer to its open query, or stores warnings. It ignores late answers, and warnings that are not
// newer than the stored warnings, because Redis may replay them.
func (l *Logs) deliver(r nodes.LogReport, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Query == "" {
		last := l.warnings[r.Node]
		if cmp.Or(cmp.Compare(r.Incarnation, last.Incarnation), cmp.Compare(r.Count, last.Count)) > 0 {
			r.Lines = r.Lines[max(len(r.Lines)-nodes.MaxLogWarnings, 0):]
			l.warnings[r.Node] = lastWarnings{r, now}
		}
		return
	}
	if q, ok := l.open[r.Query]; ok && q.node == r.Node {
		q.answer <- r
		delete(l.open, r.Query)
	}
}

// begin opens a query. Its answer arrives at most once. The caller must call `end`.
func (l *Logs) begin(node writ.NodeID) (id string, answer <-chan nodes.LogReport, end func()) {
	id, ch := writ.NewUUID(), make(chan nodes.LogReport, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[id] = openQuery{node, ch}
	return id, ch, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, id)
	}
}

// last answers a query with the last warnings of a node. `away` is the reason why the node does not answer.
func (l *Logs) last(p link.LogOfNode, away string) link.NodeLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.warnings[p.Node]
	log := link.NodeLog{Lines: []link.NodeLine{}, Boot: last.Boot, Away: away, Told: last.at}
	for _, line := range last.Lines {
		if (p.Source == "" || p.Source == line.Source) && !line.Time.Before(p.Since) &&
			slices.Index(nodes.LogLevels, line.Level) >= slices.Index(nodes.LogLevels, p.Level) {
			log.Lines = append(log.Lines, link.NodeLine(line))
		}
	}
	return log
}
