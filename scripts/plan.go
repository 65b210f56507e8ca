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

// Plan lists the calls of a script, as far as they are known before it runs. It is a function of bundle and inputs
// alone: the script is evaluated with an empty journal, and each wait for a result returns an unknown value instead.
// Arguments, texts and sums may contain unknown values and become unknown themselves. The plan ends where the control
// flow of the script depends on an unknown value.
//
// KnownAfter defines the encoding of unknown values. The id of the run is unknown, too.
type Plan struct {
	// Digest identifies the plan: SHA-256 of the requests of all calls, in order, and of whether more may follow. It is
	// independent of positions, comments, and the state of a datacenter.
	Digest writ.Digest   `json:"digest"`
	Calls  []PlannedCall `json:"calls"`
	// Waits are the calls whose results the script reads for the first time after its last call, in the order of the reads.
	Waits  []int          `json:"waits,omitempty"`
	Logs   []string       `json:"logs,omitempty"`
	Output map[string]any `json:"output,omitempty"`
	// Horizon is the place where the plan ends before the script, or nil.
	Horizon *Horizon `json:"horizon,omitempty"`
	// Failure is set if the script fails regardless of the results of its calls.
	Failure *writ.Failure `json:"failure,omitempty"`
}

// PlannedCall is one call of a plan.
type PlannedCall struct {
	Seq int `json:"seq"`
	// Hash is the hash of the call in the run, or zero if a part of the call is unknown.
	Hash      writ.Digest    `json:"hash"`
	Operation string         `json:"operation"`
	Name      any            `json:"name,omitempty"`    // a string or an unknown value; nil if the operation has no name
	Args      map[string]any `json:"args,omitempty"`    // including defaults; a handle is {"ref": seq}
	Options   map[string]any `json:"options,omitempty"` // as given by the script
	After     []int          `json:"after,omitempty"`   // sequence numbers of the handles in the arguments, ascending
	// Waits are the calls whose results the script reads for the first time between the previous call and this one,
	// ascending. A run makes this call in a later pass than these calls. The digest of the plan does not depend on Waits.
	Waits    []int  `json:"waits,omitempty"`
	Position string `json:"position"` // "web.tengo:14:2"
}

// Horizon is the place where a plan ends, because the control flow of the script depends on an unknown value.
type Horizon struct {
	Position string `json:"position"`        // "web.tengo:16:7"
	Reason   string `json:"reason"`          // "the condition depends on node.facts 1"
	After    []int  `json:"after,omitempty"` // the calls whose results the plan needs to continue, ascending
}

// Describe formats a value of the plan on one line for people: a string unchanged, a handle as <machine web-0>, an
// unknown value as "(known after machine web-0, herodb store)" or "(known at submission)".
func (p *Plan) Describe(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	return p.describe(v)
}

func (p *Plan) describe(v any) string {
	if after, unknown := KnownAfter(v); unknown {
		return KnownAfterText(p.Calls, after)
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
			return describeSecret(secret)
		}
		if text, ok := catalog.ComposedOf(v); ok {
			return describeComposed(text)
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

// describeSecret formats a secret with its version, because an update may change only the version.
func describeSecret(s catalog.Secret) string { return "<secret " + string(s) + ">" }

// describeComposed formats a text with secrets as its parts. Texts are quoted and secrets are not, so no text of a
// script looks like a secret.
func describeComposed(text catalog.Composed) string {
	parts := make([]string, len(text))
	for i, part := range text {
		switch part := part.(type) {
		case catalog.Secret:
			parts[i] = describeSecret(part)
		default:
			parts[i] = strconv.Quote(fmt.Sprint(part))
		}
	}
	return strings.Join(parts, " + ")
}

// KnownAfterText formats a value that is known after some calls.
func KnownAfterText(calls []PlannedCall, seqs []int) string {
	if len(seqs) == 0 {
		return KnownAtSubmission
	}
	return "(known after " + CallNames(calls, seqs) + ")"
}

// CallNames formats calls: "machine web-0, node.facts 3".
func CallNames(calls []PlannedCall, seqs []int) string {
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

// label names a call by its resource if the name is known, "machine web-0", otherwise by its operation and sequence
// number, "node.facts 1".
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

// Proposed returns the calls of the plan in the form of a request to a datacenter.
func (p *Plan) Proposed() []writ.ProposedCall {
	calls := make([]writ.ProposedCall, len(p.Calls))
	for i, c := range p.Calls {
		calls[i] = writ.ProposedCall{
			Operation: c.Operation, Name: c.Name, Args: c.Args, Options: c.Options, After: c.After, Waits: c.Waits,
		}
	}
	return calls
}
