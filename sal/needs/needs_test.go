package needs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"writ"
)

func TestFindingNamesLossAndFix(t *testing.T) {
	fails := func(err error) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return "", err }
	}
	found := Examine(t.Context(), "m", []Need{
		{Name: "a", Use: "no a", Fix: "get a", Look: Given(true)},
		{Name: "b", Use: "no b", Fix: "get b", Look: fails(errors.New("it is away"))},
		{Name: "c", Use: "no c", Fix: "get c", Vital: true, Look: fails(writ.Errorf(writ.CodeDriverMissing, "it is old").WithHint("get a new c"))},
		{Name: "d", Use: "no d", Fix: "get d", Vital: true, Look: fails(errors.New("it is away"))},
		{Name: "e", Use: "no e", Fix: "get e", Look: fails(fmt.Errorf("make e: %w", unix.EPERM))},
		{Name: "f", Use: "no f", Fix: "get f", Rights: "join the group of f", Look: fails(fs.ErrPermission)},
	})
	want := []Finding{
		{Module: "m", Need: "a", State: OK, Detail: "configured"},
		{Module: "m", Need: "b", State: Degraded, Detail: "it is away", Use: "no b", Fix: "get b"},
		{Module: "m", Need: "c", State: Missing, Detail: "it is old", Use: "no c", Fix: "get a new c"},
		{Module: "m", Need: "d", State: Missing, Detail: "it is away", Use: "no d", Fix: "get d"},
		{Module: "m", Need: "e", State: Degraded, Detail: "make e: operation not permitted", Use: "no e", Fix: RightsFix},
		{Module: "m", Need: "f", State: Degraded, Detail: "permission denied", Use: "no f", Fix: "join the group of f"},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
	if err := Refusal(found); writ.CodeOf(err) != writ.CodeDriverMissing || err.Error() != "c: it is old" || writ.AsError(err).Hint != "get a new c" {
		t.Errorf("the refusal is %v (%s)", err, writ.AsError(err).Hint)
	}
	if err := Refusal(found[:2]); err != nil {
		t.Errorf("a degraded need is refused: %v", err)
	}
}

func TestProgramsAreKnownByPathAndVersion(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	program := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	program("tool", "echo tool v1.10.2-3ubuntu")
	program("mute", "exit 1")
	for _, c := range []struct{ name, least, found, wrong string }{
		{"tool", "", "tool, 1.10.2", ""},
		{"tool", "1.9", "tool, 1.10.2", ""},
		{"tool", "2.0", "", "is version 1.10.2, but 2.0 or newer is required"},
		{"mute", "2.0", "mute", ""},
		{"nothing-of-this-name", "", "", "not on PATH"},
	} {
		found, err := Program(c.name, c.least)(t.Context())
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) || !strings.HasSuffix(found, c.found) {
			t.Errorf("%s %s: %q, %v", c.name, c.least, found, err)
		}
	}
}

func TestVersionIsReadOncePerFile(t *testing.T) {
	program, runs := filepath.Join(t.TempDir(), "tool"), filepath.Join(t.TempDir(), "runs")
	var versions Versions
	for i, version := range []string{"1.2", "1.2", "1.10", "1.10"} {
		if i%2 == 0 {
			text := fmt.Sprintf("#!/bin/sh\necho run >>%s\necho tool v%s\n", runs, version)
			if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := versions.Of(t.Context(), program, program, "--version"); got != version || err != nil {
			t.Errorf("the version is %q, %v, want %s", got, err, version)
		}
	}
	if text, err := os.ReadFile(runs); err != nil || strings.Count(string(text), "run") != 2 {
		t.Errorf("it ran %q, %v", text, err)
	}
}

func TestRoomUsesTheNearestDirectory(t *testing.T) {
	dir := t.TempDir()
	if at := Nearest(filepath.Join(dir, "not", "there")); at != dir {
		t.Errorf("nearest is %s", at)
	}
	if found, err := Room(filepath.Join(dir, "not", "there"), 1)(t.Context()); err != nil || !strings.HasSuffix(found, dir) {
		t.Errorf("%q, %v", found, err)
	}
	if _, err := Room(dir, 1<<62)(t.Context()); err == nil {
		t.Error("Room accepts 1<<62 bytes")
	}
}

func TestVersionsAreCompared(t *testing.T) {
	for _, c := range []struct {
		version, least string
		is             bool
	}{{"7.0.15", "6.2", true}, {"6.2", "6.2", true}, {"6.0.16", "6.2", false}, {"10.0", "7.2", true}, {"unknown", "6.2", false}, {"7", "6.2", true}, {"6", "6.2", false}} {
		if got := AtLeast(c.version, c.least); got != c.is {
			t.Errorf("%q is at least %q: %t", c.version, c.least, got)
		}
	}
}
