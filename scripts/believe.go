package scripts

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"writ"
	"writ/sal/catalog"
	"writ/scripts/operation"
)

// ErrImpossible reports an outcome that no pass (one evaluation of a script) can have produced.
var ErrImpossible = errors.New("no script can have this outcome")

func impossible(why string) error { return fmt.Errorf("%w: %s", ErrImpossible, why) }

// Check returns ErrImpossible unless a pass over the journal can have produced o. A script may have taken over the
// process that evaluated it, so every outcome of such a process is checked. An accepted outcome contains only calls and
// texts that the script itself could have produced within its signed header. The hashes of calls cannot be checked; a
// wrong hash fails the next honest pass.
//
// The text of the error contains no data from o.
func (o *Outcome) Check(inputs Inputs, journal []Entry) error {
	count := inputs.First + len(journal)
	inOrder := true
	for i := max(inputs.Ended-inputs.First, 0); i < len(journal); i++ {
		seq := journal[i].Seq
		if seq < 1 || seq > count {
			if o.Status != Failed || len(o.Calls) > 0 {
				return impossible("the journal is damaged, and the outcome does not report it")
			}
			return checkFailure(o.Failure, count)
		}
		inOrder = inOrder && seq == inputs.First+i+1
	}
	if !inOrder && inputs.First == 0 {
		sorted := make([]Entry, len(journal))
		for i := range journal {
			sorted[journal[i].Seq-1] = journal[i]
		}
		journal = sorted
	}
	if most := count + len(o.Calls) - MaxOpenCalls; len(o.Calls) > 0 && firstOpen(inputs, journal) <= most {
		return impossible("it makes calls while too many calls are open")
	}
	for i := range o.Calls {
		if err := o.Calls[i].check(inputs, count+i+1); err != nil {
			return err
		}
	}
	if err := o.checkEnd(inputs.First, journal); err != nil {
		return err
	}
	if !ascending(o.Handled, count) || slices.ContainsFunc(o.Handled, func(seq int) bool {
		return seq > inputs.First && journal[seq-1-inputs.First].State != EntryFailed
	}) {
		return impossible("it handled calls that have not failed")
	}
	if inputs.Logged+len(o.Logs) > MaxLogLines && len(o.Logs) > 0 ||
		slices.ContainsFunc(o.Logs, func(line string) bool { return !presentable(line, MaxLogLine+len(cutOff)) }) {
		return impossible("its log is invalid or exceeds the limits")
	}
	return nil
}

// firstOpen returns the first call that is open after the pass, at most the first new call.
func firstOpen(inputs Inputs, journal []Entry) int {
	for i := max(inputs.Ended-inputs.First, 0); i < len(journal); i++ {
		if journal[i].State == EntryOpen {
			return inputs.First + i + 1
		}
	}
	return inputs.First + len(journal) + 1
}

// checkEnd checks the status of the pass and the fields that belong to it. The journal begins after `first` calls.
func (o *Outcome) checkEnd(first int, journal []Entry) error {
	made := first + len(journal)
	calls := made + len(o.Calls)
	if o.Status != Completed && o.Output != nil || o.Status != Waiting && len(o.Waiting) > 0 ||
		o.Status != Failed && o.Failure != nil {
		return impossible("its fields contradict its status")
	}
	switch o.Status {
	case Waiting:
		if len(o.Waiting) != 1 || !ascending(o.Waiting, calls) ||
			o.Waiting[0] <= first || o.Waiting[0] <= made && journal[o.Waiting[0]-1-first].State != EntryOpen {
			return impossible("it waits for a call that is not open")
		}
	case Completed:
		if writ.CheckValue(o.Output) != nil || EncodedSize(o.Output) > MaxResult {
			return impossible("its output is invalid")
		}
	case Failed:
		return checkFailure(o.Failure, calls)
	default:
		return impossible("its status is unknown")
	}
	return nil
}

