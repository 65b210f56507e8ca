package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"writ"
	"writ/internal/cbor"
	"writ/internal/failpoint"
	"writ/internal/limit"
	"writ/supervisor/bound"
	"writ/supervisor/link"
	"writ/supervisor/nodes"
)

const (
	// nodeLogWithin is how long a node may take to answer with lines of its log: less than a coordinator waits.
	nodeLogWithin = 3 * time.Second
	// logsAsked is how often in a second a node is asked for its log, and logsAskedOnce how often at once. A follower asks
	// every two seconds.
	logsAsked     = 4
	logsAskedOnce = 20
	// logsHeard limits the parts of a node's log that are accepted per second, logsHeardOnce those in a burst. Parts are
	// answers to queries, and warnings, which a node sends at most twice a minute.
	logsHeard     = 5
	logsHeardOnce = 30
)

// nodeLogs holds the open queries for logs of nodes, and the warnings that nodes sent by themselves.
// It is in memory only.
type nodeLogs struct {
	may, heard limit.Names // queries, and what is heard, by node

	mu   sync.Mutex
	open map[string]openLogQuery // by their ids
	told map[writ.NodeID]toldWarnings
}

// openLogQuery is one that a node was asked.
type openLogQuery struct {
	node   writ.NodeID
	answer chan<- nodes.LogReport // has room for one
}

// toldWarnings are the last warnings of a node.
type toldWarnings struct {
	nodes.LogReport
	at time.Time
}

func newNodeLogs() *nodeLogs {
	return &nodeLogs{
		may:   limit.Names{PerSecond: logsAsked, AtOnce: logsAskedOnce},
		heard: limit.Names{PerSecond: logsHeard, AtOnce: logsHeardOnce}, open: make(map[string]openLogQuery),
		told: make(map[writ.NodeID]toldWarnings),
	}
}

// begin notes a query. Its answer comes once, if at all.
func (l *nodeLogs) begin(node writ.NodeID) (id string, answer <-chan nodes.LogReport, end func()) {
	id, ch := writ.NewUUID(), make(chan nodes.LogReport, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[id] = openLogQuery{node, ch}
	return id, ch, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, id)
	}
}

// take takes what a node says: the answer to a query that is open, or its last warnings, if these are newer: Redis may
// give old ones again.
func (l *nodeLogs) take(r nodes.LogReport, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Query == "" {
		known := l.told[r.Node]
		if cmp.Or(cmp.Compare(r.Incarnation, known.Incarnation), cmp.Compare(r.Count, known.Count)) > 0 {
			r.Lines = r.Lines[max(len(r.Lines)-nodes.MaxLogWarnings, 0):]
			l.told[r.Node] = toldWarnings{r, now}
		}
		return
	}
	if q, ok := l.open[r.Query]; ok && q.node == r.Node { // else it is late
		q.answer <- r
		delete(l.open, r.Query)
	}
}

// last returns the warnings that a node told last, as an answer to somebody who asked a node that is away.
func (l *nodeLogs) last(p link.LogOfNode, away string) link.NodeLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.told[p.Node]
	log := link.NodeLog{Lines: []link.NodeLine{}, Boot: told.Boot, Away: away, Told: told.at}
	for _, line := range told.Lines {
		if (p.Source == "" || p.Source == line.Source) && !line.Time.Before(p.Since) &&
			slices.Index(nodes.LogLevels, line.Level) >= slices.Index(nodes.LogLevels, p.Level) {
			log.Lines = append(log.Lines, link.NodeLine(line))
		}
	}
	return log
}

