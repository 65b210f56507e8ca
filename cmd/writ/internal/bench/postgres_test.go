package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
)

// TestUnusablePostgresHasItsRemedy checks that the hint depends on the cause: a missing program, or a wrong address.
func TestUnusablePostgresHasItsRemedy(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for _, want := range []string{"apt-get install", "--postgres"} {
		_, err := newPostgres(t.Context(), "postgres://127.0.0.1:1/postgres")
		if writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(writ.AsError(err).Hint, want) {
			t.Errorf("%v, hint %q, want a hint with %s", err, writ.AsError(err).Hint, want)
		}
		program := "#!/bin/sh\necho refused >&2\nexit 2\n"
		if err := os.WriteFile(filepath.Join(dir, "psql"), []byte(program), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newPostgres(ctx, "postgres://127.0.0.1:1/postgres"); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interrupt: %v", err)
	}
}