func checkFailure(f *writ.Failure, calls int) error {
	const most = 2 * MaxLogLine // a message with a position before it
	switch {
	case f == nil, f.Code.Info().Code != f.Code, f.Seq < 0, f.Seq > calls, len(f.Trace) > MaxTrace:
		return impossible("its failure is missing or invalid")
	case !presentable(f.Message, most), !presentable(f.Hint, most):
		return impossible("the message of its failure is not a valid text")
	case !isPosition(f.Position), slices.ContainsFunc(f.Trace, func(p string) bool { return !isPosition(p) }):
		return impossible("the position of its failure is invalid")
	}
	return nil
}

// check checks a new call, which must have the sequence number seq.
func (c *NewCall) check(inputs Inputs, seq int) error {
	op, known := catalog.Lookup(c.Operation)
	switch {
	case c.Seq != seq:
		return impossible("its calls are not in order")
	case !known || inputs.Permit(op, seq) != nil:
		return impossible("it makes a call that the header does not allow")
	case op.Named() != (c.Name != "") || op.Named() && !writ.ValidName(c.Name):
		return impossible("the name of a call's resource is invalid")
	case !isPosition(c.Position), c.Read != "" && !isPosition(c.Read):
		return impossible("the position of a call is invalid")
	}
	const heads = 9 // EncodedSize overestimates, and c.Args includes defaults; both together add less than this factor
	if writ.CheckValue(c.Args) != nil || EncodedSize(c.Args) > heads*MaxArguments {
		return impossible("the arguments of a call are invalid or too big")
	}
	refs := make(map[int]bool)
	problems := op.Args.CheckSent(c.Args, func(v any) (writ.ResourceKind, bool) {
		ref, ok := RefOf(v)
		if ok {
			refs[ref] = true
		}
		return "", ok
	})
	if len(problems) > 0 || len(operation.OptionSchema.Check(optionsOf(c.Options), nil)) > 0 || c.Options.Timeout < 0 ||
		c.Options.Timeout > operation.MaxTimeout.Milliseconds() ||
		c.Options.OnLoss == operation.OnLossReplace && operation.Irreplaceable(op, c.Options) != "" {
		return impossible("the arguments or options of a call do not match its operation")
	}
	for ref := range refs {
		if !slices.Contains(c.After, ref) {
			return impossible("a call does not wait for a call that it depends on")
		}
	}
	if !ascending(c.After, seq-1) {
		return impossible("a call depends on a later call")
	}
	needs := len(refs)
	if op.Named() {
		needs++ // the script may give a handle instead of the name
	}
	if len(c.After) > needs {
		return impossible("a call depends on calls that its arguments do not name")
	}
	for _, secret := range op.Args.Secrets(c.Args) {
		if !slices.Contains(inputs.Secrets, string(secret)) {
			return impossible("a call uses a secret that the header does not name")
		}
	}
	for _, image := range catalog.Images(op.Args, c.Args) {
		if !slices.Contains(inputs.Images, image) {
			return impossible("a call uses an image that the header does not name")
		}
	}
	return nil
}

// optionsOf returns the options as a script would write them, for the schema. It omits the timeout, which a script
// writes as a string.
func optionsOf(o writ.CallOptions) map[string]any {
	given := map[string]any{"idempotent": o.Idempotent, "adopt": o.Adopt}
	if o.Retries != nil {
		given["retries"] = int64(*o.Retries)
	}
	if o.OnLoss != "" {
		given["on_loss"] = o.OnLoss
	}
	if o.Node != "" {
		given["node"] = o.Node
	}
	if o.Labels != nil {
		labels := make(map[string]any, len(o.Labels))
		for key, v := range o.Labels {
			labels[key] = v
		}
		given["labels"] = labels
	}
	return given
}

// ascending reports whether seqs are strictly ascending sequence numbers from 1 to last.
func ascending(seqs []int, last int) bool {
	before := 0
	for _, seq := range seqs {
		if seq <= before || seq > last {
			return false
		}
		before = seq
	}
	return true
}

// isPosition reports whether text is a position, or empty.
func isPosition(text string) bool { return presentable(text, 200) && !strings.Contains(text, "\t") }
