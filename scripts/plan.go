package scripts

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"writ"
	"writ/sal/catalog"
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

// knownAtSubmission is how people are shown a value that is known as soon as the run exists.
const knownAtSubmission = "(known at submission)"

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

// Describe returns a value of the plan as one line for people: a string as it is, a handle as <machine web-0>, one that is not known yet
// as "(known after machine web-0, herodb store)" or "(known at submission)".
func (p *Plan) Describe(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	return p.describe(v)
}

func (p *Plan) describe(v any) string {
	if after, unknown := KnownAfter(v); unknown {
		return knownAfterText(p.Calls, after)
	}
	switch v := v.(type) {
	case nil:
		return "undefined"
	case string:
		return strconv.Quote(v)
	case []any:
		texts := make([]string, len(v))
		for i, e := range v {
			texts[i] = p.describe(e)
		}
		return "[" + strings.Join(texts, ", ") + "]"
	case map[string]any:
		if seq, ok := RefOf(v); ok {
			return "<" + label(p.Calls, seq) + ">"
		}
		if secret, ok := catalog.SecretOf(v); ok {
			return secret.String()
		}
		var texts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			texts = append(texts, key+": "+p.describe(v[key]))
		}
		return "{" + strings.Join(texts, ", ") + "}"
	default:
		return fmt.Sprint(v)
	}
}

// knownAfterText is how people are shown a value that is known after some calls.
func knownAfterText(calls []PlannedCall, seqs []int) string {
	if len(seqs) == 0 {
		return knownAtSubmission
	}
	return "(known after " + names(calls, seqs) + ")"
}

// names names calls: "machine web-0, node.facts 3".
func names(calls []PlannedCall, seqs []int) string {
	const most = 5
	var texts []string
	for _, seq := range seqs[:min(len(seqs), most)] {
		texts = append(texts, label(calls, seq))
	}
	text := strings.Join(texts, ", ")
	if more := len(seqs) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// label names a call by its resource if that is known, "machine web-0", else by its operation and seq, "node.facts 1".
func label(calls []PlannedCall, seq int) string {
	if seq < 1 || seq > len(calls) {
		return "call " + strconv.Itoa(seq)
	}
	c := calls[seq-1]
	if op, ok := catalog.Lookup(c.Operation); ok && op.Kind != "" {
		if name, known := c.Name.(string); known {
			return string(op.Kind) + " " + name
		}
	}
	return c.Operation + " " + strconv.Itoa(seq)
}

// Proposed returns the calls of the plan as a datacenter is asked about them.
func (p *Plan) Proposed() []writ.ProposedCall {
	calls := make([]writ.ProposedCall, len(p.Calls))
	for i, c := range p.Calls {
		calls[i] = writ.ProposedCall{Operation: c.Operation, Name: c.Name, Args: c.Args, Options: c.Options, After: c.After, Waits: c.Waits}
	}
	return calls
}
