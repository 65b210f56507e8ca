package workflow

import (
	"errors"
	"fmt"
	"slices"

	"writ"
	"writ/identity"
	"writ/identity/target"
	"writ/internal/clip"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/operation"
	"writ/supervisor/journal"
)

// ProposedCall is a validated call of a proposal.
type ProposedCall struct {
	scripts.NewCall
	Op      *catalog.Operation
	unnamed bool     // the name of its resource is unknown yet
	waits   []int    // see writ.ProposedCall
	unknown []string // arguments with unknown values, in the order of the schema
}

// MaxPreviewed limits the calls of a preview, and so its memory and CPU time. A run may have more.
const MaxPreviewed = scripts.MaxOpenCalls

// ReadProposal validates the deployment, the targets and the calls of a proposal, which comes from an untrusted client.
// Its calls are checked like the calls of a pass.
func ReadProposal(p *writ.Proposal) ([]ProposedCall, error) {
	switch {
	case p.Deployment != "" && !writ.ValidName(p.Deployment):
		return nil, writ.Errorf(writ.CodeBadRequest, "%q is not a valid name for a deployment", Short(p.Deployment))
	case p.Deployment == "" && p.Base != nil, p.Base != nil && *p.Base < 0:
		return nil, writ.Errorf(writ.CodeBadRequest, "base is a revision of a deployment")
	case len(p.Targets) > target.Max,
		slices.ContainsFunc(p.Targets, func(t string) bool { return !target.Valid(t) }):
		return nil, writ.Errorf(writ.CodeBadRequest, "targets are at most %d names like volume/web-0 or volume/web-*",
			target.Max)
	case len(p.Uses) > identity.MaxUses,
		slices.ContainsFunc(p.Uses, func(name string) bool { return !writ.ValidName(name) }):
		return nil, writ.Errorf(writ.CodeBadRequest, "uses are at most %d names of deployments", identity.MaxUses)
	case len(p.Calls) > MaxPreviewed:
		return nil, writ.Errorf(writ.CodeTooLarge, "the plan has %d calls; a preview has at most %d", len(p.Calls),
			MaxPreviewed)
	}
	calls := make([]ProposedCall, 0, len(p.Calls))
	for i := range p.Calls {
		c, err := readCall(&p.Calls[i], calls)
		if err != nil {
			return nil, writ.Errorf(writ.CodeBadRequest, "call %d: %v", i+1, err).
				WithHint("create the plan with the version of the datacenter or an earlier one")
		}
		calls = append(calls, c)
	}
	if slices.ContainsFunc(p.Waits, func(seq int) bool { return seq < 1 || seq > len(calls) }) ||
		len(p.Waits) > len(calls) {
		return nil, writ.Errorf(writ.CodeBadRequest, "waits are not calls of the plan")
	}
	return calls, nil
}

// Short shortens a client's text for a message, to 80 bytes and an ellipsis.
func Short(text string) string { return clip.Text(text, 80) }

// readCall validates a call, given the calls before it.
func readCall(p *writ.ProposedCall, before []ProposedCall) (ProposedCall, error) {
	seq := len(before) + 1
	op, ok := catalog.Lookup(p.Operation)
	if !ok {
		return ProposedCall{}, fmt.Errorf("unknown operation %q", Short(p.Operation))
	}
	c := ProposedCall{Op: op, waits: p.Waits}
	if !rising(p.After, seq) || !rising(p.Waits, seq) {
		return c, errors.New("its needs and waits are not earlier calls in ascending order")
	}
	var err error
	c.NewCall = scripts.NewCall{Seq: seq, Operation: op.Name(), After: slices.Clone(p.After)}
	if c.Name, c.unnamed, err = readName(op, p.Name, seq); err != nil {
		return c, err
	}
	args, _ := marked(p.Args).(map[string]any)
	args = op.Args.NameSecrets(args)
	isHandle := func(v any) (writ.ResourceKind, bool) {
		n, ok := scripts.RefOf(v)
		if _, needed := slices.BinarySearch(p.After, n); !ok || !needed { // After is rising and below seq
			return "", false
		}
		if op := before[n-1].Op; op.Named() {
			return op.Kind, true
		}
		return "nothing", true // its result has no resource, so it fits no argument
	}
	if problems := op.Args.CheckSent(args, isHandle); len(problems) > 0 {
		return c, fmt.Errorf("%s: %s", op.Name(), Short(problems[0].String()))
	}
	c.Args = op.Args.Fill(args)
	for _, f := range op.Args {
		if v, given := c.Args[f.Name]; given && hides(v) {
			c.unknown = append(c.unknown, f.Name)
		}
	}
	options, _ := marked(p.Options).(map[string]any)
	if labels, ok := options["labels"].(map[string]any); ok {
		for name, v := range labels {
			if hides(v) { // an unknown label excludes no node
				delete(labels, name)
			}
		}
	}
	c.Options, err = operation.PlannedOptions(options)
	return c, err
}

// rising reports whether seqs are ascending and all earlier than seq.
func rising(seqs []int, seq int) bool {
	last := 0
	for _, s := range seqs {
		if s <= last || s >= seq {
			return false
		}
		last = s
	}
	return true
}

// readName validates the name of a call. An unknown name becomes a name that no resource can have.
func readName(op *catalog.Operation, name any, seq int) (text string, unnamed bool, err error) {
	if _, unknown := scripts.KnownAfter(name); unknown && op.Named() {
		return fmt.Sprintf("?%d", seq), true, nil
	}
	text, _ = name.(string)
	switch {
	case !op.Named() && name != nil:
		return "", false, fmt.Errorf("%s takes no name", op.Name())
	case op.Named() && !writ.ValidName(text):
		return "", false, fmt.Errorf("%s needs the name of a %s", op.Name(), op.Kind)
	}
	return text, false, nil
}

// marked returns a copy of v with catalog.Unknown in place of unknown values.
func marked(v any) any {
	if _, unknown := scripts.KnownAfter(v); unknown {
		return catalog.Unknown{}
	}
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = marked(e)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = marked(e)
		}
		return m
	}
	return v
}

// hides reports whether v contains an unknown value.
func hides(v any) bool {
	switch v := v.(type) {
	case catalog.Unknown:
		return true
	case []any:
		return slices.ContainsFunc(v, hides)
	case map[string]any:
		for _, e := range v {
			if hides(e) {
				return true
			}
		}
	}
	return false
}

// ProposalRun returns the run that a submission of the proposal would make, without an ID.
func ProposalRun(p *writ.Proposal, calls []ProposedCall, project string, revision int) *journal.Run {
	run := &journal.Run{
		Run: writ.Run{
			Project: p.Project, ProjectName: project, Deployment: p.Deployment, Revision: revision + 1, State: writ.RunRunning,
		},
		Destructive: p.Destructive, Targets: p.Targets, Uses: p.Uses,
	}
	for _, c := range calls {
		run.Allow = append(run.Allow, c.Operation)
	}
	slices.Sort(run.Allow)
	run.Allow = slices.Compact(run.Allow)
	return run
}
