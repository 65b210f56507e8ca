package supervisor_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity/envelope"
	"writ/internal/hidden"
	"writ/supervisor/link"
	"writ/supervisor/nodes"
)

// logOf requests the log of a node.
func (s *sim) logOf(p link.LogOfNode) (link.NodeLog, error) {
	answer, err := s.Ask(s.t.Context(), link.VerbNodeLog, p)
	log, _ := answer.(link.NodeLog)
	return log, err
}

// sendLog sends a part of the log of a node, and waits until the supervisor has received it.
func (n *testNode) sendLog(r nodes.LogReport) {
	n.mu.Lock()
	if r.Epoch == 0 {
		r.Epoch = n.epoch
	}
	n.mu.Unlock()
	if r.Node == "" {
		r.Node = n.id
	}
	n.send(envelope.Log, r)
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// answering makes a node answer each query with a report that change has modified.
func answering(change func(r *nodes.LogReport)) func(n *testNode) {
	return func(n *testNode) {
		n.log = func(q nodes.LogQuery) nodes.LogReport {
			r := nodes.LogReport{Node: n.id, Incarnation: 1, Epoch: n.epoch, Query: q.ID, Boot: "b1", Next: "runner.7", Lines: []nodes.LogLine{
				{Time: time.Now().UTC(), Boot: "b1", Source: "runner", Level: "info", Text: fmt.Sprintf("%s %s %d %s %d", q.Source, q.Level, q.Since, q.After, q.Lines)},
			}}
			change(&r)
			return r
		}
	}
}

func TestNodeLogIsQueried(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n := s.join("n1", answering(func(r *nodes.LogReport) { r.Lost, r.More = true, true }))
		refusing := s.join("n2", answering(func(r *nodes.LogReport) { r.Refused, r.Lines = "no log", nil }))
		time.Sleep(2 * time.Second)
		got, err := s.logOf(link.LogOfNode{Node: n.id, Source: "runner", Level: "warn", Since: time.UnixMilli(7), After: "runner.3", Lines: 9})
		if err != nil {
			t.Fatal(err)
		}
		want := link.NodeLog{Boot: "b1", Next: "runner.7", Lost: true, More: true, Lines: []link.NodeLine{
			{Time: got.Lines[0].Time, Boot: "b1", Source: "runner", Level: "info", Text: "runner warn 7 runner.3 9"},
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		for _, c := range []struct {
			want  writ.Code
			query link.LogOfNode
		}{
			{writ.CodeNotFound, link.LogOfNode{Node: "no such"}}, {writ.CodeNotFound, link.LogOfNode{Node: refusing.id}}, {writ.CodeBadRequest, link.LogOfNode{Node: n.id, Level: "loud"}},
			{writ.CodeBadRequest, link.LogOfNode{Node: n.id, Lines: 1001}}, {writ.CodeBadRequest, link.LogOfNode{Node: n.id, Lines: -1}}, {writ.CodeBadRequest, link.LogOfNode{Node: n.id, After: strings.Repeat("x", 4000)}},
		} {
			if answer, err := s.logOf(c.query); writ.CodeOf(err) != c.want {
				t.Errorf("%+v: %+v, %v; want %s", c.query, answer, err, c.want)
			}
		}
		for i := range 100 {
			if _, err = s.logOf(link.LogOfNode{Node: n.id}); err != nil {
				t.Logf("refused after %d queries", i)
				break
			}
		}
		if writ.CodeOf(err) != writ.CodeRateLimited {
			t.Errorf("100 queries: %v, want RATE_LIMITED", err)
		}
	})
}

// If a node is silent, or its runner does not support queries, the supervisor returns the last warnings that it sent.
// No other node can send warnings in its name.
func TestSilentNodeKeepsItsLastWarnings(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		n, other := s.join("n1"), s.join("n2")
		time.Sleep(2 * time.Second)
		warning := func(level, text string) nodes.LogLine {
			return nodes.LogLine{Time: time.Now().UTC(), Boot: "b1", Source: "runner", Level: level, Text: text}
		}
		n.sendLog(nodes.LogReport{Incarnation: 2, Count: 2, Boot: "b1", Lines: []nodes.LogLine{warning("warn", "one"), warning("error", "two")}})
		sent := time.Now()
		n.sendLog(nodes.LogReport{Incarnation: 2, Count: 1, Lines: []nodes.LogLine{warning("warn", "an old report, replayed by Redis")}})
		n.sendLog(nodes.LogReport{Incarnation: 1, Lines: []nodes.LogLine{warning("warn", "of an earlier runner")}})
		n.sendLog(nodes.LogReport{Incarnation: 3, Epoch: 1, Lines: []nodes.LogLine{warning("warn", "to an earlier supervisor")}})
		n.sendLog(nodes.LogReport{Incarnation: 3, Query: "nobody asked", Lines: []nodes.LogLine{warning("warn", "an answer")}})
		other.sendLog(nodes.LogReport{Node: n.id, Incarnation: 9, Lines: []nodes.LogLine{warning("warn", "of another node")}})
		want := func(away string, query link.LogOfNode, texts ...string) {
			t.Helper()
			got, err := s.logOf(query)
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, l := range got.Lines {
				all = append(all, l.Text)
			}
			if diff := cmp.Diff(texts, all); diff != "" || !strings.HasPrefix(got.Away, away) || sent.Sub(got.Told).Abs() > 3*time.Second {
				t.Errorf("away %q, last report %s: %s", got.Away, got.Told, diff)
			}
		}
		want("does not answer", link.LogOfNode{Node: n.id}, "one", "two")
		n.setSilent(true)
		time.Sleep(10 * time.Second)
		want("is silent", link.LogOfNode{Node: n.id, Level: "error"}, "two")
		time.Sleep(time.Minute)
		want("is lost", link.LogOfNode{Node: n.id, Source: "runner"}, "one", "two")
		want("is lost", link.LogOfNode{Node: n.id, Source: "kernel"})
		n.setSilent(false)
		for range 100 {
			n.sendLog(nodes.LogReport{Incarnation: 4, Lines: make([]nodes.LogLine, 500)})
		}
		if got, err := s.logOf(link.LogOfNode{Node: n.id}); err != nil || len(got.Lines) != nodes.MaxLogWarnings {
			t.Errorf("stored %d warnings, %v", len(got.Lines), err)
		}
	})
}

