package runview

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/cli/why"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
	"writ/scripts"
)

// TookRun returns the duration of a run from its acceptance, "" if it has not ended or was not accepted.
func TookRun(r api.Run) string {
	if r.Ended.IsZero() || r.Accepted.IsZero() {
		return ""
	}
	return cli.ShortDuration(r.Ended.Sub(r.Accepted))
}

// Failed returns the error of a run that did not succeed. It has the exit code of a failed run, unless the datacenter
// has refused the submission. script is the path of the submitted script, "" if unknown. bundle provides the source
// line of the failure and may be empty.
func Failed(env *cli.Env, run api.Run, failure *writ.Failure, script string, bundle scripts.Bundle) error {
	if env.Structured() {
		if err := env.Print(terminal.View{Data: run}); err != nil {
			return err
		}
	}
	e := writ.Errorf(writ.CodeScriptFailed, "run %s %s", run.ID, cli.StateClause(writ.RunState(run.State)))
	if failure != nil {
		e.Code, e.Hint = failure.Code, failure.Hint
		e.Message += ": " + failure.Message
		e.Message += why.WhereFailed(failure, bundle)
		for _, line := range why.TraceLines(failure) {
			e.Message += "\n  " + line
		}
		if cli.OnGitHub() {
			annotateFailure(env, failure, script)
		}
	}
	if run.Accepted.IsZero() {
		return e
	}
	if e.Hint == "" {
		e.Hint = fmt.Sprintf("`writ run show %s` shows its calls", run.ID)
	}
	return &terminal.ExitError{Err: e, Exit: writ.ExitFailed}
}

// annotateFailure writes an annotation at the line where a run failed.
func annotateFailure(env *cli.Env, failure *writ.Failure, script string) {
	if line, column := FailedAt(failure, script); line > 0 {
		cli.Annotation(env, "error", string(failure.Code), failure.Message, "file", script, "line", line, "col", column)
	}
}

// FailedAt returns the position of a failure in the submitted script. This is the position of the error, or of the call
// in the script that led to it. It returns 0 if the script has no such position.
func FailedAt(failure *writ.Failure, script string) (line, column int) {
	for _, at := range append([]string{failure.Position}, failure.Trace...) {
		if name, line, column, ok := scripts.ParsePosition(at); ok && name == filepath.Base(script) {
			return line, column
		}
	}
	return 0, 0
}

// OutputText formats the output of a script, with one value per line.
func OutputText(output map[string]any) string {
	var fields []terminal.Field
	for name, value := range output {
		text, ok := value.(string)
		if !ok {
			encoded, err := json.Marshal(value)
			if err != nil {
				encoded = []byte(fmt.Sprint(value))
			}
			text = string(encoded)
		}
		fields = append(fields, terminal.Field{Title: terminal.Clean(name), Value: text})
	}
	slices.SortFunc(fields, func(a, b terminal.Field) int { return terminal.CompareNames(a.Title, b.Title) })
	return terminal.Fields(fields, true)
}
