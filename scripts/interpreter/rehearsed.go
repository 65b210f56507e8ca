package interpreter

import (
	"fmt"
	"strings"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/scripttest"
)

// rehearsedValue returns the result of a run in the form for tests.
func rehearsedValue(r *scripttest.Rehearsed) map[string]any {
	v := map[string]any{
		"state": r.State, "code": nil, "message": nil, "position": nil,
		"output": orEmptyMap(r.Output), "logs": textList(r.Logs),
	}
	if r.Failure != nil {
		v["code"], v["message"], v["position"] = string(r.Failure.Code), r.Failure.Message, r.Failure.Position
	}
	labels := make(map[int]string, len(r.Calls))
	for _, c := range r.Calls {
		labels[c.Seq] = handleText(c.Operation, c.Name, c.Seq)
	}
	changed := int64(0)
	calls, steps := make([]any, len(r.Calls)), make([]any, len(r.Calls))
	for i, c := range r.Calls {
		call := map[string]any{
			"seq": int64(c.Seq), "operation": c.Operation, "name": c.Name, "args": readable(orEmptyMap(c.Args), labels),
			"state": string(c.State), "change": string(c.Change), "code": nil, "message": nil, "tries": int64(c.Attempt),
			"node":   c.NodeName,
			"values": orEmptyMap(c.Values),
		}
		if c.Error != nil && c.State != writ.CallSucceeded {
			call["code"], call["message"] = string(c.Error.Code), c.Error.Message
		}
		switch c.Change {
		case writ.ChangeCreated, writ.ChangeUpdated, writ.ChangeDeleted:
			changed++
		}
		calls[i], steps[i] = call, scripttest.Target{Operation: c.Operation, Name: c.Name}.String()
	}
	v["calls"], v["steps"], v["changed"] = calls, steps, changed
	return v
}

// planValue returns a plan in the form for tests. An unknown value is a text like "(known after volume.create web-0)".
func planValue(p *scripts.Plan) map[string]any {
	v := map[string]any{
		"digest": p.Digest.String(), "complete": p.Horizon == nil && p.Failure == nil, "horizon": nil, "code": nil,
		"message": nil, "position": nil,
		"logs": textList(p.Logs),
	}
	if p.Failure != nil {
		v["code"], v["message"], v["position"] = string(p.Failure.Code), p.Failure.Message, p.Failure.Position
	}
	labels, targets := make(map[int]string, len(p.Calls)), make(map[int]string, len(p.Calls))
	calls, steps := make([]any, len(p.Calls)), make([]any, len(p.Calls))
	for i, c := range p.Calls {
		name, _ := readable(withUnknownTexts(c.Name, targets), nil).(string)
		labels[c.Seq] = handleText(c.Operation, name, c.Seq)
		targets[c.Seq] = scripttest.Target{Operation: c.Operation, Name: name}.String()
		calls[i] = map[string]any{
			"seq": int64(c.Seq), "operation": c.Operation, "name": name, "position": c.Position,
			"args":    readable(withUnknownTexts(orEmptyMap(c.Args), targets), labels),
			"options": withUnknownTexts(orEmptyMap(c.Options), targets),
		}
		steps[i] = targets[c.Seq]
	}
	v["calls"], v["steps"], v["output"] = calls, steps, withUnknownTexts(orEmptyMap(p.Output), targets)
	if p.Horizon != nil {
		v["horizon"] = p.Horizon.Position + ": " + p.Horizon.Reason
	}
	return v
}

// withUnknownTexts replaces unknown values by their texts.
func withUnknownTexts(v any, targets map[int]string) any {
	return rewritten(v, func(part any) (any, bool) {
		seqs, unknown := scripts.KnownAfter(part)
		switch {
		case !unknown:
			return nil, false
		case len(seqs) == 0:
			return scripts.KnownAtSubmission, true
		}
		after := make([]string, len(seqs))
		for i, seq := range seqs {
			after[i] = targets[seq]
		}
		return "(known after " + strings.Join(after, ", ") + ")", true
	})
}

// handleText returns the text of a handle.
func handleText(operation, name string, seq int) string {
	op, ok := catalog.Lookup(operation)
	if !ok {
		return fmt.Sprintf("<%s %d>", operation, seq)
	}
	return (&handle{op: op, seq: seq, name: name}).String()
}

// readable replaces handles by their texts: "<machine web-0>".
func readable(v any, labels map[int]string) any {
	return rewritten(v, func(part any) (any, bool) {
		seq, ok := scripts.RefOf(part)
		return labels[seq], ok && labels[seq] != ""
	})
}

func orEmptyMap(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

func textList(texts []string) []any {
	list := make([]any, len(texts))
	for i, t := range texts {
		list[i] = t
	}
	return list
}
