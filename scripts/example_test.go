package scripts_test

import (
	"context"
	"fmt"

	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/interpreter"
)

const web = `
volume := import("volume")
run := import("run")

data := volume.create("data", {size_gib: 10})
run.log("data is ready", data.node)
`

// A plan lists the calls of a script that are known before it runs. It ends where the script reads a result to decide
// on the next call.
func ExamplePlanOf() {
	bundle := scripts.Bundle{Main: scripts.Source{Name: "web.tengo", Text: []byte(web)}}
	plan, err := interpreter.PlanOf(context.Background(), bundle, scripts.Inputs{Project: "shop", Allow: []string{"volume.create"}, MaxCalls: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range plan.Calls {
		fmt.Println(c.Seq, c.Operation, c.Name, c.Args["size_gib"], c.Position)
	}
	// Output: 1 volume.create data 10 web.tengo:5:9
}

// A pass is a pure function of the script, its inputs and the journal of the run. It stops where it needs a result that
// the journal does not have yet. The next pass starts from the beginning with more results.
func ExampleProgram_Pass() {
	program, err := interpreter.Compile(scripts.Bundle{Main: scripts.Source{Name: "web.tengo", Text: []byte(web)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	inputs := scripts.Inputs{Project: "shop", Allow: []string{"volume.create"}, MaxCalls: 10}
	first, err := program.Pass(context.Background(), inputs, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(first.Status, first.Calls[0].Operation, first.Waiting)

	done := scripts.Entry{Seq: 1, Hash: first.Calls[0].Hash, State: scripts.EntrySucceeded, Values: map[string]any{"node": "n1"}}
	second, err := program.Pass(context.Background(), inputs, []scripts.Entry{done})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(second.Status, second.Logs)
	// Output:
	// waiting volume.create [1]
	// completed [data is ready n1]
}

// Check reads a script without running it and reports all its diagnostics.
func ExampleCheck() {
	text := `
volume := import("volume")
volume.create("data", {size: 10})
`
	report := check.Check(scripts.Bundle{Main: scripts.Source{Name: "web.tengo", Text: []byte(text)}})
	for _, d := range report.Diagnostics {
		fmt.Printf("%s: %s %s: %s\n", d.Position(), d.Severity, d.Code, d.Message)
	}
	// Output: web.tengo:3:24: error W0104: volume.create has no field "size"
}
