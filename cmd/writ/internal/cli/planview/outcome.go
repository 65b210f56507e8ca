package planview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/why"
	"writ/cmd/writ/internal/terminal"
)

// Failed returns the error of a plan that would not succeed, or nil if it may succeed.
func (p *View) Failed() error {
	if f := p.seen().Failure; f != nil {
		e := writ.Errorf(f.Code, "the script would fail: %s", f.Message)
		e.Hint = orExplain(f.Hint, f.Code)
		e.Message += why.WhereFailed(f, p.Bundle)
		return &terminal.ExitError{Err: e, Exit: writ.ExitFailed}
	}
	if p.Preview == nil {
		return nil
	}
	if e := p.Preview.Refused; e != nil {
		return writ.Errorf(e.Code, "the script would not be accepted: %s", e.Message).WithHint("%s", orExplain(e.Hint, e.Code))
	}
	refused := p.callsWhere(func(c *writ.PreviewedCall) bool {
		return c.Action == writ.ActionRefused && c.Error != nil && !p.handled(c.Seq)
	})
	if len(refused) == 0 {
		return nil
	}
	first := refused[0]
	e := writ.Errorf(first.Error.Code, "%s would fail: %s", p.title(first.Seq), first.Error.Message)
	if len(refused) > 1 {
		e.Message = fmt.Sprintf("%s would fail; the first is %s: %s", cli.Count(len(refused), "call"), p.title(first.Seq),
			first.Error.Message)
	}
	e.Hint = orExplain(first.Error.Hint, first.Error.Code)
	exit := writ.ExitPlanUnplaced
	for _, c := range refused {
		switch c.Error.Code {
		case writ.CodeNoCapacity, writ.CodePortClosed, writ.CodePortTaken, writ.CodeDeviceForbidden,
			writ.CodeDependencyFailed:
		default:
			exit = writ.ExitFailed
		}
	}
	return &terminal.ExitError{Err: e, Exit: exit}
}

// orExplain returns a hint, or else the command that explains the code.
func orExplain(hint string, code writ.Code) string {
	return cmp.Or(hint, fmt.Sprintf("see `writ explain %s`", code))
}

// Unplaced returns the error of a plan with calls that would wait for a node, or nil if a node can carry out each call
// now.
func (p *View) Unplaced() error {
	if p.Preview == nil {
		return nil
	}
	waiting := p.callsWhere(func(c *writ.PreviewedCall) bool { return c.Waits })
	if len(waiting) == 0 {
		return nil
	}
	first := waiting[0]
	e := writ.Errorf(writ.CodeNoCapacity, "no node can carry out %s now", p.title(first.Seq))
	if len(waiting) > 1 {
		e.Message = fmt.Sprintf("no node can carry out %s now, %s first", cli.Count(len(waiting), "call"), p.title(first.Seq))
	}
	if first.Reason != "" {
		e.Message += ": " + first.Reason
	}
	e.Hint = "a run of this script would wait; `writ node list` lists the nodes"
	return &terminal.ExitError{Err: e, Exit: writ.ExitPlanUnplaced}
}

// callsWhere returns the previewed calls that match, in the order of the script.
func (p *View) callsWhere(match func(*writ.PreviewedCall) bool) []*writ.PreviewedCall {
	var calls []*writ.PreviewedCall
	for i := range p.Preview.Calls {
		if c := &p.Preview.Calls[i]; match(c) {
			calls = append(calls, c)
		}
	}
	return calls
}

// handled reports whether the plan ends because the script reads the result of call seq. The script may then handle a
// failure of the call.
func (p *View) handled(seq int) bool {
	end := p.seen().Horizon
	return end != nil && slices.Contains(end.After, seq)
}

// title names a call: "3 machine.create web-0".
func (p *View) title(seq int) string {
	c := p.seen().Calls[seq-1]
	name := ""
	if c.Name != nil {
		name = p.seen().Describe(c.Name)
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", c.Seq, c.Operation, name))
}
