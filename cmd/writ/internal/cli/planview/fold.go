package planview

import (
	"reflect"

	"writ"
	"writ/scripts"
)

// leastFold is the minimum number of consecutive equal calls that a plan folds into the first.
const leastFold = 4

// alike returns the number of consecutive calls, starting with call i, that a plan would show with the same text.
func (t callsText) alike(i int) int {
	calls, end := t.seen().Calls, i+1
	for end < len(calls) && t.action(end) == t.action(i) && equalCalls(&calls[i], &calls[end]) && t.equalPreviews(i, end) {
		end++
	}
	return end - i
}

// equalCalls reports whether a plan shows the same text for two calls, except their numbers.
func equalCalls(a, b *scripts.PlannedCall) bool {
	return a.Operation == b.Operation && a.Position == b.Position && reflect.DeepEqual(a.Name, b.Name) &&
		reflect.DeepEqual(a.Args, b.Args) && reflect.DeepEqual(a.Options, b.Options)
}

func (t callsText) equalPreviews(i, j int) bool {
	if t.Preview == nil {
		return true
	}
	shown := func(c writ.PreviewedCall) writ.PreviewedCall {
		c.Seq, c.Values = 0, nil
		return c
	}
	return reflect.DeepEqual(shown(t.Preview.Calls[i]), shown(t.Preview.Calls[j]))
}

// calls writes all calls. It folds a sequence of equal calls into the first call and their number.
func (t callsText) calls(width int) {
	calls := t.seen().Calls
	for i := 0; i < len(calls); {
		n := t.alike(i)
		if t.wide || n < leastFold {
			n = 1
		}
		t.call(i, width)
		if n > 1 {
			t.line("      calls %d to %d are the same", calls[i+1].Seq, calls[i+n-1].Seq)
		}
		i += n
	}
}
