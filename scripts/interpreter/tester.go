package interpreter

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/d5/tengo/v2"

	"writ/internal/meant"
	"writ/scripts"
	"writ/scripts/scripttest"
)

// Names that occur only in the statements that callTests appends to a test file.
const (
	nativeTester   = "\x00t"
	nativeSelected = "\x00selected:" // followed by the index of a test
)

// tester is the argument of a test.
type tester struct {
	tengo.ObjectImpl
	pass *pass
}

// testMembers are the members of t.
var testMembers = map[string]member{
	"run":       onTrial(1, 2, testRun),
	"plan":      onTrial(1, 2, testPlan),
	"resources": onTrial(0, 0, testResources),
	"call":      onTrial(2, 2, testCall),
	"equal":     onTrial(2, 3, testEqual),
	"ok":        onTrial(1, 2, testOK),
	"contains":  onTrial(2, 3, testContains),
	"fail":      onTrial(1, -1, testFail),
	"fatal":     onTrial(1, -1, testFatal),
	"log":       onTrial(1, -1, testLog),
	"skip":      onTrial(1, 1, testSkip),
}

func (t *tester) TypeName() string   { return "test" }
func (t *tester) String() string     { return "<test>" }
func (t *tester) Copy() tengo.Object { return t }

// IndexGet returns a member. An unknown member is an error.
func (t *tester) IndexGet(index tengo.Object) (tengo.Object, error) {
	key, ok := index.(*tengo.String)
	if !ok {
		return nil, tengo.ErrInvalidIndexType
	}
	found, ok := testMembers[key.Value]
	if !ok {
		return nil, fmt.Errorf("t has no %q; %s", key.Value, meant.Member(key.Value, TestMembers()))
	}
	return found.function(t.pass, "t."+key.Value), t.pass.meter.burn(1)
}

// selectedTest returns the native that reports whether the test with this index is the test to run.
func selectedTest(index string) *native {
	n, _ := strconv.Atoi(index)
	return &native{name: "selected", call: func(p *pass, _ []tengo.Object) (tengo.Object, error) {
		if p.test == nil {
			return tengo.FalseValue, nil
		}
		p.test.began = p.test.began || p.test.index == n
		return boolean(p.test.index == n), nil
	}}
}

// onTrial returns a member of t.
func onTrial(least, most int, f func(t *trial, args []tengo.Object) (tengo.Object, error)) member {
	return member{least: least, most: most, call: func(p *pass, args []tengo.Object) (tengo.Object, error) {
		return f(p.test, args)
	}}
}

// testRun runs a script.
func testRun(t *trial, args []tengo.Object) (tengo.Object, error) {
	r, err := rehearsal(t.fuel, "t.run", args)
	if err != nil {
		return nil, err
	}
	done, err := t.sim.Run(t.ctx, r)
	if err != nil {
		return nil, t.failFor(err)
	}
	for _, target := range done.Untouched {
		t.fail(fmt.Sprintf("this run of %s did not call %s", r.Script, target))
	}
	return records(t.fuel, "the result of t.run", rehearsedValue(&done))
}

func testPlan(t *trial, args []tengo.Object) (tengo.Object, error) {
	r, err := rehearsal(t.fuel, "t.plan", args)
	if err != nil {
		return nil, err
	}
	if len(r.Faults) > 0 || len(r.Results) > 0 {
		return nil, scripttest.ErrPlanned
	}
	plan, err := t.sim.Plan(t.ctx, r)
	if err != nil {
		return nil, t.failFor(err)
	}
	return records(t.fuel, "the result of t.plan", planValue(&plan))
}

// rehearsal parses the arguments of t.run or t.plan.
func rehearsal(fuel *meter, name string, args []tengo.Object) (scripttest.Rehearsal, error) {
	script, ok := args[0].(*tengo.String)
	if !ok {
		return scripttest.Rehearsal{}, fmt.Errorf("%s takes the path of a script, not a %s", name, args[0].TypeName())
	}
	options, err := given(fuel, name, args[1:])
	if err != nil {
		return scripttest.Rehearsal{}, err
	}
	r, problems := scripttest.Parse(options, isHandle)
	r.Script = script.Value
	if len(problems) > 0 {
		return r, fmt.Errorf("%s: %s", name, problemTexts(problems))
	}
	return r, nil
}

