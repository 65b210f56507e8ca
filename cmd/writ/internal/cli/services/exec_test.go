package services

import (
	"bytes"
	"strings"
	"testing"

	"writ"
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
	want := "warning: the beginning of its output is missing: only the last 24 KiB are kept\na \uFFFD[2Jwarning\n"
	if got := said.String(); got != want {
		t.Errorf("output = %q, want %q", got, want)
	}
}

// The coordinator chooses the container of a deployment, so a name that does not fit needs consent.
func TestUnrelatedContainerNeedsConsent(t *testing.T) {
	t.Parallel()
	var out, said bytes.Buffer
	env := quietEnv(&out, &said)
	for _, tt := range []struct {
		what, deployment, container string
		want                        writ.Code
	}{
		{"web", "web", "web", ""},
		{"web", "web", "web-1", ""},
		{"web", "web", "website", writ.CodeUsage},
		{"web", "web", "db", writ.CodeUsage},
		{"container/db", "web", "db", ""},
		{"container/db", "", "db", ""},
	} {
		container := writ.ResourceID{Kind: writ.KindContainer, Name: tt.container}
		if err := agreeToContainer(env, tt.what, tt.deployment, container); writ.CodeOf(err) != tt.want {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
}
