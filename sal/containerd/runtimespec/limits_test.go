package runtimespec

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"writ"
)

// The limit of a word is that of Linux.
func TestLinuxCannotStartLongArguments(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]bool{MaxWord: true, MaxWord + 1: false} {
		word := strings.Repeat("x", n)
		started := exec.Command(self, "-test.run=^$", word).Run() == nil
		accepted := CheckWords([]string{"a", word}, nil) == nil
		if started != want || accepted != want {
			t.Errorf("%d bytes: started %v, accepted %v", n, started, accepted)
		}
	}
}

func TestUnstartableProgramsAreRefused(t *testing.T) {
	t.Parallel()
	many := make([]string, 40)
	for i := range many {
		many[i] = "A=" + strings.Repeat("s3cret", 10_000)
	}
	for _, tt := range []struct {
		args, env []string
		says      string
	}{
		{[]string{"sh", "a\x00s3cret"}, nil, "its argument 1 contains NUL"},
		{nil, []string{"A=1", "B=s3cret\x00"}, `its variable "B" contains NUL`},
		{nil, []string{"B=" + strings.Repeat("s3cret", 30_000)}, "180002 bytes"},
		{nil, many, "its arguments and variables have 2344 KiB"},
	} {
		err := CheckWords(tt.args, tt.env)
		if writ.CodeOf(err) != writ.CodeArgumentsInvalid || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v, want %q", err, tt.says)
		}
	}
	if err := CheckWords([]string{"sh", "-c", ""}, []string{"A="}); err != nil {
		t.Error(err)
	}
}
