package nodelog_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ/internal/logring"
	"writ/runner/nodelog"
	"writ/supervisor/nodes"
)

// noon is the time of the first test line; lines are seconds apart.
var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// kept returns a log with lines "SECOND BOOT LEVEL TEXT" by source.
func kept(t *testing.T, lines map[string][]string) *nodelog.Log {
	t.Helper()
	l := &nodelog.Log{Dir: t.TempDir(), Redact: func(text string) string { return strings.ReplaceAll(text, "canary", "(hidden)") }}
	for source, all := range lines {
		add(t, l, source, all...)
	}
	return l
}

// add writes lines to the ring of a source.
func add(t *testing.T, l *nodelog.Log, source string, lines ...string) {
	t.Helper()
	ring := logring.New()
	for _, text := range lines {
		var second int
		var one logring.Line
		if _, err := fmt.Sscan(text, &second, &one.Boot, &one.Level, &one.Text); err != nil {
			t.Fatal(err)
		}
		if one.Time = noon.Add(time.Duration(second) * time.Second); one.Boot == "now" {
			one.Boot = logring.Boot()
		}
		ring.Add(one)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := ring.Run(ctx, logring.File(l.Dir, source)); err != nil {
		t.Fatal(err)
	}
}

// textsOf returns the texts of a report.
func textsOf(r nodes.LogReport) string {
	var all []string
	for _, l := range r.Lines {
		all = append(all, l.Text)
	}
	return strings.Join(all, " ")
}

func TestAQueryFindsItsLinesInTheirOrder(t *testing.T) {
	l := kept(t, map[string][]string{
		"runner": {"9 old info a", "1 now info b", "3 now warn c-canary"},
		"kernel": {"8 old error k", "2 now warn l"},
	})
	if err := os.WriteFile(logring.File(l.Dir, "No Name"), nil, 0o600); err != nil { // not a source
		t.Fatal(err)
	}
	for _, c := range []struct {
		q    nodes.LogQuery
		want string
	}{
		{nodes.LogQuery{}, "k a b l c-(hidden)"},
		{nodes.LogQuery{Source: "kernel"}, "k l"},
		{nodes.LogQuery{Level: "warn"}, "k l c-(hidden)"},
		{nodes.LogQuery{Level: "error"}, "k"},
		{nodes.LogQuery{Since: noon.Add(2 * time.Second).UnixMilli()}, "k a l c-(hidden)"},
		{nodes.LogQuery{Lines: 2}, "l c-(hidden)"},
	} {
		got := l.Read(c.q)
		if textsOf(got) != c.want || got.Refused != "" || got.Lost || got.More || got.Boot != logring.Boot() {
			t.Errorf("%+v finds %q, want %q: %+v", c.q, textsOf(got), c.want, got)
		}
	}
	for _, q := range []nodes.LogQuery{{Source: "boot"}, {Source: "../runner"}, {After: "runner"}, {After: "runner.-1"}, {After: "runner.x,kernel.1"}} {
		if got := l.Read(q); got.Refused == "" || len(got.Lines) > 0 {
			t.Errorf("%+v finds %+v", q, got)
		}
	}
	if got := (&nodelog.Log{Dir: t.TempDir(), Redact: l.Redact}).Read(nodes.LogQuery{}); len(got.Lines) > 0 || got.Refused != "" {
		t.Errorf("empty log = %+v", got)
	}
}

func TestAFollowerMissesNoLineOfAnySource(t *testing.T) {
	l := kept(t, map[string][]string{"runner": {"1 now info a"}, "kernel": {"2 now info k"}})
	first := l.Read(nodes.LogQuery{Lines: 1})
	if textsOf(first) != "k" || first.Next != "kernel.1,runner.1" {
		t.Fatalf("%+v", first)
	}
	add(t, l, "runner", "3 now info b", "6 now info c")
	add(t, l, "kernel", "4 now info l")
	add(t, l, "boot", "5 now info x") // was empty before
	var all []string
	q := nodes.LogQuery{After: first.Next, Lines: 1}
	for more := true; more; {
		r := l.Read(q)
		all = append(all, textsOf(r))
		q.After, more = r.Next, r.More
	}
	if diff := cmp.Diff([]string{"b", "l", "x", "c"}, all); diff != "" {
		t.Error(diff)
	}
	if r := l.Read(q); len(r.Lines) > 0 || r.Lost || r.More || r.Next != q.After {
		t.Errorf("read without new lines = %+v", r)
	}
	if r := l.Read(nodes.LogQuery{After: "kernel.7,runner.3", Lines: 9}); !r.Lost || textsOf(r) != "k l x" {
		t.Errorf("read after a position in a replaced ring = %+v", r)
	}
	var many []string
	for i := range 500 {
		many = append(many, fmt.Sprint(10+i, " now info ", i))
	}
	for range 3 {
		add(t, l, "runner", many...)
	}
	if r := l.Read(q); !r.Lost {
		t.Errorf("1500 new lines, and none reported as lost")
	}
}

// A clock that is set back, for example by a time server, makes later lines look earlier. A follower gets each of them
// once.
func TestFollowerContinuesAfterTheClockWasSetBack(t *testing.T) {
	l := kept(t, map[string][]string{"runner": {"900 now info a", "1 now info b", "2 now info c"}, "boot": {"3 now info x"}})
	var all []string
	q := nodes.LogQuery{After: "runner.0", Lines: 1}
	for range 10 {
		r := l.Read(q)
		all = append(all, textsOf(r))
		if q.After = r.Next; !r.More {
			break
		}
	}
	if diff := cmp.Diff([]string{"x", "a", "b", "c"}, all); diff != "" {
		t.Error(diff)
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	var many []string
	for i := range 400 {
		many = append(many, fmt.Sprint(i, " now info ", strings.Repeat("x", logring.MaxText)))
	}
	l := kept(t, map[string][]string{"runner": many, "boot": many, "kernel": many})
	for _, after := range []string{"", "boot.0"} {
		r, size := l.Read(nodes.LogQuery{After: after}), 0
		for _, line := range r.Lines {
			size += len(line.Text)
		}
		if size > nodes.MaxLogBytes || size < nodes.MaxLogBytes/2 || r.More != (after != "") {
			t.Errorf("after %q: %d lines of %d bytes, more: %v", after, len(r.Lines), size, r.More)
		}
	}
}
