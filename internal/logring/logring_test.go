package logring

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// wrote writes lines to a file with a ring.
func wrote(t *testing.T, path string, lines ...Line) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stop() // waiting lines are still written
	for len(lines) > 0 {
		r := New()
		n := min(len(lines), maxWaiting)
		for _, l := range lines[:n] {
			r.Add(l)
		}
		if err := r.Run(ctx, path); err != nil {
			t.Fatal(err)
		}
		lines = lines[n:]
	}
}

// texts returns the lines of a file with their numbers.
func texts(t *testing.T, path string) (all []string) {
	t.Helper()
	entries, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, fmt.Sprintf("%d %s", e.Number, e.Text))
	}
	return all
}

func TestRingFileHasTheLastLinesInFixedSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var lines []Line
	for i := range Lines + 7 {
		lines = append(lines, Line{Time: time.Now(), Level: "info", Text: fmt.Sprint("line ", i+1)})
	}
	wrote(t, path, lines...)
	all := texts(t, path)
	if len(all) != Lines || all[0] != "8 line 8" || all[Lines-1] != fmt.Sprintf("%d line %[1]d", Lines+7) {
		t.Errorf("%d lines from %q to %q", len(all), all[0], all[len(all)-1])
	}
	if info, err := os.Stat(path); err != nil || info.Size() > Lines*slotSize || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has %d bytes and is for %v, %v", info.Size(), info.Mode(), err)
	}
}

func TestNextWriterContinuesAfterTheLastLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	at := time.Date(2026, 11, 27, 1, 2, 3, 4, time.FixedZone("", 3600))
	first, second := Line{at, "b1", "warn", "before"}, Line{at.Add(-time.Hour), "b2", "error", "after"}
	wrote(t, path, first)
	wrote(t, path, second)
	got, err := Read(path)
	first.Time, second.Time = first.Time.UTC(), second.Time.UTC()
	if diff := cmp.Diff([]Entry{{first, 1}, {second, 2}}, got); diff != "" || err != nil {
		t.Errorf("%v, %s", err, diff)
	}
}

func TestTornSlotLosesOnlyItsLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	wrote(t, path, Line{Text: "one"}, Line{Text: "two"}, Line{Text: "three"})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte("two"), []byte("tw\x00"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 one", "3 three"}, texts(t, path)); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("what is this?", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if all := texts(t, path); len(all) > 0 {
		t.Errorf("lines of other bytes = %q", all)
	}
}

func TestLongLineIsTruncated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	word := strings.Repeat("ä", 300)
	wrote(t, path, Line{time.Now(), word, word, strings.Repeat("ä", 5000)}, Line{Text: "\xff\xfe" + strings.Repeat("\xff", 5000)}, Line{Text: "the next"})
	got, err := Read(path)
	if err != nil || len(got) != 3 {
		t.Fatalf("%d lines, %v", len(got), err)
	}
	for _, e := range got {
		if len(e.Text) > MaxText || len(e.Boot) > maxWord || len(e.Level) > maxWord || !utf8.ValidString(e.Text+e.Boot+e.Level) {
			t.Errorf("a line has %d bytes: %q", len(e.Text), e.Text)
		}
	}
	if !strings.HasSuffix(got[0].Text, "ä …") {
		t.Errorf("no mark of the cut: %q", got[0].Text)
	}
}

func TestLostLinesAreCounted(t *testing.T) {
	r := New() // without a file
	for i := range maxWaiting + 5 {
		r.Add(Line{Text: fmt.Sprint(i)})
	}
	r.take()
	r.Add(Line{Text: "later"})
	lines := r.take()
	if len(lines) != 2 || !strings.HasPrefix(lines[0].Text, "5 lines are lost here") || lines[1].Text != "later" {
		t.Errorf("%+v", lines)
	}
}

func TestLogRecordBecomesALine(t *testing.T) {
	r := New()
	hide := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "password" {
			a.Value = slog.StringValue("(hidden)")
		}
		return a
	}
	log := slog.New(NewHandler(r, "b1", slog.LevelInfo, hide))
	log.Debug("nothing")
	log.With("dc", "d1").WithGroup("g").Warn("it is\nlate", "time", 7, "password", "canary")
	log.Error("bad")
	var got []string
	for _, l := range r.take() {
		if l.Boot != "b1" || time.Since(l.Time) > time.Hour {
			t.Errorf("%+v", l)
		}
		got = append(got, l.Level+" "+l.Text)
	}
	if diff := cmp.Diff([]string{`warn msg="it is\nlate" dc=d1 g.time=7 g.password=(hidden)`, "error msg=bad"}, got); diff != "" {
		t.Error(diff)
	}
}
