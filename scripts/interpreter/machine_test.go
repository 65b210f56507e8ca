package interpreter

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/scripts"
)

// waitsAndCounts stores what it has read in globals, waits in several ways, inside and outside of functions, and fails
// on request.
const waitsAndCounts = `
run := import("run")
node := import("node")
seen := []
note := func(text) { seen = append(seen, text) }
for i := 0; i < 3; i++ {
	note(node.facts().hostname)
	run.log("seen " + len(seen) + " by " + run.project)
}
if len(seen) == 3 && seen[2] == "fail" { boom := 1 / (len(seen) - 3) }
note(node.facts().hostname)
run.log("all " + len(seen))
`

// A pass runs on the VM of the previous pass, and must not see its data.
//
// Promise: Speed and storage: A pass sees no state of earlier passes in its VM.
// How: Globals and natives are exchanged; a VM with an error is not reused.
func TestPassesOfOneMachineAreIndependent(t *testing.T) {
	bundle := scripts.Bundle{Main: scripts.Source{Name: "main.tengo", Text: []byte(waitsAndCounts)}}
	program, err := Compile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	var first *machine
	pass := func(project string, answers ...string) scripts.Outcome {
		t.Helper()
		inputs := scripts.Inputs{Run: writ.RunID("of " + project), Project: project, Allow: []string{"node.facts"}, MaxCalls: scripts.MaxCalls}
		evaluate := func(p *Program, journal []scripts.Entry) scripts.Outcome {
			o, err := p.Pass(context.Background(), inputs, journal)
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		var journal []scripts.Entry
		for _, answer := range answers {
			o := evaluate(must(Compile(bundle)), journal)
			journal = append(journal, scripts.Entry{Seq: len(journal) + 1, Hash: o.Calls[0].Hash, State: scripts.EntrySucceeded, Values: map[string]any{"hostname": answer}})
		}
		want, got := evaluate(must(Compile(bundle)), journal), evaluate(program, journal)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s after %q (-new program +this one):\n%s", project, answers, diff)
		}
		return got
	}
	pass("a")
	if first = program.idle.Load(); first == nil {
		t.Fatal("a pass that waited has left no VM")
	}
	for _, g := range first.globals {
		if g != nil {
			t.Errorf("it has left %v", g)
		}
	}
	pass("b", "x")
	pass("a", "x", "y")
	if o := pass("b", "x", "y", "z", "end"); o.Status != scripts.Completed {
		t.Fatalf("%+v", o)
	}
	pass("a")
	if program.idle.Load() != first {
		t.Error("passes that waited, and one that came to its end, were not carried out by one VM")
	}
	if o := pass("a", "x", "y", "fail"); o.Status != scripts.Failed {
		t.Fatalf("%+v", o)
	}
	if program.idle.Load() != nil {
		t.Error("a VM that met an error is kept")
	}
	pass("b", "x", "y")
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := program.Pass(ended, scripts.Inputs{}, nil); err == nil {
		t.Error("a pass that nobody waits for took place")
	}
	pass("b", "x", "y", "z")
	program.Rest()
	pass("a")
}

func must(p *Program, err error) *Program {
	if err != nil {
		panic(err)
	}
	return p
}
