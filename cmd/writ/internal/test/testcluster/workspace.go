package testcluster

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/internal/test/testenv"
)

// Workspace is the directory of a cluster, with the scripts and commands of its users.
type Workspace struct {
	T   testing.TB
	Dir string // working directory of all commands; each process has a subdirectory with its name

	bin  string
	env  []string // additional environment of all processes
	host string   // network namespace of commands; "" means the namespace of the test
}

// Use sets the program for further processes and commands.
func (w *Workspace) Use(program string) { w.bin = program }

// Command returns a command of writ in the cluster, not yet started.
func (w *Workspace) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.bin, args...)
	if w.host != "" {
		cmd = exec.Command(testenv.Need(w.T, "ip"), append([]string{"netns", "exec", w.host, w.bin}, args...)...)
	}
	cmd.Dir = w.Dir
	cmd.Env = []string{
		"HOME=" + w.Dir, "PATH=" + os.Getenv("PATH"), "WRIT_CONFIG=" + filepath.Join(w.Dir, "cluster", "client.yaml"),
	}
	cmd.Env = append(cmd.Env, w.env...)
	return cmd
}

// Writ runs a command that must succeed and returns its standard output.
func (w *Workspace) Writ(args ...string) string {
	w.T.Helper()
	out, said, code := w.Try(args...)
	if code != 0 {
		w.T.Fatalf("writ %s: exit %d\n%s", strings.Join(args, " "), code, said)
	}
	return out
}

// Try runs a command and returns its standard output, its standard error and its exit code.
func (w *Workspace) Try(args ...string) (out, said string, code int) {
	w.T.Helper()
	cmd := w.Command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return stdout.String(), stderr.String(), exit.ExitCode()
	}
	if err != nil {
		w.T.Fatal(err)
	}
	return stdout.String(), stderr.String(), 0
}

// Says repeats a command until it exits with the given code and its output contains all texts.
func (w *Workspace) Says(exit int, texts []string, args ...string) {
	w.T.Helper()
	var said string
	var code int
	is := func(context.Context) bool {
		var out string
		out, said, code = w.Try(args...)
		said = out + said
		return code == exit && !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(said, text) })
	}
	late := time.Now().Add(Patience)
	for !is(w.T.Context()) {
		if time.Now().After(late) {
			w.T.Fatalf("writ %s: exit %d, want %d and %q\n%s", strings.Join(args, " "), code, exit, texts, said)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Script writes a script into the cluster's directory.
func (w *Workspace) Script(name, text string) {
	w.T.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir, name), []byte(text), 0o600); err != nil {
		w.T.Fatal(err)
	}
}

// Submit submits a script and returns its run.
func (w *Workspace) Submit(args ...string) writ.RunID {
	w.T.Helper()
	return writ.RunID(strings.TrimSpace(w.Writ(append([]string{"submit", "--detach"}, args...)...)))
}

// Until waits until the function `is` returns true. It fails the test after Patience.
func (w *Workspace) Until(what string, is func(ctx context.Context) bool) {
	w.T.Helper()
	ctx, stop := context.WithTimeout(w.T.Context(), Patience)
	defer stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !is(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.T.Fatalf("%s: it never is", what)
		}
	}
}
