package scripts

import (
	"writ"
)

// Plan is what a script will ask for, as far as that can be known before it runs. It is a function of bundle and inputs alone: the
// script is evaluated with an empty journal, and where a pass would wait for a result a plan goes on with an unknown value. An unknown
// value can be put into arguments, texts and sums, which are unknown then; where the script decides by it what to do next, the plan ends.
//
// Values that are not known are written as KnownAfter says. The run's id counts as one.
type Plan struct {
	// Digest names the plan: SHA-256 of what the calls ask for, in order, and of whether there may be more. It does not depend on
	// positions, comments, or what a datacenter holds.
	Digest writ.Digest    `json:"digest"`
	Calls  []PlannedCall  `json:"calls"`
	Logs   []string       `json:"logs,omitempty"`
	Output map[string]any `json:"output,omitempty"`
	// Horizon is where the plan ends before the script does, nil if it does not.
	Horizon *Horizon `json:"horizon,omitempty"`
	// Failure is set if the script fails, whatever the results are.
	Failure *writ.Failure `json:"failure,omitempty"`
}

// PlannedCall is a call of a plan.
type PlannedCall struct {
	Seq int `json:"seq"`
	// Hash is that of the call in the run, zero if something of it is not known.
	Hash      writ.Digest    `json:"hash"`
	Operation string         `json:"operation"`
	Name      any            `json:"name,omitempty"`    // a string, or not known yet; nil if the operation has none
	Args      map[string]any `json:"args,omitempty"`    // defaults filled in; a handle is {"ref": seq}
	Options   map[string]any `json:"options,omitempty"` // as the script gave them
	After     []int          `json:"after,omitempty"`   // the seqs of the handles among the arguments, ascending
	// Waits are the calls whose results the script reads after the call before this one and before this one, ascending, each only where it
	// is read first: a run makes this call in a later pass than what it waits for. The digest does not depend on it.
	Waits    []int  `json:"waits,omitempty"`
	Position string `json:"position"` // "web.tengo:14:2"
}

// Horizon is where a plan ends, because the script decides there by a value that is not known.
type Horizon struct {
	Position string `json:"position"`        // "web.tengo:16:7"
	Reason   string `json:"reason"`          // "the condition depends on node.facts 1"
	After    []int  `json:"after,omitempty"` // the calls whose results are needed to see further, ascending
}

// knownAfter is the only key of a map that stands for an unknown value. No field of an operation can have this name.
const knownAfter = "(known after)"

// KnownAfter reports whether v stands for a value that is not known yet, and after which calls it is; after none, if it is known as
// soon as the run exists.
func KnownAfter(v any) (seqs []int, unknown bool) {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
		return nil, false
	}
	list, ok := m[knownAfter].([]any)
	if !ok {
		return nil, false
	}
	for _, e := range list {
		seq, ok := e.(int64)
		if !ok {
			return nil, false
		}
		seqs = append(seqs, int(seq))
	}
	return seqs, true
}
