package scripttest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"writ"
	"writ/internal/meant"
	"writ/sal/catalog"
)

// rehearsalKeys are the keys of the second argument of t.run.
var rehearsalKeys = []string{"deployment", "fail", "nodes", "params", "project", "results"}

var faultSchema = catalog.Schema{
	{Name: "code", Type: catalog.String},
	{Name: "message", Type: catalog.String, Max: new(int64(1_000))},
	{Name: "times", Type: catalog.Int, Min: new(int64(1)), Max: new(int64(1_000))},
}

// Parse parses the second argument of t.run. It skips values that are catalog.Unknown, so that a check
// validates the literal part as a run does.
func Parse(options map[string]any, isHandle catalog.IsHandle) (r Rehearsal, problems []catalog.Problem) {
	wrong := func(message string, path ...any) {
		problems = append(problems, catalog.Problem{Path: path, Reason: catalog.WrongValue, Message: message})
	}
	for _, key := range slices.Sorted(maps.Keys(options)) {
		v := options[key]
		if _, unknown := v.(catalog.Unknown); unknown || v == nil {
			continue
		}
		switch key {
		case "params":
			if m, ok := v.(map[string]any); ok {
				r.Params = m
			} else {
				wrong("params is a map", key)
			}
		case "project", "deployment":
			name, ok := v.(string)
			if !ok || !writ.ValidName(name) {
				wrong(key+" is a name: 1 to 63 lower-case letters, digits and hyphens", key)
			} else if key == "project" {
				r.Project = name
			} else {
				r.Deployment = name
			}
		case "nodes":
			n, ok := v.(int64)
			if !ok || n < 1 || n > MaxSimNodes {
				wrong(fmt.Sprintf("nodes is a number from 1 to %d", MaxSimNodes), key)
				continue
			}
			r.Nodes = int(n)
		case "fail", "results":
			m, ok := v.(map[string]any)
			if !ok {
				wrong(key+" is a map from calls to their outcomes", key)
				continue
			}
			problems = append(problems, r.parseTargets(key, m, isHandle)...)
		default:
			problems = append(problems, catalog.Problem{
				Path: catalog.Path{key}, Reason: catalog.UnknownField, Message: fmt.Sprintf("unknown option %q", key),
				Suggestion: meant.Closest(key, rehearsalKeys),
			})
		}
	}
	return r, problems
}

// parseTargets parses the entries of fail or results.
func (r *Rehearsal) parseTargets(key string, m map[string]any, isHandle catalog.IsHandle) (problems []catalog.Problem) {
	for _, text := range slices.Sorted(maps.Keys(m)) {
		at := catalog.Path{key, text}
		target, op, problem := parseTarget(text)
		if problem != nil {
			problem.Path = at
			problems = append(problems, *problem)
			continue
		}
		if _, unknown := m[text].(catalog.Unknown); unknown {
			continue
		}
		given, ok := m[text].(map[string]any)
		switch {
		case !ok && key == "fail":
			problems = append(problems,
				catalog.Problem{
					Path: at, Reason: catalog.WrongType, Message: `a failure is a map like {code: "NO_CAPACITY", times: 1}`,
				})
		case !ok:
			problems = append(problems,
				catalog.Problem{Path: at, Reason: catalog.WrongType, Message: "a result is a map of its fields"})
		case key == "fail":
			fault, more := parseFault(target, given, isHandle)
			r.Faults = append(r.Faults, fault)
			problems = append(problems, below(at, more)...)
		default:
			more := slices.DeleteFunc(op.Result.Check(given, isHandle),
				func(p catalog.Problem) bool { return p.Reason == catalog.MissingField })
			r.Results = append(r.Results, Substitute{Target: target, Values: given})
			problems = append(problems, below(at, more)...)
		}
	}
	return problems
}

func below(at catalog.Path, problems []catalog.Problem) []catalog.Problem {
	for i := range problems {
		problems[i].Path = slices.Concat(at, problems[i].Path)
	}
	return problems
}

func parseFault(target Target, given map[string]any, isHandle catalog.IsHandle) (Fault, []catalog.Problem) {
	f := Fault{Target: target, Code: writ.CodeInjected, Message: "the test makes " + target.String() + " fail"}
	problems := faultSchema.Check(given, isHandle)
	if code, ok := given["code"].(string); ok {
		f.Code = writ.Code(code)
		if f.Code.Info().Code != f.Code {
			problems = append(problems, catalog.Problem{
				Path: catalog.Path{"code"}, Reason: catalog.WrongValue, Message: fmt.Sprintf("unknown code %q", code),
				Suggestion: closestCode(code),
			})
		}
	}
	if message, ok := given["message"].(string); ok {
		f.Message = message
	}
	if times, ok := given["times"].(int64); ok {
		f.Times = int(times)
	}
	return f, problems
}

func closestCode(code string) string {
	names := make([]string, len(writ.Codes))
	for i, c := range writ.Codes {
		names[i] = strings.ToLower(string(c.Code))
	}
	return strings.ToUpper(meant.Closest(strings.ToLower(code), names))
}

// parseTarget parses "machine.create web-0" or "machine.create".
func parseTarget(text string) (Target, *catalog.Operation, *catalog.Problem) {
	refuse := func(format string, args ...any) (Target, *catalog.Operation, *catalog.Problem) {
		return Target{}, nil, &catalog.Problem{Reason: catalog.WrongValue, Message: fmt.Sprintf(format, args...)}
	}
	operation, name, named := strings.Cut(text, " ")
	op, ok := catalog.Lookup(operation)
	switch {
	case !ok:
		t, o, p := refuse("unknown operation %q", operation)
		p.Suggestion = meant.Closest(operation, operationNames())
		return t, o, p
	case op.Effect == catalog.Find:
		return refuse("%s runs without a node, so a test cannot replace it", operation)
	case named && !op.Named():
		return refuse("%s has no resource, so it takes no name", operation)
	case named && !writ.ValidName(name):
		return refuse("%q cannot name a %s", name, op.Kind)
	}
	return Target{Operation: operation, Name: name}, op, nil
}

func operationNames() []string {
	var names []string
	for _, op := range catalog.Operations() {
		names = append(names, op.Name())
	}
	return names
}

// ErrPlanned rejects results and faults for a plan.
var ErrPlanned = errors.New("t.plan: a plan is made before any call, so none can fail or have a result")