// given returns the options as values.
func given(fuel *meter, name string, args []tengo.Object) (map[string]any, error) {
	if len(args) == 0 || args[0] == tengo.UndefinedValue {
		return nil, nil
	}
	m, ok := pairsOf(args[0])
	if !ok {
		return nil, fmt.Errorf("%s takes a script and a map, not a %s", name, args[0].TypeName())
	}
	e := encoder{fuel: fuel, plain: true} // to check and measure the values; the encoded text is not used
	if err := e.object(args[0], 0); err != nil {
		return nil, within("the options", err)
	}
	return valuesOf(m), fuel.burnMemory(4 * len(e.buf))
}

// testResources lists the current resources.
func testResources(t *trial, _ []tengo.Object) (tengo.Object, error) {
	found, err := t.sim.Resources(t.ctx)
	if err != nil {
		return nil, t.failFor(err)
	}
	list := &tengo.Array{}
	for _, r := range found {
		o, err := records(t.fuel, "a resource", map[string]any{
			"kind": string(r.Kind), "name": r.Name, "node": r.Node, "args": orEmptyMap(r.Args), "values": orEmptyMap(r.Values),
		})
		if err != nil {
			return nil, err
		}
		list.Value = append(list.Value, o)
	}
	return list, nil
}

// records converts v to a record, in which a read of an unknown field is an error instead of undefined. The calls in v
// become records, too.
func records(fuel *meter, what string, v map[string]any) (tengo.Object, error) {
	if err := fuel.burnMemory(4 * scripts.EncodedSize(v)); err != nil {
		return nil, err
	}
	r := &record{what: "field", of: what, fields: make(map[string]tengo.Object, len(v))}
	for key, value := range v {
		calls, ok := value.([]any)
		if ok && key == "calls" {
			list := &tengo.Array{}
			for _, c := range calls {
				call, err := records(fuel, "a call", c.(map[string]any))
				if err != nil {
					return nil, err
				}
				list.Value = append(list.Value, call)
			}
			r.fields[key] = list
			continue
		}
		o, err := objectOf(value)
		if err != nil {
			return nil, err
		}
		r.fields[key] = o
	}
	return r, nil
}

// testCall returns a call of a run. The test ends if the call is missing.
func testCall(t *trial, args []tengo.Object) (tengo.Object, error) {
	r, ok := args[0].(*record)
	if !ok || r.fields["calls"] == nil || r.fields["steps"] == nil {
		return nil, fmt.Errorf("t.call takes the result of t.run or t.plan, not a %s", args[0].TypeName())
	}
	step, ok := args[1].(*tengo.String)
	if !ok {
		return nil, fmt.Errorf(`t.call takes a call as "machine.create web-0", not a %s`, args[1].TypeName())
	}
	steps, _ := elementsOf(r.fields["steps"])
	calls, _ := elementsOf(r.fields["calls"])
	if err := t.fuel.burn(int64(len(steps))); err != nil {
		return nil, err
	}
	var names []string
	for i, s := range steps {
		name, _ := s.(*tengo.String)
		if name == nil || i >= len(calls) {
			continue
		}
		if name.Value == step.Value {
			return calls[i], nil
		}
		names = append(names, name.Value)
	}
	text := fmt.Sprintf("unknown call %q", step.Value)
	switch closest := meant.Closest(step.Value, names); {
	case len(names) == 0:
		text += "; the script made no calls"
	case closest != "":
		text += fmt.Sprintf("; did you mean %q?", closest)
	default:
		text += "; the calls are:\n  " + strings.Join(names, "\n  ")
	}
	t.fail(text)
	return nil, errTestEnds
}

// testEqual compares as == does.
func testEqual(t *trial, args []tengo.Object) (tengo.Object, error) {
	got, want := args[0], args[1]
	same, err := equal(t.fuel, got, want, 0)
	if err != nil || same {
		return boolean(same), err
	}
	text, err := difference(t.fuel, got, want)
	if err != nil {
		return nil, err
	}
	return t.assertion(text, args[2:])
}

