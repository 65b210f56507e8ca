package services

import (
	"bytes"
	"os"
	"testing"

	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/terminal"
)

// TestALineThatABreakEndedIsEndedOnce stops a container in the middle of a line, and changes its state again without
// output.
func TestALineThatABreakEndedIsEndedOnce(t *testing.T) {
	var out, err bytes.Buffer
	env := &cli.Env{Terminal: terminal.New(os.Stdin, nil, nil, nil)}
	env.Out, env.Err = &out, &err
	r := &logReader{Env: env, what: "web", follow: true}
	for _, part := range []map[string]any{{"text": "half a li", "state": "running"}, {"state": "stopped"}, {"state": "running"}} {
		if err := r.print(part); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := err.String(), "\n… web is stopped\n… web is running\n"; got != want || out.String() != "half a li" {
		t.Errorf("it shows %q and %q, want %q", out.String(), got, want)
	}
}
