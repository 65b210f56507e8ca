package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/internal/cbor"
	"writ/internal/logring"
	"writ/runner"
	"writ/runner/nodelog"
	"writ/supervisor/nodes"
)

// logged writes lines to the ring of a source.
func logged(t *testing.T, l *nodelog.Log, source, level string, texts ...string) {
	t.Helper()
	ring := logring.New()
	for _, text := range texts {
		ring.Add(logring.Line{Time: time.Now(), Boot: logring.Boot(), Level: level, Text: text})
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	must(t, ring.Run(ctx, logring.File(l.Dir, source)))
}

// encoded returns the encoded form of a query.
func encoded(t *testing.T, q nodes.LogQuery) []byte {
	t.Helper()
	text, err := cbor.Marshal(q)
	must(t, err)
	return text
}

// tookLogs waits, then returns the log reports since the last call.
func (n *node) tookLogs(silent time.Duration) []nodes.LogReport {
	quiet(silent)
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.logs
	n.logs = nil
	return all
}

func TestANodeAnswersWithLinesOfItsLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &nodelog.Log{Dir: t.TempDir(), Redact: func(text string) string { return text }}
		logged(t, l, "runner", "info", "one", "two")
		n := newFixture(t).fresh(func(r *runner.Runner) { r.NodeLog = l })
		n.tell(writ.Control{Epoch: 9, Log: encoded(t, nodes.LogQuery{ID: "q1", Lines: 1})})
		got := n.tookLogs(time.Second)
		if len(got) != 1 || got[0].Query != "q1" || got[0].Node != n.member.Node() || got[0].Epoch != 9 || got[0].Incarnation == 0 ||
			len(got[0].Lines) != 1 || got[0].Lines[0].Text != "two" || got[0].Next != "runner.2" {
			t.Errorf("it answers %+v", got)
		}
		for range 100 {
			n.tell(writ.Control{Epoch: 9, Log: encoded(t, nodes.LogQuery{ID: "q2"})})
		}
		if got := n.tookLogs(time.Minute); len(got) == 0 {
			t.Error("no answer to a hundred concurrent queries")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		n.tell(writ.Control{Epoch: 9, Log: encoded(t, nodes.LogQuery{ID: "q1"})})
		if got := n.tookLogs(time.Second); len(got) != 1 || got[0].Query != "q1" || got[0].Refused == "" {
			t.Errorf("a node that keeps no log answers %+v", got)
		}
	})
}

// Promise: Commands and hosts: The last warnings of an unreachable node are shown with their age; a node cannot forge
// warnings of another, and Redis cannot replay old ones.
// How: The node sends the last 20 within 30 s; the supervisor keeps them in memory.
// Also: TestSilentNodeKeepsItsLastWarnings.
func TestNodeReportsItsLastWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &nodelog.Log{Dir: t.TempDir(), Redact: func(text string) string { return text }}
		logged(t, l, "runner", "info", "one")
		n := newFixture(t).fresh(func(r *runner.Runner) { r.NodeLog = l })
		if got := n.tookLogs(2 * time.Minute); len(got) != 0 {
			t.Errorf("reports without a warning = %+v, want none", got)
		}
		var many []string
		for range 50 {
			many = append(many, "late")
		}
		logged(t, l, "kernel", "warn", many...)
		logged(t, l, "runner", "info", "two")
		if got := n.tookLogs(2 * time.Minute); len(got) != 1 || got[0].Query != "" || len(got[0].Lines) != nodes.MaxLogWarnings || got[0].Lines[0].Text != "late" || got[0].Count != 1 {
			t.Errorf("reports of warnings = %+v", got)
		}
		n.tell(writ.Control{Epoch: 9})
		if got := n.tookLogs(2 * time.Minute); len(got) != 1 || got[0].Epoch != 9 || got[0].Count != 2 {
			t.Errorf("reports to the next supervisor = %+v", got)
		}
		if got := n.tookLogs(21 * time.Minute); len(got) != 2 {
			t.Errorf("%d reports within 21 minutes, want 2", len(got))
		}
	})
}