// nodeLog asks a node for lines of its log. Of one that does not answer there are the warnings that it told last.
func (s *Supervisor) nodeLog(ctx context.Context, p link.LogOfNode) (link.NodeLog, error) {
	n, known := s.fleet.Members.Get(p.Node)
	switch {
	case !known:
		return link.NodeLog{}, writ.Errorf(writ.CodeNotFound, "there is no node %s", p.Node).
			WithHint("`writ node list` shows them")
	case p.Level != "" && !slices.Contains(nodes.LogLevels, p.Level):
		return link.NodeLog{}, writ.Errorf(writ.CodeBadRequest, "level: %q is not one of %v", p.Level, nodes.LogLevels)
	case p.Lines < 0 || p.Lines > nodes.MaxLogLines:
		return link.NodeLog{}, writ.Errorf(writ.CodeBadRequest, "lines: %d is not between 0 and %d", p.Lines,
			nodes.MaxLogLines)
	case len(p.Source) > bound.MaxWord || len(p.After) > nodes.MaxLogPosition:
		return link.NodeLog{}, writ.Errorf(writ.CodeBadRequest, "source or after: they are longer than any is")
	case n.Admission != writ.AdmissionApproved:
		return s.nodeLogs.last(p, "is "+string(n.Admission)), nil
	case n.Liveness != writ.LivenessReady:
		return s.nodeLogs.last(p, "is "+string(n.Liveness)), nil
	}
	if wait, may := s.nodeLogs.may.Reserve(string(p.Node), 1, 0); !may {
		return link.NodeLog{}, writ.Errorf(writ.CodeRateLimited, "node %s is asked for its log more than %d times a second",
			n.Name, logsAsked).
			WithHint("try again in %s", wait.Round(time.Second)+time.Second)
	}
	r, err := s.askLog(ctx, p)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return s.nodeLogs.last(p, "does not answer; runners of earlier versions keep no log"), nil
	case err != nil:
		return link.NodeLog{}, err
	case r.Refused != "":
		return link.NodeLog{}, writ.Errorf(writ.CodeNotFound, "node %s has no such lines: %s", n.Name, r.Refused)
	}
	lines := make([]link.NodeLine, len(r.Lines))
	for i, l := range r.Lines {
		lines[i] = link.NodeLine(l)
	}
	return link.NodeLog{Lines: lines, Boot: r.Boot, Next: r.Next, Lost: r.Lost, More: r.More}, nil
}

// askLog sends a query to a node, and waits for the answer. It is context.DeadlineExceeded if that does not come.
func (s *Supervisor) askLog(ctx context.Context, p link.LogOfNode) (nodes.LogReport, error) {
	ctx, stop := context.WithTimeout(ctx, nodeLogWithin)
	defer stop()
	id, answer, end := s.nodeLogs.begin(p.Node)
	defer end()
	query := nodes.LogQuery{ID: id, Source: p.Source, Level: p.Level, After: p.After, Lines: p.Lines}
	if !p.Since.IsZero() {
		query.Since = p.Since.UnixMilli()
	}
	text, err := cbor.Marshal(query)
	if err != nil {
		return nodes.LogReport{}, fmt.Errorf("encode a query: %w", err)
	}
	s.outbox.Control(failpoint.At(ctx, failpoint.LogAsked), writ.Control{Node: p.Node, Log: text})
	select {
	case r := <-answer:
		return r, nil
	case <-ctx.Done():
		return nodes.LogReport{}, ctx.Err()
	}
}

func (s *Supervisor) hearLog(_ context.Context, node writ.NodeID, r *nodes.LogReport) {
	if r.Node != node {
		s.warnings.Refused(node, "node told the log of another node", ofAnother(r.Node))
		s.accounts.countUseless(node, extraReports, 1)
		return
	}
	if _, may := s.nodeLogs.heard.Reserve(string(node), 1, 0); !may {
		s.accounts.countUseless(node, extraReports, 1)
		s.warnings.Refused(node, "node tells its log too often; some of it is dropped",
			tooOften("%d parts a second are heard", logsHeard))
		return
	}
	if r.Epoch >= s.epoch { // else it was said to an earlier supervisor
		s.nodeLogs.take(bound.Log(*r), s.Now())
	}
}