// testOK asserts that a value counts as true.
func testOK(t *trial, args []tengo.Object) (tengo.Object, error) {
	if !args[0].IsFalsy() {
		return tengo.TrueValue, nil
	}
	shape, err := pretty(t.fuel, args[0])
	if err != nil {
		return nil, err
	}
	return t.assertion("got "+shape+", want a true value", args[1:])
}

// testContains asserts that a string has a part, a list an element, or a map a key.
func testContains(t *trial, args []tengo.Object) (tengo.Object, error) {
	found, err := contains(t.fuel, args[0], args[1])
	if err != nil || found {
		return boolean(found), err
	}
	whole, err := pretty(t.fuel, args[0])
	if err != nil {
		return nil, err
	}
	part, err := pretty(t.fuel, args[1])
	if err != nil {
		return nil, err
	}
	if strings.Contains(whole, "\n") {
		return t.assertion(part+" is not in\n"+indent(whole), args[2:])
	}
	return t.assertion(part+" is not in "+whole, args[2:])
}

func contains(fuel *meter, whole, part tengo.Object) (bool, error) {
	if s, ok := whole.(*tengo.String); ok {
		sub, ok := part.(*tengo.String)
		if !ok {
			return false, fmt.Errorf("t.contains looks for a string in a string, not for a %s", part.TypeName())
		}
		return strings.Contains(s.Value, sub.Value), fuel.burn(int64(len(s.Value)) / 16)
	}
	if list, ok := elementsOf(whole); ok {
		for _, e := range list {
			if same, err := equal(fuel, e, part, 0); same || err != nil {
				return same, err
			}
		}
		return false, fuel.burn(int64(len(list)))
	}
	if m, ok := pairsOf(whole); ok {
		key, ok := part.(*tengo.String)
		if !ok {
			return false, fmt.Errorf("t.contains looks for a key in a map, not for a %s", part.TypeName())
		}
		_, found := m[key.Value]
		return found, nil
	}
	return false, fmt.Errorf("t.contains looks into a string, a list or a map, not into a %s", whole.TypeName())
}

// assertion records a failed assertion, with the author's message. The test continues.
func (t *trial) assertion(found string, message []tengo.Object) (tengo.Object, error) {
	if len(message) > 0 {
		about, err := text(t.fuel, message[0])
		if err != nil {
			return nil, err
		}
		found = about + ": " + found
	}
	t.fail(found)
	return tengo.FalseValue, t.fuel.burnMemory(len(found))
}

// words joins arguments with spaces, as run.log does.
func words(fuel *meter, args []tengo.Object) (string, error) {
	texts := make([]string, len(args))
	for i, arg := range args {
		var err error
		if texts[i], err = text(fuel, arg); err != nil {
			return "", err
		}
	}
	return strings.TrimSuffix(strings.Join(texts, " "), "\n"), nil
}

func testFail(t *trial, args []tengo.Object) (tengo.Object, error) {
	message, err := words(t.fuel, args)
	if err != nil {
		return nil, err
	}
	t.fail(message)
	return tengo.UndefinedValue, t.fuel.burnMemory(len(message))
}

func testFatal(t *trial, args []tengo.Object) (tengo.Object, error) {
	if _, err := testFail(t, args); err != nil {
		return nil, err
	}
	return nil, errTestEnds
}

func testLog(t *trial, args []tengo.Object) (tengo.Object, error) {
	text, err := words(t.fuel, args)
	if err != nil {
		return nil, err
	}
	t.addNote(false, text)
	return tengo.UndefinedValue, t.fuel.burnMemory(len(text))
}

// testSkip ends the test as skipped. A failed test stays failed.
func testSkip(t *trial, args []tengo.Object) (tengo.Object, error) {
	why, err := text(t.fuel, args[0])
	if err != nil {
		return nil, err
	}
	t.addNote(false, why)
	if v := t.verdict; v.Outcome == scripttest.Passed {
		v.Outcome = scripttest.Skipped
	}
	return nil, errTestEnds
}
