package evaluator

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/cbor"
	"writ/scripts"
)

// change derives the next journal of a run: open calls may end, failed calls may be repeated, calls are added, and
// sometimes everything is different.
func change(chance *rand.Rand, journal []scripts.Entry) []scripts.Entry {
	journal = slices.Clone(journal)
	for i := range journal {
		e := &journal[i]
		switch e.State {
		case scripts.EntryOpen:
			if chance.IntN(2) == 0 {
				e.State, e.Values = scripts.EntrySucceeded, result(chance)
			} else if chance.IntN(2) == 0 {
				e.State, e.Error = scripts.EntryFailed, writ.Errorf(writ.CodeInjected, "failure %d", chance.IntN(3))
			}
		case scripts.EntryFailed:
			switch chance.IntN(4) {
			case 0:
				e.State, e.Error = scripts.EntryOpen, nil
			case 1:
				e.Error = writ.Errorf(writ.CodeInjected, "failure %d", chance.IntN(3))
			}
		case scripts.EntrySucceeded:
			if chance.IntN(20) == 0 {
				e.Values = result(chance)
			}
		}
	}
	for range chance.IntN(4) {
		journal = append(journal, scripts.Entry{Seq: len(journal) + 1, Hash: writ.Digest{byte(chance.IntN(3))}, State: scripts.EntryOpen})
	}
	switch n := len(journal); {
	case n > 0 && chance.IntN(20) == 0:
		return journal[:chance.IntN(n)]
	case n > 1 && chance.IntN(100) == 0:
		slices.Reverse(journal)
	}
	return journal
}

func result(chance *rand.Rand) map[string]any {
	switch n := chance.IntN(40); {
	case n == 0:
		return map[string]any{"big": strings.Repeat("x", chance.IntN(20_000))}
	case n < 10:
		return nil
	case n < 20:
		return map[string]any{"list": []any{int64(chance.IntN(3)), nil, map[string]any{"deep": "x"}}}
	default:
		return map[string]any{"name": fmt.Sprint(chance.IntN(3)), "up": chance.IntN(2) == 0}
	}
}

func TestBothSidesHaveTheSameJournals(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	parent, child := journals{most: 80_000, whole: 20}, journals{most: 80_000, whole: 20}
	entries := make(map[writ.RunID][]scripts.Entry)
	inputs := make(map[writ.RunID]*scripts.Inputs)
	partly, evicted, dropped, sent, all := 0, 0, 0, 0, 0
	for version := range uint64(1_000) {
		run := writ.RunID(fmt.Sprint(chance.IntN(12)))
		before := entries[run]
		want := change(chance, before)
		entries[run] = want

		in := inputs[run]
		if in == nil {
			in = &scripts.Inputs{Run: run}
			inputs[run] = in
		}
		if n := in.Ended; n <= min(len(want), len(before)) && inOrder(want, 0) && chance.IntN(15) > 0 {
			copy(want, before[:n])
		}
		if in.Ended > min(len(want), len(before)) || !reflect.DeepEqual(want[:in.Ended], before[:in.Ended]) || !inOrder(want, 0) {
			in.Ended = 0
			in.Resumes++
		}
		for in.Ended < len(want) && inOrder(want, 0) && want[in.Ended].State != scripts.EntryOpen && chance.IntN(3) > 0 {
			in.Ended++
		}
		d := parent.difference(in, version+1, want)
		if d.Base != 0 {
			partly++
		} else if 0 < len(before) && len(before) <= len(want) && inOrder(want, 0) {
			evicted++
		}
		sent, all = sent+len(d.Entries), all+len(want)
		frame, err := cbor.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var received difference
		if err := cbor.Unmarshal(frame, &received); err != nil {
			t.Fatal(err)
		}
		got, ok := child.apply(run, received)
		if !ok {
			t.Fatalf("version %d: the child lacks %d", version+1, d.Base)
		}
		if _, ok := parent.apply(run, d); !ok {
			t.Fatalf("version %d: the parent lacks %d", version+1, d.Base)
		}
		if k := child.find(run); got == nil && k != nil && k.first > 0 {
			dropped++
			got = append(slices.Clone(want[:k.first]), k.entries...)
		}
		if len(want) > 0 && !reflect.DeepEqual(want, got) {
			t.Fatalf("version %d (-sent +had):\n%s", version+1, cmp.Diff(want, got))
		}
		if parent.bytes != child.bytes || len(parent.list) != len(child.list) || parent.bytes > parent.most {
			t.Fatalf("version %d: the parent keeps %d journals in %d bytes, the child %d in %d", version+1,
				len(parent.list), parent.bytes, len(child.list), child.bytes)
		}
		if chance.IntN(20) == 0 || !inOrder(want, 0) {
			ended := &scripts.Outcome{Status: scripts.Completed}
			parent.dropEnded(run, ended)
			child.dropEnded(run, ended)
			delete(entries, run)
		}
	}
	t.Logf("%d of 1000 journals were sent in part, %d of %d entries in all", partly, sent, all)
	if partly < 500 || evicted == 0 || dropped == 0 {
		t.Errorf("%d of 1000 journals were sent in part, want most of them; %d were evicted and %d had dropped entries, want some", partly, evicted, dropped)
	}
}

