package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"writ"
	"writ/internal/cbor"
	"writ/internal/failpoint"
	"writ/supervisor/bound"
	"writ/supervisor/link"
	"writ/supervisor/nodes"
)

const (
	// logAnswerWithin limits the wait for the answer of a node. It is shorter than the wait of a coordinator.
	logAnswerWithin = 3 * time.Second
	// logsAsked limits the queries to a node per second, and logsAskedOnce limits a burst. A client that follows a log
	// asks every two seconds.
	logsAsked     = 4
	logsAskedOnce = 20
)

// Read asks a node for lines of its log. If the node does not answer, Read returns its last warnings.
func (l *Logs) Read(ctx context.Context, p link.LogOfNode) (link.NodeLog, error) {
	n, known := l.site.Fleet.Members.Get(p.Node)
	switch {
	case !known:
		return link.NodeLog{}, writ.Errorf(writ.CodeNotFound, "unknown node %s", p.Node).
			WithHint("`writ node list` lists the nodes")
	case p.Level != "" && !slices.Contains(nodes.LogLevels, p.Level):
		return link.NodeLog{}, writ.Errorf(writ.CodeBadRequest, "level: %q is not one of %v", p.Level, nodes.LogLevels)
	case p.Lines < 0 || p.Lines > nodes.MaxLogLines:
		return link.NodeLog{}, writ.Errorf(writ.CodeBadRequest, "lines: %d is not between 0 and %d", p.Lines,
			nodes.MaxLogLines)
	case len(p.Source) > bound.MaxWord || len(p.After) > nodes.MaxLogPosition:
		return link.NodeLog{}, writ.Errorf(writ.CodeBadRequest, "source or after: the value is too long")
	case n.Admission != writ.AdmissionApproved:
		return l.last(p, "is "+string(n.Admission)), nil
	case n.Liveness != writ.LivenessReady:
		return l.last(p, "is "+string(n.Liveness)), nil
	}
	if wait, ok := l.asks.Reserve(string(p.Node), 1, 0); !ok {
		return link.NodeLog{}, writ.Errorf(writ.CodeRateLimited, "node %s is asked for its log more than %d times a second",
			n.Name, logsAsked).
			WithHint("try again in %s", wait.Round(time.Second)+time.Second)
	}
	r, err := l.ask(ctx, p)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return l.last(p, "does not answer; runners of earlier versions keep no log"), nil
	case err != nil:
		return link.NodeLog{}, err
	case r.Refused != "":
		return link.NodeLog{}, writ.Errorf(writ.CodeNotFound, "node %s has no such lines: %s", n.Name, r.Refused).
			WithHint("`writ node logs %s` shows the lines of all logs; --source names one of them", n.Name)
	}
	lines := make([]link.NodeLine, len(r.Lines))
	for i, line := range r.Lines {
		lines[i] = link.NodeLine(line)
	}
	return link.NodeLog{Lines: lines, Boot: r.Boot, Next: r.Next, Lost: r.Lost, More: r.More}, nil
}

// ask sends a query to a node and waits for the answer. It returns context.DeadlineExceeded if the node does not
// answer.
func (l *Logs) ask(ctx context.Context, p link.LogOfNode) (nodes.LogReport, error) {
	ctx, stop := context.WithTimeout(ctx, logAnswerWithin)
	defer stop()
	id, answer, end := l.begin(p.Node)
	defer end()
	query := nodes.LogQuery{ID: id, Source: p.Source, Level: p.Level, After: p.After, Lines: p.Lines}
	if !p.Since.IsZero() {
		query.Since = p.Since.UnixMilli()
	}
	text, err := cbor.Marshal(query)
	if err != nil {
		return nodes.LogReport{}, fmt.Errorf("encode a query: %w", err)
	}
	l.site.Outbox.Control(failpoint.At(ctx, failpoint.LogAsked), writ.Control{Node: p.Node, Log: text})
	select {
	case r := <-answer:
		return r, nil
	case <-ctx.Done():
		return nodes.LogReport{}, ctx.Err()
	}
}
