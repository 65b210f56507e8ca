package services

import (
	"bytes"
	"strings"
	"testing"
)

func TestOutputsOfProgramArePrinted(t *testing.T) {
	t.Parallel()
	var out, said bytes.Buffer
	shown := executed{Stdout: strings.Repeat("o", maxExecOutput), Stderr: "a \x1b[2Jwarning\n"}
	if err := printProgram(quietEnv(&out, &said), shown); err != nil {
		t.Fatal(err)
	}
	if out.String() != shown.Stdout {
		t.Errorf("the output has %d of %d bytes", out.Len(), len(shown.Stdout))
	}
	want := "warning: the beginning of its output is missing: the last 24 KiB are kept\na \uFFFD[2Jwarning\n"
	if got := said.String(); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}
