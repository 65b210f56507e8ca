package workflow

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ"
	"writ/internal/test/testenv"
	"writ/scripts"
	"writ/supervisor/journal"
)

// The lists that stay from step to step equal those of a list that was just read from the journal.
func TestCallListFollowsChanges(t *testing.T) {
	testenv.CheckProperty(t, func(rt *rapid.T) {
		draw := func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(rt, label) }
		kinds := []writ.ResourceKind{writ.KindVolume, writ.KindImage, writ.KindNetwork, writ.KindMachine, ""}
		var l callList
		touched := make(map[int]bool)
		for range 40 {
			switch draw("change", 6) {
			case 0, 1:
				c := &journal.Call{Call: writ.Call{Seq: len(l.all) + 1, Kind: kinds[draw("kind", len(kinds))], State: writ.CallPlanned}}
				for seq := 1; seq < c.Seq; seq++ {
					if draw("after", 4) == 0 {
						c.After = append(c.After, seq)
					}
				}
				l.all, l.live = append(l.all, c), append(l.live, c)
				touched[c.Seq] = true
			case 2, 3:
				if len(l.live) == 0 {
					continue
				}
				c := l.live[draw("ended", len(l.live))]
				c.State, c.Values = writ.CallSucceeded, map[string]any{"n": int64(c.Seq)}
				if draw("failed", 3) == 0 {
					c.State, c.Values, c.Error = writ.CallFailed, nil, writ.Errorf(writ.CodeInjected, "told to fail")
				}
				touched[c.Seq] = true
			case 4: // a pass, and the end of the step
				l.entries.update(&l, touched)
				l.entries.complete(l.all)
				dropEnded(&l)
				clear(touched)
			case 5: // a resume
				for _, c := range l.all {
					if c.State == writ.CallFailed {
						c.State, c.Error = writ.CallPlanned, nil
						touched[c.Seq] = true
					}
				}
				l.forgetIndex()
			}
			fresh := newCallList(0, l.all)
			live := slices.DeleteFunc(slices.Clone(l.live), func(c *journal.Call) bool { return c.State.Ended() })
			if !slices.Equal(live, fresh.live) {
				t.Fatalf("%d calls are live, want %d of %d", len(live), len(fresh.live), len(l.all))
			}
			l.parts.update(&l)
			if want := partsOfAll(l.all); !slices.Equal(l.parts.seqs, want) {
				t.Fatalf("the parts are %d, want %d", l.parts.seqs, want)
			}
			l.entries.update(&l, touched)
			if diff := cmp.Diff(fresh.entries.complete(l.all), l.entries.complete(l.all)); diff != "" {
				t.Fatalf("entries (-new list +this list):\n%s", diff)
			}
		}
	})
}

// partsOfAll returns the parts of a run in the obvious way.
func partsOfAll(all []*journal.Call) (parts []int) {
	for _, c := range all {
		used := slices.ContainsFunc(all, func(other *journal.Call) bool { return slices.Contains(other.After, c.Seq) })
		if isPart(c.Kind) && (c.Kind != writ.KindVolume || !used) {
			parts = append(parts, c.Seq)
		}
	}
	return parts
}

// BenchmarkLongRun measures the work of a step, without its pass and its journal, for a run that waits for each of its
// calls.
func BenchmarkLongRun(b *testing.B) {
	for _, calls := range []int{100, 10_000} {
		b.Run(fmt.Sprint(calls), func(b *testing.B) {
			p := newPlanned()
			for i := range calls {
				if err := p.addCall(scripts.NewCall{Seq: i + 1, Operation: "node.ping"}); err != nil {
					b.Fatal(err)
				}
				p.calls.at(i + 1).State = writ.CallSucceeded
			}
			p.run.Allow = []string{"node.ping"}
			dropEnded(&p.calls)
			p.calls.entries.complete(p.calls.all)
			for b.Loop() {
				list := p.calls
				p.Step = NewStep(p.View, p.run, time.Unix(1, 0))
				p.calls = list
				p.rebase()
				if err := p.addCall(scripts.NewCall{Seq: calls + 1, Operation: "node.ping"}); err != nil {
					b.Fatal(err)
				}
				if err := arrange(p.Step, p.memory); err != nil {
					b.Fatal(err)
				}
				p.calls.entries.update(&p.calls, p.touched)
				p.calls.entries.complete(p.calls.all)
				p.calls.at(calls + 1).State = writ.CallSucceeded
				dropEnded(&p.calls)
				p.calls.all, p.calls.entries = p.calls.all[:calls], p.calls.entries[:calls]
			}
		})
	}
}
