package docs_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/format"
	"writ/scripts/interpreter"
)

// TestScriptsOfTheManual checks all scripts in the manual and runs the valid ones. The info string of a fence sets the
// expectation:
//
//	tengo                no diagnostics; the run completes and prints the text of the next fence
//	tengo check=W0105    exactly this diagnostic
//	tengo fails=CODE     no diagnostics; the run fails with this code
//
// Promise: Plans, scripts and manuals: The manual's scripts are correct: they pass their check, run, and print the
// shown output; faulty ones get the named diagnostic.
// How: A test checks and runs each.
func TestScriptsOfTheManual(t *testing.T) {
	for _, page := range []string{"scripts.md", "coming-from.md", "coming-from-tools.md", "databases.md", "logs.md"} {
		text, err := os.ReadFile(filepath.Join("manual", page))
		if err != nil {
			t.Fatal(err)
		}
		modules := map[string]string{}
		shown, scriptsSeen := "", 0
		for _, f := range fences(string(text)) {
			switch {
			case f.language == "text":
				if diff := cmp.Diff(f.text, shown); diff != "" {
					t.Errorf("%s:%d: the script above shows something else (-text +shown):\n%s", page, f.line, diff)
				}
			case f.language == "tengo" && f.attributes["module"] != "":
				modules[f.attributes["module"]] = f.text
			case f.language == "tengo":
				scriptsSeen++
				shown = showScript(t, fmt.Sprintf("%s:%d", page, f.line), f, modules)
			}
		}
		if scriptsSeen == 0 {
			t.Errorf("%s shows no script", page)
		}
	}
}

// showScript checks a script and runs it if it is valid. It returns its log and output.
func showScript(t *testing.T, place string, f fence, modules map[string]string) string {
	bundle, err := scripts.Resolve(scripts.Source{Name: "manual.tengo", Text: []byte(f.text)}, func(name string) ([]byte, error) {
		if text, ok := modules[name]; ok {
			return []byte(text), nil
		}
		return nil, fs.ErrNotExist
	})
	if err != nil {
		t.Fatal(err)
	}
	report := check.Check(bundle)
	var codes []string
	for _, d := range report.Diagnostics {
		codes = append(codes, d.Code)
	}
	if code := f.attributes["check"]; code != "" {
		if !slices.Equal(codes, []string{code}) {
			t.Errorf("%s: the check finds %v, want %s\n%s", place, codes, code, report)
		}
		return ""
	}
	if len(codes) > 0 {
		t.Errorf("%s:\n%s", place, report)
		return ""
	}
	if formatted, err := format.Format(bundle.Main); err != nil || string(formatted) != f.text {
		t.Errorf("%s: not formatted (%v):\n%s", place, err, cmp.Diff(f.text, string(formatted)))
	}
	outcome := carryOut(t, bundle, report)
	want := writ.Code(f.attributes["fails"])
	if (outcome.Status == scripts.Failed) != (want != "") || want != "" && outcome.Failure.Code != want {
		t.Errorf("%s: %s %+v, want %q", place, outcome.Status, outcome.Failure, want)
	}
	var b strings.Builder
	for _, line := range outcome.Logs {
		b.WriteString(line + "\n")
	}
	for _, name := range slices.Sorted(maps.Keys(outcome.Output)) {
		text, ok := outcome.Output[name].(string)
		if !ok {
			encoded, err := json.Marshal(outcome.Output[name])
			if err != nil {
				t.Fatal(err)
			}
			text = string(encoded)
		}
		fmt.Fprintf(&b, "%s: %s\n", name, text)
	}
	return b.String()
}

// carryOut runs a script. It answers calls at once, like a datacenter with simulated drivers.
func carryOut(t *testing.T, bundle scripts.Bundle, report check.Report) scripts.Outcome {
	program, err := interpreter.Compile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	params, err := report.Params.Fill(nil)
	if err != nil {
		t.Fatal(err)
	}
	in := scripts.Inputs{Params: params, Run: "manual", Project: "shop", DatacenterName: "home", Allow: report.Operations, MaxCalls: scripts.MaxCalls}
	for _, name := range report.Secrets {
		in.Secrets = append(in.Secrets, name+"@1")
	}
	var journal []scripts.Entry
	there := map[string]bool{}
	for {
		outcome, err := program.Pass(t.Context(), in, journal)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range outcome.Calls {
			op, _ := catalog.Lookup(c.Operation)
			e := scripts.Entry{Seq: c.Seq, Hash: c.Hash, State: scripts.EntrySucceeded, Values: resultOf(op, c)}
			if id := string(op.Kind) + " " + c.Name; op.Effect == catalog.Make {
				there[id] = true
			} else if op.Effect == catalog.Find && op.Named() && !there[id] {
				e.State, e.Values, e.Error = scripts.EntryFailed, nil, writ.Errorf(writ.CodeResourceUnknown, "project shop has no %s", id)
			}
			journal = append(journal, e)
		}
		if outcome.Status != scripts.Waiting {
			return outcome
		}
	}
}

// resultOf returns a valid result of an operation.
func resultOf(op *catalog.Operation, c scripts.NewCall) map[string]any {
	values := map[string]any{}
	for _, f := range op.Result {
		switch given, ok := c.Args[f.Name]; {
		case ok && f.Type != catalog.Handle && f.Type != catalog.List:
			values[f.Name] = given
		case f.Name == "name":
			values[f.Name] = c.Name
		case f.Name == "next":
			values[f.Name] = "0123456789ab-0"
		case f.Name == "state":
			values[f.Name] = "running"
		case f.Type == catalog.Int:
			values[f.Name] = int64(c.Seq)
		case f.Type == catalog.Bool:
			values[f.Name] = true
		case f.Type == catalog.List:
			values[f.Name] = []any{}
		default:
			values[f.Name] = f.Name + "-" + c.Name
		}
	}
	if c.Operation == "run.now" {
		values["unix_ms"] = int64(1_795_272_600_000)
	}
	return values
}
