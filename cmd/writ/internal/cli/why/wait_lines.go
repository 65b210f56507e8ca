package why

import (
	"context"
	"fmt"
	"strings"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/coord/remedy"
)

// CallName formats the name of a call: "3 machine.create web-0".
func CallName(c writ.Call) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", c.Seq, c.Operation, c.Name))
}

// maxWaits limits the reasons that a command which watches a run shows at a time.
const maxWaits = 3

// WaitReasons returns at most maxWaits reasons why a run waits, those with a command first. It returns none for a run
// that only waits for running calls.
func (s *Situation) WaitReasons() (with []WaitReason) {
	if s.Run.ID == "" || s.Run.State.Ended() {
		return nil
	}
	if why := s.whyRun(); s.Run.Accepted.IsZero() || s.Run.Reason != "" || why.Next.Verb == remedy.ListDatacenters {
		if why.Next == watchCommand(s.Run.ID) {
			why.Next = remedy.Command{}
		}
		return []WaitReason{{Reason: why}}
	}
	var without []WaitReason
	for _, c := range s.Calls {
		if c.State.Ended() {
			continue
		}
		why := WaitReason{CallName(c), s.whyCall(c)}
		switch {
		case !why.Next.IsZero():
			with = append(with, why)
		case c.State != writ.CallRunning && !needsOpenCall(c, s.Calls):
			without = append(without, why)
		}
	}
	with = append(with, without...)
	return with[:min(len(with), maxWaits)]
}

// WaitReasonsOf requests a run, and returns the reasons why it waits. It returns nil if the coordinator does not
// answer.
func WaitReasonsOf(ctx context.Context, c *client.Client, id writ.RunID) []WaitReason {
	s, err := SituationOf(ctx, c, id)
	if err != nil {
		return nil
	}
	return s.WaitReasons()
}

// watchCommand returns the command that watches a run.
func watchCommand(run writ.RunID) remedy.Command {
	return remedy.Command{Line: "writ run watch " + string(run)}
}

// needsOpenCall reports whether a call needs another call of its run that has not ended.
func needsOpenCall(c writ.Call, calls []writ.Call) bool {
	for _, seq := range c.After {
		if seq <= len(calls) && !calls[seq-1].State.Ended() {
			return true
		}
	}
	return false
}

// WaitClause formats the first reason for the end of a sentence.
func WaitClause(all []WaitReason) string {
	if len(all) == 0 {
		return ""
	}
	text := "; "
	if all[0].Call != "" {
		text += "call " + all[0].Call + ": "
	}
	text += all[0].Why
	if !all[0].Next.IsZero() && !all[0].named {
		if first := all[0].Next.First(); first != "" {
			text += "; first: " + first
		}
		text += "; next: " + all[0].Next.Line
	}
	return text
}

// WaitReason is a reason why a run or one of its calls waits.
type WaitReason struct {
	Call string // "3 machine.create web-0", "" for the run
	Reason
}

// line formats the reason for the screen.
func (r WaitReason) line() string { return "… " + strings.TrimPrefix(r.Call+": ", ": ") + r.Why }

// nextLines formats the command to type next. It returns "" if the reason has no command, or its text contains it.
func (r WaitReason) nextLines() string {
	if r.Next.IsZero() || r.named {
		return ""
	}
	var b strings.Builder
	writeNext(&b, "  ", r.Next.First(), r.Next.Line, r.Next.Effect())
	return strings.TrimSuffix(b.String(), "\n")
}