func TestDifferenceNeedsItsBaseJournal(t *testing.T) {
	entry := func(seq int) scripts.Entry { return scripts.Entry{Seq: seq, State: scripts.EntryOpen} }
	j := journals{most: maxJournals}
	if _, ok := j.apply("r", difference{Version: 7, Count: 2, Entries: []scripts.Entry{entry(1), entry(2)}}); !ok {
		t.Fatal("a whole journal was refused")
	}
	for name, d := range map[string]difference{
		"of another version":      {Base: 6, Version: 8, Count: 2},
		"with a gap":              {Base: 7, Version: 8, Count: 4, Entries: []scripts.Entry{entry(4)}},
		"with too few entries":    {Base: 7, Version: 8, Count: 4, Entries: []scripts.Entry{entry(3)}},
		"with too many":           {Base: 7, Version: 8, Count: 2, Entries: []scripts.Entry{entry(3)}},
		"before the first":        {Base: 7, Version: 8, Count: 2, Entries: []scripts.Entry{entry(0)}},
		"whole and not all of it": {Version: 8, Count: 2, Entries: []scripts.Entry{entry(1)}},
	} {
		if _, ok := j.apply("r", d); ok {
			t.Errorf("a difference %s was taken", name)
		}
		if _, ok := j.apply("other", d); ok {
			t.Errorf("a difference %s was taken for a run without a journal", name)
		}
	}
	if got, ok := j.apply("r", difference{Base: 7, Version: 8, Count: 3, Entries: []scripts.Entry{entry(3)}}); !ok || len(got) != 3 {
		t.Errorf("after refusals the right difference gives %v, %v", got, ok)
	}
}

func TestEmptyJournalIsNotStored(t *testing.T) {
	j := journals{most: maxJournals}
	for i := range 1000 { // runs that begin, and wait for a long time
		run := writ.RunID(fmt.Sprint(i))
		if _, ok := j.apply(run, j.difference(&scripts.Inputs{Run: run}, 1, nil)); !ok {
			t.Fatalf("the journal of run %s is not taken", run)
		}
	}
	if len(j.list) != 0 || j.bytes != 0 {
		t.Errorf("%d journals of %d bytes are kept", len(j.list), j.bytes)
	}
}

// Runs that end in another child are small and never requested again. They must not accumulate.
func TestUnusedJournalsAreEvicted(t *testing.T) {
	j := journals{most: maxJournals}
	for i := range 2 * maxKept {
		j.apply(writ.RunID(fmt.Sprint(i)), difference{Version: 1, Count: 1, Entries: []scripts.Entry{{Seq: 1, State: scripts.EntryOpen}}})
	}
	if len(j.list) != maxKept || j.find("0") != nil || j.find(writ.RunID(fmt.Sprint(2*maxKept-1))) == nil {
		t.Errorf("%d journals are kept, want the newest %d", len(j.list), maxKept)
	}
}
