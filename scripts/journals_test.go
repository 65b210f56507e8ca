package scripts_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/interpreter"
)

// A recording is a folder of testdata/journals: the files of a bundle as they ran, modules in modules/, and
// journal.jsonl. That file has one line for the run, one for each call with its result, and one for the outcome of a
// pass after each number of calls.
const (
	recordings  = "testdata/journals"
	lines       = "journal.jsonl"
	moduleFiles = "modules"
)

var (
	record = flag.String("record", "", "record a run of this script and add it to "+recordings)
	given  = flag.String("params", "{}", "the parameters of the run to record, as JSON")
)

// recordedRun is the first line of a recording.
type recordedRun struct {
	Engine string         `json:"engine"`
	Main   string         `json:"main"`
	Inputs scripts.Inputs `json:"inputs"`
	Calls  int            `json:"calls"` // number of lines with calls after it
}

// recordedCall is a call and its result.
type recordedCall struct {
	Call  scripts.NewCall `json:"call"`
	Entry scripts.Entry   `json:"entry"`
}

// recordedPass is the outcome of a pass with the first entries of the journal. The calls are in the following lines;
// the logs are in the last pass.
type recordedPass struct {
	After   int             `json:"after"`
	Calls   int             `json:"calls"`
	Logs    int             `json:"logs"`
	Outcome scripts.Outcome `json:"outcome"`
}

// recording is a recorded run, or a run that can be recorded.
type recording struct {
	run    recordedRun
	bundle scripts.Bundle
	calls  []recordedCall
	passes []recordedPass
}

// journal returns the first n entries.
func (r *recording) journal(n int) []scripts.Entry {
	journal := make([]scripts.Entry, n)
	for i := range journal {
		journal[i] = r.calls[i].Entry
	}
	return journal
}

// pass runs a pass with the first n entries.
func (r *recording) pass(t *testing.T, p *interpreter.Program, n int) (recordedPass, []scripts.NewCall) {
	t.Helper()
	o, err := p.Pass(t.Context(), r.run.Inputs, r.journal(n))
	if err != nil {
		t.Fatal(err)
	}
	calls := o.Calls
	o.Calls = nil
	found := recordedPass{After: n, Calls: len(calls), Logs: len(o.Logs), Outcome: o}
	if n < len(r.calls) {
		found.Outcome.Logs = nil
	}
	if found.Outcome.Failure != nil {
		found.Outcome.Failure.Hint = "" // hints may improve
	}
	return found, calls
}

// Promise: Evaluation and resumes: A run started under an earlier binary of the same engine continues unchanged.
// How: Recorded runs use every operation and function; a test replays them from every prefix.
// Also: TestRecordingsUseEverything.
func TestRecordedRunsReplay(t *testing.T) {
	for _, name := range recorded(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := read(t, name)
			replayed(t, r)
			if t.Failed() {
				t.Error("A run that began before this change could not go on after it. A recording is never changed. If the change is meant, " +
					"it is a new engine: give scripts.Engine another name, and let Engines list the old one only as long as runs of it replay.")
			}
		})
	}
}

// replayed compares the passes of a recorded run with their recorded outcomes.
func replayed(t *testing.T, r *recording) {
	t.Helper()
	if !slices.Contains(scripts.Engines(), r.run.Engine) {
		t.Errorf("the engine %s is gone", r.run.Engine)
	}
	p, err := interpreter.Compile(r.bundle)
	if err != nil {
		t.Errorf("it no longer compiles: %v", err)
		return
	}
	for n, want := range r.passes {
		want.Outcome.Handled = r.failed(want.Outcome.Handled)
		got, calls := r.pass(t, p, n)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %d calls a pass finds something else (-recorded +now):\n%s", n, diff)
		}
		for i, call := range calls {
			if n+i >= len(r.calls) {
				t.Errorf("extra call after %d calls: %+v", n, call)
			} else if diff := cmp.Diff(r.calls[n+i].Call, asRecorded(call, r.calls[n+i].Call)); diff != "" {
				t.Errorf("call %d is another one (-recorded +now):\n%s", call.Seq, diff)
			}
		}
	}
}

// failed returns the calls that failed. Older recordings list the handled calls that succeeded, too.
func (r *recording) failed(seqs []int) []int {
	var failed []int
	for _, seq := range seqs {
		if r.calls[seq-1].Entry.State == scripts.EntryFailed {
			failed = append(failed, seq)
		}
	}
	return failed
}

// asRecorded removes arguments that a later catalogue added: the hash covers only the arguments in the script.
func asRecorded(call, recorded scripts.NewCall) scripts.NewCall {
	call.Args = maps.Clone(call.Args)
	maps.DeleteFunc(call.Args, func(key string, _ any) bool {
		_, known := recorded.Args[key]
		return !known
	})
	if len(call.Args) == 0 {
		call.Args = nil
	}
	if recorded.Read == "" { // recorded before the field existed; it is for people only
		call.Read = ""
	}
	return call
}

