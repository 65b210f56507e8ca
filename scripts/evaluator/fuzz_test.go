package evaluator

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/internal/cbor"
	"writ/scripts"
)

// asked returns the bytes that a child receives for a sequence of requests.
func asked(f *testing.F, requests ...request) []byte {
	var stream []byte
	for _, r := range requests {
		frame, err := appendFrame([]request{r})
		if err != nil {
			f.Fatal(err)
		}
		stream = append(stream, frame...)
	}
	return stream
}

// fuzzed returns a script that branches on its first call, and entries for that call in a journal.
func fuzzed(f *testing.F) (script scripts.Bundle, inputs scripts.Inputs, open, ended, failed, other scripts.Entry) {
	script = scripts.Bundle{Main: scripts.Source{Name: "a.tengo", Text: []byte(`node := import("node")
h := node.facts()
if h.err { import("run").log(h.err.message) } else { node.ping({}, {labels: {host: h.hostname}}).err }
node.facts().cpus`)}}
	inputs = scripts.Inputs{Run: "r", Allow: []string{"node.facts", "node.ping"}, MaxCalls: 9}
	m := memory{used: cpuUsed}
	first, err := m.answer(&request{Program: script.Digest(), Bundle: &script, Run: inputs.Run, Inputs: &inputs})
	if err != nil || len(first.Outcome.Calls) != 1 {
		f.Fatal(first, err)
	}
	call := first.Outcome.Calls[0]
	open = scripts.Entry{Seq: 1, Hash: call.Hash, State: scripts.EntryOpen}
	ended, failed, other = open, open, open
	ended.State, ended.Values = scripts.EntrySucceeded, map[string]any{"hostname": "h", "cpus": int64(2), "list": []any{nil, true}}
	failed.State, failed.Error = scripts.EntryFailed, writ.Errorf(writ.CodeInjected, "told to fail").WithHint("try again")
	other.Hash, other.State = writ.Digest{1}, "unknown"
	return script, inputs, open, ended, failed, other
}

// FuzzFrame passes any bytes to a child in this process: bundles, damaged journals, differences to missing journals.
// The child must neither panic nor allocate more than the bytes justify.
func FuzzFrame(f *testing.F) {
	script, inputs, open, ended, failed, other := fuzzed(f)
	ask := func(bundle *scripts.Bundle, base, version uint64, count int, entries ...scripts.Entry) request {
		return request{Program: script.Digest(), Bundle: bundle, Run: inputs.Run, Inputs: &inputs, Journal: difference{Base: base, Version: version, Count: count, Entries: entries}}
	}
	f.Add(asked(f, ask(&script, 0, 1, 0), ask(nil, 1, 2, 1, open), ask(nil, 2, 3, 1, ended), ask(nil, 3, 4, 1, failed)))
	f.Add(asked(f, ask(&script, 0, 1, 1, failed), ask(nil, 7, 2, 1, open), ask(nil, 1, 2, 2, ended), ask(nil, 1, 3, 1, other)))
	f.Add(asked(f, ask(&script, 0, 1, 2, ended, ended), ask(&script, 0, 2, 1, other), ask(nil, 0, 3, 5)))
	f.Add(asked(f, request{Bundle: &script, Run: inputs.Run, Inputs: &inputs, Plan: true}, request{Plan: true}))
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 1, 0xa0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte("\x00\x00\x00\x0c\x81\x86\x60\xf6\x60\xa0\x84\x00\x00\x00\xf6\xf4")) // inputs without run and program
	f.Fuzz(func(_ *testing.T, stream []byte) {
		_ = serve(bytes.NewReader(stream), io.Discard, nil, func() time.Duration { return 0 })
	})
}

// FuzzJournal sends a journal of any entries, then its differences. Passes must end, and the second result must equal
// the result for the whole journal.
func FuzzJournal(f *testing.F) {
	script, inputs, open, ended, failed, other := fuzzed(f)
	for _, journal := range [][]scripts.Entry{nil, {open}, {ended}, {failed}, {other}, {ended, ended}, {open, failed, open}} {
		encoded, err := cbor.Marshal(journal)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded, uint8(len(journal)))
	}
	f.Fuzz(func(t *testing.T, encoded []byte, first uint8) {
		var journal []scripts.Entry
		if err := cbor.Unmarshal(encoded, &journal); err != nil {
			return
		}
		parent, child := journals{most: maxJournals}, memory{journals: journals{most: maxJournals}, used: cpuUsed}
		pass := func(version uint64, journal []scripts.Entry) *scripts.Outcome {
			r := request{Program: script.Digest(), Bundle: &script, Run: inputs.Run, Inputs: &inputs, Journal: parent.difference(&inputs, version, journal)}
			if r.Journal.Base != 0 {
				r.Inputs = nil // unchanged
			}
			a, err := child.answer(&r)
			if err != nil || a.Outcome == nil {
				t.Fatalf("a pass of %d entries: %+v, %v", len(journal), a, err)
			}
			parent.apply(inputs.Run, r.Journal)
			parent.dropEnded(inputs.Run, a.Outcome)
			return a.Outcome
		}
		pass(1, journal[:min(int(first), len(journal))])
		got := pass(2, journal)
		want, err := new(InProcess).Pass(t.Context(), script, inputs, journal)
		if diff := cmp.Diff(&want, got); diff != "" || err != nil {
			t.Errorf("a child that had a part finds something else (-want +got), %v:\n%s", err, diff)
		}
	})
}

// FuzzAnswer reads any bytes as the answers of a hostile child.
func FuzzAnswer(f *testing.F) {
	for _, a := range []answer{
		{}, {Retire: true},
		{Outcome: &scripts.Outcome{Status: scripts.Waiting, Waiting: []int{1}, Logs: []string{"a"}, Calls: []scripts.NewCall{{Seq: 1, Operation: "node.ping", Args: map[string]any{"a": []any{int64(1)}}}}}},
		{Outcome: &scripts.Outcome{Status: scripts.Failed, Failure: &writ.Failure{Error: *errFrameTooBig, Trace: []string{"a:1:1"}}}},
		{Plan: &scripts.Plan{Calls: []scripts.PlannedCall{{Seq: 1, Name: map[string]any{"(known after)": []any{int64(1)}}}}}},
	} {
		frame, err := appendFrame(a)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(frame)
	}
	f.Fuzz(func(_ *testing.T, frame []byte) {
		var a answer
		_ = readFrame(bytes.NewReader(frame), &a)
	})
}
