package sal

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"writ"
)

func TestCloneIsCompleteAndKeepsHoles(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	want := make([]byte, 8<<20)
	copy(want[3<<20:], bytes.Repeat([]byte("data"), 1<<18))
	f, err := os.Create(from)
	if err == nil {
		_, err = f.WriteAt(want[3<<20:4<<20], 3<<20)
	}
	if err == nil {
		err = errors.Join(f.Truncate(int64(len(want))), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".to.part"), []byte("left by a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Clone(t.Context(), from, to, 0, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the clone has %d other bytes, %v", len(got), err)
	}
	if err := Clone(t.Context(), from, to, 0, nil); writ.CodeOf(err) != writ.CodeResourceConflict {
		t.Errorf("a clone over a file: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	another := filepath.Join(dir, "another")
	err = Clone(ctx, from, another, 0, func(string) { cancel() })
	if _, there := os.Stat(another); err != nil && (!errors.Is(err, context.Canceled) || there == nil) {
		t.Errorf("it ended with %v and %v", err, there)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("it left %q, %v", left, err)
	}
}