// Every member and function that scripts can use is in a recording, so that no change stays unnoticed.
func TestRecordingsUseEverything(t *testing.T) {
	missing := make(map[string]bool)
	for _, op := range catalog.Operations() {
		missing[op.Name()] = true
	}
	for _, function := range interpreter.Builtins() {
		missing[function] = true
	}
	for _, module := range scripts.Modules() {
		for _, m := range interpreter.Members(module) {
			if m.Call || module == "run" {
				missing[module+"."+m.Name] = true
			}
		}
	}
	used := regexp.MustCompile(`\b(?:[a-z0-9_]+\.)?[a-z0-9_]+\b`)
	for _, name := range recorded(t) {
		r := read(t, name)
		for _, c := range r.calls {
			delete(missing, c.Call.Operation)
		}
		for _, source := range append([]scripts.Source{r.bundle.Main}, r.bundle.Modules...) {
			for _, word := range used.FindAllString(string(source.Text), -1) {
				if _, isOperation := catalog.Lookup(word); !isOperation {
					delete(missing, word)
				}
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("no recorded run uses %s; see CONTRIBUTING.md for recording one", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
}

// TestRecord adds a recording: see -record.
func TestRecord(t *testing.T) {
	if *record == "" {
		t.Skip("nothing to record")
	}
	text, err := os.ReadFile(*record)
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{run: recordedRun{Engine: scripts.Engine, Main: filepath.Base(*record)}}
	if r.bundle, err = scripts.Resolve(scripts.Source{Name: r.run.Main, Text: text}, func(module string) ([]byte, error) {
		return os.ReadFile(filepath.Join(filepath.Dir(*record), module+".tengo"))
	}); err != nil {
		t.Fatal(err)
	}
	report := check.Check(r.bundle)
	if err := report.Err(); err != nil {
		t.Fatal(report.String())
	}
	var params map[string]any
	d := json.NewDecoder(strings.NewReader(*given))
	d.UseNumber()
	if err := d.Decode(&params); err != nil {
		t.Fatal(err)
	}
	if params, err = report.Params.Fill(whole(params)); err != nil {
		t.Fatal(err)
	}
	r.run.Inputs = scripts.Inputs{
		Params: params, Run: "rec0rded", Project: "shop", Datacenter: "dc", DatacenterName: "home", Allow: report.Operations, MaxCalls: 100,
	}
	for _, secret := range report.Secrets {
		r.run.Inputs.Secrets = append(r.run.Inputs.Secrets, secret+"@1")
	}
	p := compile(t, r.bundle)
	_, w := play(t, p, r.run.Inputs, nil)
	for len(w.open) > 0 {
		w.answer(0)
	}
	for i, call := range w.calls {
		r.calls = append(r.calls, recordedCall{Call: call, Entry: w.journal[i]})
	}
	r.run.Calls = len(r.calls)
	for n := range len(r.calls) + 1 {
		pass, _ := r.pass(t, p, n)
		r.passes = append(r.passes, pass)
	}
	r.write(t, filepath.Join(recordings, strings.TrimSuffix(r.run.Main, ".tengo")))
}

func (r *recording) write(t *testing.T, folder string) {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	put := func(v any) {
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	put(r.run)
	for _, c := range r.calls {
		put(c)
	}
	for _, p := range r.passes {
		put(p)
	}
	files := map[string][]byte{lines: b.Bytes(), r.run.Main: r.bundle.Main.Text}
	for _, m := range r.bundle.Modules {
		files[filepath.Join(moduleFiles, m.Name+".tengo")] = m.Text
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%s exists, and a recording is never changed (%v)", folder, err)
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s: %d calls, %s", folder, len(r.calls), r.passes[len(r.calls)].Outcome.Status)
}

// recorded returns the names of all recordings.
func recorded(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(recordings, "*", lines))
	if err != nil || len(found) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for i := range found {
		found[i] = filepath.Base(filepath.Dir(found[i]))
	}
	return found
}

// read reads a recording.
func read(t *testing.T, name string) *recording {
	t.Helper()
	folder := filepath.Join(recordings, name)
	file, err := os.Open(filepath.Join(folder, lines))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	r := &recording{}
	d := json.NewDecoder(file)
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(&r.run); err != nil {
		t.Fatal(err)
	}
	r.calls, r.passes = make([]recordedCall, r.run.Calls), make([]recordedPass, r.run.Calls+1)
	for i := range r.calls {
		c := &r.calls[i]
		if err := d.Decode(c); err != nil {
			t.Fatal(err)
		}
		c.Call.Args, c.Entry.Values = whole(c.Call.Args), whole(c.Entry.Values)
	}
	for i := range r.passes {
		if err := d.Decode(&r.passes[i]); err != nil {
			t.Fatal(err)
		}
		r.passes[i].Outcome.Output = whole(r.passes[i].Outcome.Output)
	}
	r.run.Inputs.Params = whole(r.run.Inputs.Params)
	r.bundle = bundleIn(t, folder, r.run.Main)
	return r
}

func bundleIn(t *testing.T, folder, main string) scripts.Bundle {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, main))
	if err != nil {
		t.Fatal(err)
	}
	bundle := scripts.Bundle{Main: scripts.Source{Name: main, Text: text}}
	root := filepath.Join(folder, moduleFiles)
	files, err := filepath.Glob(filepath.Join(root, "*.tengo"))
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob(filepath.Join(root, "*", "*.tengo"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, deeper...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(file), filepath.ToSlash(root)+"/"), ".tengo")
		bundle.Modules = append(bundle.Modules, scripts.Source{Name: name, Text: text})
	}
	return bundle
}

// whole restores 64-bit integers in values that were decoded from JSON.
func whole(m map[string]any) map[string]any {
	for key, v := range m {
		m[key] = integer(v)
	}
	return m
}

func integer(v any) any {
	switch v := v.(type) {
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			return fmt.Errorf("%s is not a value: %w", v, err)
		}
		return n
	case []any:
		for i := range v {
			v[i] = integer(v[i])
		}
	case map[string]any:
		return whole(v)
	}
	return v
}