// Promise: Commands and hosts: Log lines of a hostile node are bounded, send no terminal commands and contain no
// deceptive characters.
// How: 1,000 lines, 1 KiB each, 256 KiB in all; control and hidden characters are replaced.
func TestHostileLogLinesAreCleaned(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		evil := "\x1b]0;owned\a\x1b[2J\u202e" + strings.Repeat("ä\u202e\n", 4000)
		line := nodes.LogLine{Time: time.Date(1800, 1, 1, 0, 0, 0, 0, time.UTC), Boot: evil, Source: evil, Level: evil, Text: evil}
		n := s.join("n1", answering(func(r *nodes.LogReport) { r.Boot, r.Next = evil, evil }))
		refusing := s.join("n2", answering(func(r *nodes.LogReport) { r.Refused = evil }))
		hostile := s.join("n3", answering(func(r *nodes.LogReport) {
			for range 2000 {
				r.Lines = append(r.Lines, nodes.LogLine{Text: strings.Repeat("x", 1000)})
			}
			for range 20 {
				r.Lines = append(r.Lines, line)
			}
		}))
		time.Sleep(2 * time.Second)
		clean := func(text string, most int) {
			t.Helper()
			if len(text) > most+len(" …") || strings.ContainsFunc(text, unicode.IsControl) || strings.ContainsFunc(text, hidden.Is) {
				t.Fatalf("returned text %q of %d bytes", text, len(text))
			}
		}
		if got, err := s.logOf(link.LogOfNode{Node: n.id}); err != nil || got.Next != "" {
			t.Errorf("position = %q, %v, want none", got.Next, err)
		} else {
			clean(got.Boot, nodes.MaxHostWord)
		}
		_, err := s.logOf(link.LogOfNode{Node: refusing.id})
		clean(writ.AsError(err).Message, 400)
		got, err := s.logOf(link.LogOfNode{Node: hostile.id})
		size := 0
		for _, l := range got.Lines {
			clean(l.Text, nodes.MaxLogText)
			clean(l.Boot+l.Source+l.Level, 400)
			if _, err := l.Time.MarshalJSON(); err != nil {
				t.Error(err)
			}
			size += len(l.Text)
		}
		if err != nil || len(got.Lines) < 20 || len(got.Lines) > nodes.MaxLogLines || size > nodes.MaxLogBytes || !got.Lost {
			t.Errorf("%d lines of %d bytes, lost: %v, %v", len(got.Lines), size, got.Lost, err)
		}
		wide := s.join("n4", answering(func(r *nodes.LogReport) { // in JSON, each "<" needs six bytes
			for range 200 {
				r.Lines = append(r.Lines, nodes.LogLine{Text: strings.Repeat("<", 1000)})
			}
		}))
		time.Sleep(2 * time.Second)
		got, err = s.logOf(link.LogOfNode{Node: wide.id})
		if text, encode := json.Marshal(got); err != nil || encode != nil || len(text) > link.MaxFrame*3/4 || len(got.Lines) < 50 || !got.Lost {
			t.Errorf("answer of %d lines and %d bytes, lost: %v, %v", len(got.Lines), len(text), got.Lost, err)
		}
	})
}
