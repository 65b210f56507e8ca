package main

import (
	"writ"
	"writ/coord/remedy"
)

// maxWaits limits the reasons that a command which watches a run shows at a time.
const maxWaits = 3

// waitReasons returns at most maxWaits reasons why a run waits, those with a command first. It returns none for a run that
// only waits for running calls.
func (s *situation) waitReasons() (with []waitReason) {
	if s.run.ID == "" || s.run.State.Ended() {
		return nil
	}
	if why := s.whyRun(); s.run.Accepted.IsZero() || s.run.Reason != "" || why.Next.Verb == remedy.ListDatacenters {
		if why.Next == s.watchAgain() {
			why.Next = remedy.Command{}
		}
		return []waitReason{{reason: why}}
	}
	var without []waitReason
	for _, c := range s.calls {
		if c.State.Ended() {
			continue
		}
		why := waitReason{callName(c), s.whyCall(c)}
		switch {
		case !why.Next.IsZero():
			with = append(with, why)
		case c.State != writ.CallRunning && !s.needsOpenCall(c):
			without = append(without, why)
		}
	}
	with = append(with, without...)
	return with[:min(len(with), maxWaits)]
}

// watchAgain returns the command that watches the run.
func (s *situation) watchAgain() remedy.Command {
	return remedy.Command{Line: "writ run watch " + string(s.run.ID)}
}

// needsOpenCall reports whether a call waits for another call of its run.
func (s *situation) needsOpenCall(c writ.Call) bool {
	for _, seq := range c.After {
		if seq <= len(s.calls) && !s.calls[seq-1].State.Ended() {
			return true
		}
	}
	return false
}

// waitClause formats the first reason for the end of a sentence.
func waitClause(all []waitReason) string {
	if len(all) == 0 {
		return ""
	}
	text := "; "
	if all[0].call != "" {
		text += "call " + all[0].call + ": "
	}
	text += all[0].Why
	if !all[0].Next.IsZero() && !all[0].named {
		text += "; next: " + all[0].Next.Line
	}
	return text
}
