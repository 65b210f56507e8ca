package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Empties runs the shell lines returned by list until list returns none. It runs failed lines again, because a line may
// depend on a later one. After 20 seconds it fails the test with the output of the lines. It skips the test like Need
// if a program of a line is missing.
func Empties(t testing.TB, list func() []string) {
	t.Helper()
	var said []byte
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		lines := list()
		if len(lines) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%q do not help:\n%s", lines, said)
		}
		said = nil
		for _, line := range lines {
			out, _ := Shell(t, line).CombinedOutput()
			said = append(said, out...)
		}
	}
}

// Shell returns a command that runs a line with sh. It calls Need for each program in the line that the shell does not
// find by itself.
func Shell(t testing.TB, line string) *exec.Cmd {
	t.Helper()
	path := os.Getenv("PATH")
	for _, program := range programsOf(line) {
		if exec.Command("sh", "-c", `command -v -- "$0"`, program).Run() != nil {
			path = strings.TrimPrefix(path+":"+filepath.Dir(Need(t, program)), ":")
		}
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+path)
	return cmd
}

// programsOf returns the first word of each simple command in a shell line. It supports quotes and command separators.
// It does not support substitutions, comments and compound commands.
func programsOf(line string) (all []string) {
	var word strings.Builder
	quote, before, complete := rune(0), rune(0), false // complete: the command has its first word
	end := func() {
		if word.Len() > 0 && !complete {
			all, complete = append(all, word.String()), true
		}
		word.Reset()
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == '&' && strings.ContainsRune("<>", before): // a redirection: 2>&1
			word.WriteRune(r)
		case quote == 0 && strings.ContainsRune(";|&\n", r):
			end()
			complete = false
		case quote == 0 && (r == ' ' || r == '\t'):
			end()
		default:
			word.WriteRune(r)
		}
		before = r
	}
	end()
	return all
}
